"""`opbridge doctor` lists the operators of a `.pt2` with the nodes that they become, and missing links."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from command import opbridge, refusal
from torch import nn


@torch.library.custom_op("doctor_test::unmapped", mutates_args=())
def unmapped(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x * scale


@unmapped.register_fake
def _(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


class Model(nn.Module):
    def __init__(self, step: Any) -> None:
        super().__init__()
        self.linear, self.step = nn.Linear(4, 4), step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).relu_()
        return self.step(y) + self.step(x)


def examined(step: Any, folder: Path, *options: Any) -> subprocess.CompletedProcess[str]:
    path = folder / "model.pt2"
    torch.export.save(torch.export.export(Model(step).eval(), (torch.randn(2, 4),)), path)
    return opbridge("doctor", path, *options)


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Operator → the rest of its line, with columns separated by one space."""
    table = done.stdout.split("\n\n")[1].splitlines()[1:]
    return {line.split()[0]: " ".join(line.split()[1:]) for line in table}


def test_every_link_is_there(tmp_path: Path) -> None:
    done = examined(torch.special.i0, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("model.pt2: 4 operators in 5 calls, to opset 21\n")
    assert rows(done) == {
        "aten::linear": "1 there Gemm ONNX Runtime",
        "aten::relu": "1 there Relu ONNX Runtime",
        "aten::special_i0": "2 there opbridge::i0 opbridge's operators",
        "aten::add.Tensor": "1 there Add ONNX Runtime",
    }
    assert "libopbridge_ops_ort.so" in done.stdout
    assert done.stdout.endswith("\nNo link is missing.\n")


def test_the_target_of_the_standard_alone(tmp_path: Path) -> None:
    done = examined(lambda x: x.mode(1)[0][:, None], tmp_path, "--target", "onnx")
    assert done.returncode == 0, done.stderr
    assert rows(done)["aten::mode"] == "2 there opbridge::mode an ONNX function"
    done = examined(torch.special.airy_ai, tmp_path, "--target", "onnx")
    assert done.returncode == 1
    assert rows(done)["aten::special_airy_ai"] == "2 refused"
    assert "opbridge::airy_ai has no body of standard operators" in done.stdout


def test_a_kernel_that_onnx_runtime_lacks(tmp_path: Path) -> None:
    def image(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.fold(x.double().expand(4, 4).reshape(1, 4, 4), (3, 3), (2, 2)).float()

    done = examined(lambda x: image(x[:1])[0, 0, :2].repeat(1, 2)[:, :4], tmp_path)
    assert done.returncode == 1
    assert "no kernel of Col2Im for float64" in done.stdout


def test_an_operator_without_mapping(tmp_path: Path) -> None:
    done = examined(lambda x: unmapped(x, 2.0), tmp_path)
    assert done.returncode == 1
    assert rows(done)["doctor_test::unmapped"] == "2 missing"
    assert rows(done)["aten::add.Tensor"] == "1 there Add ONNX Runtime"
    assert "1 operator of this model has no mapping to ONNX opset 21 (the second link is missing)" in done.stdout
    assert "def unmapped(g, x, scale):" in done.stdout


def test_a_mapping_that_does_not_hold_for_a_call(tmp_path: Path) -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        return (x > 0).bitwise_and(x > 1).int().bitwise_and(3)

    done = examined(masked, tmp_path, "--opset", "17")
    assert done.returncode == 1
    assert rows(done)["aten::bitwise_and.Tensor"] == "2 there And ONNX Runtime"
    assert rows(done)["aten::bitwise_and.Scalar"] == "2 refused"
    assert "ONNX has bitwise operators on integers since opset 18" in done.stdout
    assert examined(masked, tmp_path, "--opset", "18").returncode == 0


def test_the_mapping_of_another_overload_is_none(tmp_path: Path) -> None:
    done = examined(lambda x: torch.mm(x, x.t(), out_dtype=torch.float32), tmp_path)
    assert "aten::mm.dtype  (2 calls)" in done.stdout
    assert "It has a mapping" not in done.stdout


def test_an_opset_that_lacks_the_operator(tmp_path: Path) -> None:
    done = examined(nn.functional.gelu, tmp_path, "--opset", "5")
    assert done.returncode == 2
    assert "opset 5 is too low" in done.stderr


def test_what_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "x.pt2").write_bytes(b"PK\x03\x04")
    assert "x.pt2" in refusal("doctor", tmp_path / "x.pt2")
    assert "nothing.pt2" in refusal("doctor", tmp_path / "nothing.pt2")


@pytest.mark.parametrize("command", ["doctor", "convert"])
def test_what_is_no_library(command: str, tmp_path: Path) -> None:
    target = [tmp_path / "x.onnx"] if command == "convert" else []
    assert "x.so" in refusal(command, tmp_path / "x.pt2", *target, "--ops", tmp_path / "x.so")
