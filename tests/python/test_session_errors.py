"""What ONNX Runtime refuses to load or run: `opbridge.session` and exported programs say what would help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import opbridge
from opbridge.runtime_errors import is_of_onnx_runtime

X = torch.linspace(-1, 1, 6)


def calls_of(node: str) -> Callable[[torch.Tensor], torch.Tensor]:
    class Call(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op(node, x)

    return Call.apply


@pytest.mark.parametrize(
    ("node", "x", "message"),
    [
        ("elsewhere::Sinh", X, "no kernel for the custom operator elsewhere::Sinh of the node 'Sinh': the third link"),
        ("Sinh", X.double(), "no kernel for Sinh of the node 'Sinh' with the element types of its inputs"),
    ],
)
def test_a_node_without_a_kernel(node: str, x: torch.Tensor, message: str, tmp_path: Path) -> None:
    apply = calls_of(node)
    program = opbridge.export(lambda x: apply(x), (x,), tmp_path / "m.onnx")
    for load in (lambda: opbridge.session(tmp_path / "m.onnx"), lambda: program(x)):
        with pytest.raises(opbridge.Error) as raised:
            load()
        assert message in raised.value.message
        assert "lambda x: apply(x)" in raised.value.where
        assert is_of_onnx_runtime(raised.value.__cause__)
    with pytest.raises(opbridge.Error, match="no kernel for"):
        opbridge.session((tmp_path / "m.onnx").read_bytes())


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_text("not a model")
    for model, name in ((tmp_path / "m.onnx", "m.onnx"), (b"not a model", "the model")):
        with pytest.raises(opbridge.Error, match=f"ONNX Runtime cannot run .*{name}: InvalidProtobuf") as raised:
            opbridge.session(model)
        assert is_of_onnx_runtime(raised.value.__cause__)
    with pytest.raises(opbridge.FileError, match=r"no such file: .*nothing\.onnx"):
        opbridge.session(tmp_path / "nothing.onnx")
    with pytest.raises(opbridge.FileError, match="is a folder, not an ONNX model"):
        opbridge.session(tmp_path)
    with pytest.raises(opbridge.FileError, match="is a folder, not an ONNX model"):
        opbridge.verify(tmp_path, torch.relu, (X,))


def test_what_is_no_library(tmp_path: Path) -> None:
    opbridge.export(torch.relu, (X,), tmp_path / "m.onnx")
    (tmp_path / "lib.so").write_text("not a library")
    with pytest.raises(opbridge.Error, match=r"^ONNX Runtime: Failed to load library .*lib\.so with error"):
        opbridge.session(tmp_path / "m.onnx", libraries=[tmp_path / "lib.so"])


def test_inputs_that_do_not_fit(tmp_path: Path) -> None:
    program = opbridge.export(torch.relu, (X,), tmp_path / "m.onnx")
    with pytest.raises(opbridge.Error, match=r"cannot run .*m\.onnx: InvalidArgument: .*invalid dimensions") as raised:
        program(torch.ones(7))
    assert is_of_onnx_runtime(raised.value.__cause__)
