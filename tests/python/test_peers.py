"""``python -m peers``, on a suite made here in the form of pnnx's tests."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

SCRIPT = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return {body}

def test():
    net = Model()
    x = torch.rand(2, 3)
    a = net(x)
    mod = torch.jit.trace(net, x)
    raise AssertionError("only the calls are of interest")
"""
BODIES = {
    "add": "x + 1",
    "sparse": "x.to_sparse().relu().to_dense()",
    "random": "torch.rand_like(x) + x",
    "broken": "x.no()",
}


def run(root: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "peers", "--suite", "pnnx", "--root", root, "--jobs", "1", *options]
    folders = pathlib.Path(__file__).parents[1]
    environment = {"PYTHONPATH": f"{folders}:{folders.parent / 'python'}", "PATH": "", "HOME": str(root)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def suite(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "tests").mkdir()
    for name, body in BODIES.items():
        (tmp_path / f"tests/test_{name}.py").write_text(SCRIPT.format(body=body))
    return tmp_path


def test_each_program_is_counted_once(suite: pathlib.Path) -> None:
    done = run(suite, "--exporters", "export,torch.onnx")
    assert done.returncode == 0, done.stderr
    assert "pnnx: 4 programs" in done.stdout
    assert '| opbridge, capture="export" | 1 | 1 | 0 | 0 | 0 | 1 | 1 |' in done.stdout
    assert "relu() of a sparse tensor is not supported" in done.stdout
    assert "| torch.onnx | 1 | 1 | 0 | 0 | 0 | 1 | 1 |" in done.stdout


def test_a_pattern_that_matches_nothing_is_an_error(suite: pathlib.Path) -> None:
    done = run(suite, "--only", "nothing*")
    assert done.returncode == 1
    assert "has no such program" in done.stderr
