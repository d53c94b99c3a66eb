"""An export shows its progress in a line on a terminal and in log records, and nowhere else."""

from __future__ import annotations

import contextlib
import logging
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ROOT
from command import opbridge as command
from torch import nn

import opbridge

PROGRAM = """
import sys, time, torch, opbridge

class Slow(torch.nn.Module):
    def forward(self, x):
        time.sleep({seconds})
        return x + 1

opbridge.export(Slow(), (torch.ones(3),), {path!r}, capture="trace", verbose={verbose})
"""


def on_terminal(program: str) -> str:
    """The text that a Python program writes to standard error, if that is a terminal."""
    terminal, end = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    process = subprocess.Popen([sys.executable, "-c", program], stderr=end, stdout=subprocess.DEVNULL, env=environment)
    os.close(end)
    written = b""
    with contextlib.suppress(OSError):  # Linux reports the closed end as an error
        while part := os.read(terminal, 4096):
            written += part
    os.close(terminal)
    assert process.wait() == 0, written.decode()
    return written.decode()


def test_a_terminal_shows_the_step_from_one_second_on(tmp_path: Path) -> None:
    program = PROGRAM.format(seconds=1.5, path=str(tmp_path / "m.onnx"), verbose=None)
    written = on_terminal(program)
    assert "opbridge: capture 1 s\r" in written
    assert written.endswith("\x1b[K")  # the line is removed


@pytest.mark.parametrize(("seconds", "verbose"), [(0, None), (1.5, False)])
def test_a_terminal_shows_nothing_otherwise(seconds: float, verbose: bool | None, tmp_path: Path) -> None:
    program = PROGRAM.format(seconds=seconds, path=str(tmp_path / "m.onnx"), verbose=verbose)
    assert "capture" not in on_terminal(program)


def test_without_a_terminal_nothing_is_shown(tmp_path: Path) -> None:
    program = PROGRAM.format(seconds=1.5, path=str(tmp_path / "m.onnx"), verbose=None)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_logger_gets_the_steps(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "m.onnx"
    with caplog.at_level(logging.INFO, "opbridge"):
        opbridge.export(nn.Linear(64, 64), (torch.ones(1, 64),), path, external_data=True)
    text = caplog.text
    for part in ("capture: ", "conversion: ", f"{path}: ", f"{path}.data: weights, 16384 bytes"):
        assert part in text
    assert "aten::" not in text
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "opbridge"):
        opbridge.export(nn.Linear(64, 64), (torch.ones(1, 64),), path)
    assert "aten::linear" in caplog.text


@pytest.fixture(scope="module")
def pt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "m.pt2"
    torch.export.save(torch.export.export(nn.Linear(4, 4), (torch.ones(1, 4),)), path)
    return path


def test_the_command_is_quiet(pt2: Path, tmp_path: Path) -> None:
    done = command("convert", "--quiet", pt2, tmp_path / "m.onnx")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "m.onnx").exists()
    done = command("convert", "--quiet", tmp_path / "none.pt2", tmp_path / "m.onnx")
    assert done.returncode == 2
    assert "no such file" in done.stderr


def test_the_command_says_the_steps(pt2: Path, tmp_path: Path) -> None:
    done = command("convert", pt2, tmp_path / "m.onnx", "--verbose")
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["reading", "conversion", "writing"]
    assert done.stdout.startswith(f"{tmp_path / 'm.onnx'}: opset 21")
    done = command("convert", pt2, tmp_path / "m.onnx")
    assert done.stderr == ""
    assert command("convert", pt2, tmp_path / "m.onnx", "--verbose", "--quiet").returncode == 2
