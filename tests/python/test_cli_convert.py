"""`opbridge convert` converts a `.pt2` file to a model that computes the same in ONNX Runtime."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from command import OPBRIDGE, opbridge
from torch import nn
from torch.export import Dim

import opbridge as package
from checking.runtime import run_plain
from opbridge.operators import COMPAT


def convert(*arguments: Any) -> subprocess.CompletedProcess[str]:
    return opbridge("convert", *arguments)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 500)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.bn(self.conv(x)))
        return self.fc(y.mean((2, 3))), y.reshape(x.shape[0], -1)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(scope="module")
def pt2(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("convert") / "net.pt2"
    shapes = {"x": {0: Dim("batch")}}
    torch.export.save(torch.export.export(net, (torch.randn(2, 3, 8, 8),), dynamic_shapes=shapes), path)
    return path


@pytest.mark.parametrize("batch", [2, 5])
@pytest.mark.parametrize(
    "options", [(), ("--no-simplify",), ("--external-data", "always"), ("--opset", 17), ("--target", "onnx")]
)
def test_onnx_runtime_computes_the_same(
    net: Net, pt2: Path, tmp_path: Path, batch: int, options: tuple[Any, ...]
) -> None:
    target = tmp_path / "net.onnx"
    done = convert(pt2, target, *options)
    assert done.returncode == 0, done.stderr
    x = torch.randn(batch, 3, 8, 8)
    with torch.no_grad():
        expected = net(x)
    for actual, wanted in zip(run_plain(target, x), expected, strict=True):
        np.testing.assert_allclose(actual, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_options_reach_the_model(pt2: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.onnx"
    options = ("--opset", 18, "--input-names", "image", "--output-names", "scores,features")
    done = convert(pt2, target, *options, "--no-source-lines", "--external-data", "always")
    assert done.returncode == 0, done.stderr
    model = onnx.load(target, load_external_data=False)
    assert [each.name for each in model.graph.input] == ["image"]
    assert [each.name for each in model.graph.output] == ["scores", "features"]
    assert [each.version for each in model.opset_import if each.domain == ""] == [18]
    assert not any(".py" in str(node) for node in model.graph.node)
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{target}: opset 18, ")
    assert ": weights, " in lines[1]


def test_options_may_stand_before_the_files(pt2: Path, tmp_path: Path) -> None:
    """An option takes one word, and not the files that follow it."""
    target = tmp_path / "net.onnx"
    libraries = ("--ops", package.ort_library(), "--ops", package.ort_library(COMPAT))
    names = ("--output-names", "scores,features", "--custom-opset", "mine=3", "--input-names", "image")
    done = opbridge("convert", *libraries, *names, pt2, target)
    assert done.returncode == 0, done.stderr
    assert [each.name for each in onnx.load(target).graph.output] == ["scores", "features"]


def test_source_lines_are_written(pt2: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.onnx"
    assert convert(pt2, target).returncode == 0
    text = str(onnx.load(target).graph.node)
    assert "test_cli_convert.py" in text


def test_a_refusal_leaves_the_target_as_it_was(pt2: Path, tmp_path: Path) -> None:
    target = tmp_path / "kept.onnx"
    target.write_bytes(b"precious")
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(pt2.read_bytes()[:-100])
    for arguments, message in [
        ((broken, target), "damaged|truncated|not a zip"),
        ((pt2, target, "--opset", 3), "opset"),
        ((pt2, target, "--custom-opset", "mine"), "DOMAIN=VERSION"),
    ]:
        done = convert(*arguments)
        assert done.returncode == 2
        assert any(part in done.stderr for part in message.split("|")), done.stderr
        assert target.read_bytes() == b"precious"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["broken.pt2", "kept.onnx"]


def test_a_target_that_cannot_be_written(pt2: Path, tmp_path: Path) -> None:
    done = convert(pt2, tmp_path / "no" / "folder.onnx")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    whole = pt2.read_bytes()
    done = convert(pt2, pt2)
    assert done.returncode == 2
    assert "both the input and the output" in done.stderr
    assert pt2.read_bytes() == whole


def test_a_wrong_command_line() -> None:
    assert convert().returncode == 2
    for option, words in (("--target", "onnx, onnxruntime"), ("--external-data", "always, auto, never, reference")):
        line = convert("m.pt2", "m.onnx", option, "foo").stderr.splitlines()[0]
        assert line == f"{option}: 'foo' is not one of {words}"
    assert convert("--help").returncode == 0


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["convert", "--help"]])
def test_help_that_cannot_be_printed(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([OPBRIDGE, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "opbridge: cannot print: No space left on device\n")


def test_the_version() -> None:
    done = opbridge("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("opbridge 0.")


def test_output_that_cannot_be_printed_is_an_error(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(nn.ReLU(), (torch.rand(3),)), tmp_path / "m.pt2")
    with Path("/dev/full").open("w") as full:
        command = [OPBRIDGE, "convert", tmp_path / "m.pt2", tmp_path / "m.onnx"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert "cannot print: No space left on device" in done.stderr
