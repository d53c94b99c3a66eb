"""Calls and programs drawn at random: a fixed seed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import torch

from hunt.judge import judge

ROOT = pathlib.Path(__file__).resolve().parents[2]


def hunt(tmp_path: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests")]))
    where = ["--faults", str(tmp_path / "faults"), "--out", str(tmp_path / "records.jsonl")]
    command = [sys.executable, "-m", "hunt", *options, *where]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_fixed_seed(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "--calls", "60", "--programs", "20", "--seed", "1000", "--jobs", "2", "--timeout", "300")
    assert result.returncode == 0, result.stdout[-10000:] + result.stderr[-2000:]


def test_a_pattern_that_matches_nothing_is_an_error(tmp_path: pathlib.Path) -> None:
    result = hunt(tmp_path, "--ops", "aten::no_such_operator")
    assert result.returncode == 1
    assert "no operator" in result.stderr


def test_complex_numbers_are_compared_by_the_length_of_their_difference() -> None:
    expected = torch.tensor([[1e18, 0.0]])
    rounded, wrong = torch.tensor([[1e18, 1e3]]), torch.tensor([[1e18, 1e15]])
    referee: Any = types.SimpleNamespace(exact=lambda: None, samples=list)
    assert not judge([rounded], [expected], referee, False, {0}).kind
    assert judge([wrong], [expected], referee, False, {0}).kind == "values"
    assert judge([rounded], [expected], referee, False).kind == "values"
