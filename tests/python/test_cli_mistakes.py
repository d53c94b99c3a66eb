"""Mistakes at the command line: what the command says, and its exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command import IN_THIS_PYTHON, OPBRIDGE, opbridge, refusal

import opbridge as package

SCRIPT = """
import torch

import opbridge


class Model(torch.nn.Module):
    def forward(self, x):
        return x.relu()


def make_model():
    return Model(), (torch.ones(2),)


def class_of_models():
    return Model, (torch.ones(2),)


def failing():
    class Failing(Model):
        def forward(self, x):
            raise KeyError("inside")

    return Failing(), (torch.ones(2),)


def without_outputs():
    class Silent(Model):
        def forward(self, x):
            return None

    return Silent(), (torch.ones(2),)


def wrong():
    opbridge.symbolic("aten::sinh", opset=9)(lambda g, x: g.op("Cosh", x))
    return torch.sinh, (torch.ones(2),)


def faulty():
    from opbridge import verification

    verification.proven = None  # a fault of opbridge
    return make_model()
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mistakes") / "script.py"
    path.write_text(SCRIPT)
    return path


def test_an_unknown_command() -> None:
    assert refusal("exprot", "m.pt2") == (
        "opbridge: 'exprot' is not one of the commands convert, doctor, compare, inspect, verify, new-op, completion\n"
    )
    assert "exprot" in refusal("exprot", "--help")


@pytest.mark.parametrize("suffix", ["", ":make_model"])
@pytest.mark.parametrize("arguments", [["convert", "M", "m.onnx"], ["inspect", "M"], ["compare", "M", "M"]])
def test_python_code_in_place_of_a_file(arguments: list[str], suffix: str, script: Path) -> None:
    model = f"{script}{suffix}"
    text = refusal(*(model if argument == "M" else argument for argument in arguments))
    assert f"{model} is Python code" in text
    assert "opbridge.export(model, args, path)" in text


def test_a_name_that_is_too_long() -> None:
    assert "File name too long" in refusal("new-op", f"custom::{'a' * 300}(Tensor a) -> Tensor")


def test_what_cannot_be_written_tells_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = "custom::op(Tensor a) -> Tensor"
    assert "Not a directory" in refusal("new-op", line, "--directory", tmp_path / "file" / "op")


def test_a_class_in_place_of_a_model(script: Path) -> None:
    text = refusal("verify", f"{script}:class_of_models", env=IN_THIS_PYTHON)
    assert "Model is a class of models: pass an instance, Model(…)" in text


def test_a_model_that_fails_is_told_with_its_error_and_line(script: Path) -> None:
    done = opbridge("verify", f"{script}:failing", env=IN_THIS_PYTHON)
    assert done.returncode == 2
    assert "fails on its inputs ([2]): KeyError: 'inside'\n  at script.py:" in done.stderr
    assert 'raise KeyError("inside")' in done.stderr


def test_doctor_tells_that_a_model_has_no_outputs(script: Path, tmp_path: Path) -> None:
    done = opbridge("doctor", f"{script}:without_outputs", env=IN_THIS_PYTHON)
    assert done.returncode == 1, done.stderr
    assert "the model returns no tensor" in done.stdout
    assert "No link is missing" not in done.stdout


def test_a_reproduction_that_cannot_be_written(script: Path) -> None:
    done = opbridge("verify", f"{script}:wrong", "--reproduction", script / "folder", env=IN_THIS_PYTHON)
    assert done.returncode == 1, done.stderr
    assert "ONNX Runtime and PyTorch differ" in done.stdout
    assert "its reproduction cannot be written: [Errno" in done.stdout


def test_a_fault_of_opbridge_is_no_difference(script: Path) -> None:
    done = opbridge("verify", f"{script}:faulty", env=IN_THIS_PYTHON)
    assert done.returncode == 3
    assert "Traceback" in done.stderr


def test_a_python_without_torch(script: Path, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('No module named torch', name='torch')\n")
    path = os.pathsep.join([str(tmp_path), IN_THIS_PYTHON["PYTHONPATH"]])
    text = refusal("doctor", f"{script}:make_model", env={**IN_THIS_PYTHON, "PYTHONPATH": path})
    assert text.startswith(f"opbridge: {sys.executable} lacks the package torch; install it there")


def test_a_reader_that_stops(script: Path) -> None:
    command = subprocess.Popen(
        [OPBRIDGE, "doctor", f"{script}:make_model", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **IN_THIS_PYTHON},
    )
    assert command.stdout is not None
    command.stdout.close()
    assert command.stderr is not None
    assert command.stderr.read() == b""
    command.wait()


def test_onnx_runtime_of_the_python_that_is_named(tmp_path: Path) -> None:
    import numpy as np

    package.export(torch.relu, (torch.ones(2),), tmp_path / "m.onnx", input_names=["x"], output_names=["y"])
    np.savez(tmp_path / "x.npz", x=np.ones(2, np.float32))
    np.savez(tmp_path / "y.npz", y=np.ones(2, np.float32))
    environment = {"OPBRIDGE_PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "VIRTUAL_ENV": "/nowhere"}
    done = opbridge(
        *("verify", tmp_path / "m.onnx", "--inputs", tmp_path / "x.npz", "--expect", tmp_path / "y.npz"),
        env=environment,
    )
    assert done.returncode == 0, done.stderr
