"""The tutorial's scenarios and the real models, as in the demo: each row is compared with PyTorch."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from scenario import SCENARIOS


@contextlib.contextmanager
def where_torchvision_is() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torchvision":
            raise
        pytest.skip("torchvision is not installed")


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name: str) -> None:
    with where_torchvision_is():
        assert importlib.import_module(name).rows()


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("a misspelled name", "did you mean Asinh"),
        ("two inputs", "2 inputs given, 1 expected"),
        ("an unknown attribute", 'no attribute "base"'),
        ("an opset too low", "ONNX has it since opset 18, but the target is opset 9"),
    ],
)
def test_wrong_symbolic_function_is_refused(what: str, expected: str) -> None:
    example = importlib.import_module("aten_operator")
    function = example.wrong_functions()[what]
    text = example.error_of(function)
    assert expected in text
    assert function.__name__ in text  # the function
    assert "aten_operator.py:" in text  # the line of the model


def model_names() -> list[str]:
    return list(importlib.import_module("models").EXAMPLES)


@pytest.mark.parametrize("dynamic", [False, True], ids=["constant", "dynamic"])
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", model_names())
def test_model(name: str, capture: str, dynamic: bool) -> None:
    with where_torchvision_is():
        row = importlib.import_module("models").row(name, capture, dynamic)
    assert row.max_relative < 1e-4
