"""Calls and programs drawn at random: a fixed seed."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

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
