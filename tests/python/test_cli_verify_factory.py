"""`opbridge verify` of a Python factory: comparison with the PyTorch model, drawn inputs, and a reproduction."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import IN_THIS_PYTHON, OPBRIDGE, opbridge, refusal
from terminal import on_terminal, plain

import opbridge as package
from opbridge.operators import COMPAT

SCRIPT = """
import torch


class Model(torch.nn.Module):
    def forward(self, x, scale=1.0):
        print("runs")
        return (x * scale).relu(), x + 1


def make_model():
    return Model(), (torch.linspace(-2, 2, 12).reshape(4, 3),), {"scale": 2.0}


def program():
    rows = torch.export.Dim("rows", min=3, max=7)
    return torch.export.export(Model(), (torch.randn(4, 3),), dynamic_shapes=({0: rows},)), (torch.randn(4, 3),)


def other():
    class Other(torch.nn.Module):
        def forward(self, x):
            return x.nan_to_num(0.0).sigmoid(), x + 1

    return Other(), (torch.randn(4, 3),)


def without_kernel():
    import opbridge

    opbridge.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op("elsewhere::Sinh", x), 9)
    return lambda x: x.sinh(), (torch.randn(3),)


def refused_by_the_model():
    return Model(), (torch.randn(4, 3), torch.randn(5, 5))


def my_add():
    class Adds(torch.nn.Module):
        def forward(self, a, b):
            return torch.ops.custom.my_add(a, b)

    return Adds(), (torch.randn(3), torch.randn(3))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """script.py; model.onnx, of Model with n rows; wrong.onnx, whose first output differs from that of `other`."""
    folder = tmp_path_factory.mktemp("factory")
    (folder / "script.py").write_text(SCRIPT)

    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x * 2).relu(), x + 1

    def sigmoid(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sigmoid(), x + 1

    for name, function in (("model", model), ("sigmoid", sigmoid)):
        package.export(
            function,
            (torch.randn(4, 3),),
            folder / f"{name}.onnx",
            dynamic_axes={"x": {0: "rows"}},
            output_names=["y", "z"],
        )
    return folder


def compared(folder: Path, function: str, *options: Any) -> subprocess.CompletedProcess[str]:
    return opbridge("verify", f"{folder / 'script.py'}:{function}", *options, env=IN_THIS_PYTHON)


def test_a_terminal_has_a_table_in_colours(folder: Path) -> None:
    command = [OPBRIDGE, "verify", f"{folder / 'script.py'}:other", folder / "sigmoid.onnx"]
    for columns, head in ((100, 1), (66, 2)):
        variables = {"OPBRIDGE_PYTHON": sys.executable, "COLUMNS": str(columns)}
        written, _ = on_terminal(command, stream="stdout", **variables)
        assert "\x1b[1minputs" in written
        drawn, conclusion = plain(written).replace("\r", "").split("\n\n")
        assert conclusion == "all outputs agree\n"
        lines = drawn.splitlines()
        titles = ["cosine", "difference", "inputs", "largest", "mismatches", "output", "relative"]
        assert sorted(" ".join(lines[:head]).split()) == titles
        assert {*lines[head]} == {"─"}
        assert [line.split()[:2] for line in lines[head + 1 :]] == [["given", "y"], ["given", "z"]]
        assert max(map(len, lines)) <= columns


def test_differences_are_red(folder: Path) -> None:
    command = [OPBRIDGE, "verify", f"{folder / 'script.py'}:make_model", folder / "sigmoid.onnx"]
    variables = {"OPBRIDGE_PYTHON": sys.executable, "COLUMNS": "100"}
    red, plain_row = on_terminal(command, stream="stdout", status=1, **variables)[0].splitlines()[2:4]
    assert red.startswith("\x1b[31mgiven")
    assert plain_row.startswith("given ")
    assert "\x1b[31m" not in on_terminal(command, stream="stdout", status=1, NO_COLOR="1", **variables)[0]


def table(done: subprocess.CompletedProcess[str]) -> list[tuple[str, str]]:
    """The inputs and the output of each line."""
    head, *lines = done.stdout.split("\n\n")[0].splitlines()
    assert head.split()[:2] == ["inputs", "output"]
    width = head.index("output")
    return [(line[:width].strip(), line[width:].split()[0]) for line in lines]


def test_agreement(folder: Path) -> None:
    done = compared(folder, "make_model", folder / "model.onnx")
    assert done.returncode == 0, done.stderr
    assert table(done) == [("given", "y"), ("given", "z")]
    assert done.stdout.endswith("\n\nall outputs agree\n")
    assert "runs" in done.stderr


def test_inputs_that_are_drawn(folder: Path) -> None:
    options = (folder / "model.onnx", "--random-inputs", 3, "--edge-values", "--seed", 5)
    done = compared(folder, "make_model", *options)
    assert done.returncode == 0, done.stderr
    drawn = [inputs for inputs, output in table(done) if output == "y"]
    assert drawn[:3] == ["given", "random 1, rows=1", "random 2, rows=8"]
    assert drawn[3].startswith("random 3, rows=")
    assert drawn[4:] == ["zeros", "infinities", "NaN"]
    assert compared(folder, "make_model", *options).stdout == done.stdout
    assert compared(folder, "make_model", *options[:-1], 6).stdout != done.stdout


def test_without_a_file_the_model_is_exported(folder: Path) -> None:
    done = compared(folder, "program", "--random-inputs", 2)
    assert done.returncode == 0, done.stderr
    labels = [inputs for inputs, output in table(done) if output == "relu"]
    assert [re.sub(r"\w+=", "", label) for label in labels] == ["given", "random 1, 3", "random 2, 7"]
    assert not list(folder.glob("program*"))


def test_a_difference_names_the_first_operator_and_is_reproduced(folder: Path, tmp_path: Path) -> None:
    done = compared(folder, "make_model", folder / "sigmoid.onnx", "--reproduction", tmp_path / "wrong")
    assert done.returncode == 1, done.stderr
    assert table(done) == [("given", "y"), ("given", "z")]
    conclusion = done.stdout.split("\n\n")[1]
    assert conclusion.startswith("ONNX Runtime and PyTorch differ:\n  y: ")
    assert "\n  z: " not in conclusion
    assert f"reproduced by {tmp_path / 'wrong' / 'reproduce.py'}" in conclusion
    again = subprocess.run([sys.executable, tmp_path / "wrong" / "reproduce.py"], capture_output=True, text=True)
    assert again.returncode == 1
    tolerant = compared(folder, "make_model", folder / "sigmoid.onnx", "--atol", 9)
    assert tolerant.returncode == 0, tolerant.stdout


def test_only_an_edge_value_differs(folder: Path) -> None:
    assert compared(folder, "other", folder / "sigmoid.onnx").returncode == 0
    done = compared(folder, "other", folder / "sigmoid.onnx", "--edge-values")
    assert done.returncode == 1, done.stderr
    assert "y (NaN): 4 of 12 elements differ" in done.stdout


def test_operators_of_a_library(folder: Path) -> None:
    """Each --ops takes one library: what follows is the model."""
    done = compared(folder, "my_add", "--ops", COMPAT, folder / "my_add.onnx")
    assert done.returncode == 2
    assert "no such file" in done.stderr
    done = compared(folder, "my_add", "--ops", COMPAT)
    assert done.returncode == 0, done.stderr
    assert table(done) == [("given", "my_add")]


def test_what_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    factory, model = f"{folder / 'script.py'}:make_model", folder / "model.onnx"

    def refused(*arguments: Any) -> str:
        done = opbridge("verify", *arguments, env=IN_THIS_PYTHON)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "no such file" in refused(factory, tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    assert "ONNX Runtime cannot run" in refused(factory, tmp_path / "text.onnx")
    assert "the ONNX model has the inputs" in refused(f"{folder / 'script.py'}:my_add", model, "--ops", COMPAT)
    unknown = refused(f"{folder / 'script.py'}:without_kernel")
    assert "no kernel for the custom operator elsewhere::Sinh of the node 'Sinh'" in unknown
    assert "--ops path" in unknown
    assert "at script.py:" in unknown
    assert "must match" in refused(f"{folder / 'script.py'}:refused_by_the_model")
    assert "not -1" in refused(factory, model, "--random-inputs", -1)
    assert "--inputs and --expect are for a comparison without PyTorch" in refused(factory, model, "--inputs", "x.npz")
    assert "--runtime is not used" in refused(factory, model, "--runtime", "libonnxruntime.so")
    assert "make_model" in refusal("verify", folder / "script.py", model)
    assert "is not a Python function" in refusal("verify", model, factory)
    assert "--inputs and --expect are needed" in refusal("verify", model)
    assert "need the PyTorch model" in refusal("verify", model, "--inputs", "i.npz", "--expect", "o.npz", "--seed", 1)
