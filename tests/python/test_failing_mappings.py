"""Mappings in Python that raise errors: all of them are reported, with the rest of the model."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import IN_THIS_PYTHON, opbridge

import opbridge as package

SCRIPT = """
import torch

import opbridge


def operator(name):
    made = torch.library.custom_op(f"failing_test::{name}", lambda x: x * 2, mutates_args=(),
                                   schema="(Tensor x) -> Tensor")
    made.register_fake(lambda x: torch.empty_like(x))
    return made


first, second, third, unmapped = map(operator, ("first", "second", "third", "unmapped"))


@opbridge.symbolic("failing_test::first")
def map_first(g, x):
    raise ValueError("no such thing")


@opbridge.symbolic("failing_test::second")
def map_second(g, x):
    g.refuse("it is too wide")


@opbridge.symbolic("failing_test::third")
def map_third(g, x):
    raise opbridge.Error("an error of the base class")


class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def symbolic(g, x):
        return x.nothing


class Model(torch.nn.Module):
    def forward(self, x):
        x = torch.cond(x.sum() > 0, lambda x: first(x) + 1, lambda x: x - 1, (first(x),))
        return unmapped(Plain.apply(third(second(x.relu()))))


def make_model():
    return Model(), (torch.ones(2),)
"""
TOLD = (
    "the symbolic function map_first for failing_test::first raised ValueError: no such thing (script.py:",
    "it is too wide",
    "an error of the base class",
    "the symbolic function Plain.symbolic raised AttributeError",
    "failing_test::unmapped  (1 call)",
)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("failing") / "script.py"
    path.write_text(SCRIPT)
    return path


def examined(script: Path, *options: Any) -> str:
    done = opbridge("doctor", f"{script}:make_model", *options, env=IN_THIS_PYTHON)
    assert done.returncode == 1, done.stderr
    return done.stdout


def test_doctor_goes_on(script: Path) -> None:
    shown = examined(script)
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert "failing_test::first 2 yours, refused" in lines
    assert "failing_test::second 1 yours, refused" in lines
    assert "failing_test::third 1 yours, refused" in lines
    assert "autograd_function::Plain 1 yours, refused" in lines
    assert "failing_test::unmapped 1 missing" in lines
    assert "aten::relu 1 there Relu ONNX Runtime" in lines
    for told in TOLD:
        assert told in shown


def test_doctor_goes_on_with_json(script: Path) -> None:
    report = json.loads(examined(script, "--json"))
    calls = {each["operator"]: (each["calls"], each["refused"]) for each in report["operators"]}
    assert calls["failing_test::first"] == (2, 2)
    assert calls["autograd_function::Plain"] == (1, 1)
    assert [each["operator"] for each in report["missing"]] == ["failing_test::unmapped"]
    for told in TOLD:
        assert told in report["problems"]


def test_doctor_writes_the_mappings_that_are_missing(script: Path, tmp_path: Path) -> None:
    assert "fixes.py: 1 mapping to complete" in examined(script, "--fix", tmp_path / "fixes.py")
    assert '@opbridge.symbolic("failing_test::unmapped"' in (tmp_path / "fixes.py").read_text()


def test_an_export_tells_them_together(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("failing_script", script)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "failing_script", module)  # torch.cond of older versions imports it
    spec.loader.exec_module(module)
    try:
        model, args = module.make_model()
        with pytest.raises(package.UnsupportedError) as error:
            package.export(model, args)
        for told in TOLD:
            assert told in error.value.message
        # A single error stays what it is.
        with pytest.raises(package.InvalidArgumentError, match="no such thing") as alone:
            package.export(lambda x: module.first(module.first(x)), args)
        assert isinstance(alone.value.__cause__, ValueError)
    finally:
        for name in ("first", "second", "third"):
            package.unregister_custom_op_symbolic(f"failing_test::{name}", 9)


def test_what_is_no_error_of_a_mapping_ends_the_export() -> None:
    class Interrupted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        package.export(Interrupted.apply, (torch.ones(2),))
