"""An export shows its progress in a line on a terminal and in log records, and nowhere else."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import ROOT
from command import opbridge as command
from terminal import on_terminal, plain
from torch import nn

import opbridge
from opbridge import _core

PROGRAM = """
import sys, time, torch, opbridge

class Slow(torch.nn.Module):
    def forward(self, x):
        time.sleep({seconds})
        return x + 1

opbridge.export(Slow(), (torch.ones(3),), {path!r}, capture="trace", verbose={verbose})
"""


def shown(program: str, **environment: str) -> str:
    """What a Python program writes to standard error, if that is a terminal."""
    return on_terminal([sys.executable, "-c", program], **environment)[0]


def test_a_terminal_shows_the_step_from_one_second_on(tmp_path: Path) -> None:
    written = shown(PROGRAM.format(seconds=1.5, path=str(tmp_path / "m.onnx"), verbose=None))
    steps = [line.split()[1] for line in plain(written).split("\r") if line.strip()]
    assert {*steps} <= {"capture", "conversion", "writing"}
    assert steps[0] == "capture"
    assert re.search(r"opbridge: capture \S+ [1-9]\d* s\r", plain(written).replace("━ ━", "━"))
    assert "\x1b[38;5;" in written
    assert written.endswith("\x1b[?25h\r\x1b[1A\x1b[2K")  # the cursor is shown, and the line is removed


def test_a_terminal_without_colours(tmp_path: Path) -> None:
    program = PROGRAM.format(seconds=1.5, path=str(tmp_path / "m.onnx"), verbose=None)
    written = shown(program, NO_COLOR="1")
    assert "capture" in written
    assert not re.search(r"\x1b\[[\d;]*[345678]\d*m", written)
    assert shown(program, TERM="dumb") == ""


def test_a_warning_replaces_the_line(tmp_path: Path) -> None:
    program = PROGRAM.format(
        seconds="1.5); print('text of the model', file=sys.stderr, flush=True",
        path=str(tmp_path / "m.onnx"),
        verbose=None,
    )
    assert re.search(r"opbridge: capture [^\r]*\rtext of the model\r\n", plain(shown(program)))


def test_the_streams_of_the_program_are_not_replaced(tmp_path: Path) -> None:
    """A model that redirects its output restores the streams that it found, so these must be the program's own."""
    checks = "1.5); import rich; assert (sys.stdout, sys.stderr) == (sys.__stdout__, sys.__stderr__"
    assert "capture" in shown(PROGRAM.format(seconds=checks, path=str(tmp_path / "m.onnx"), verbose=None))


@pytest.mark.parametrize(("seconds", "verbose"), [(0, None), (1.5, False)])
def test_a_terminal_shows_nothing_otherwise(seconds: float, verbose: bool | None, tmp_path: Path) -> None:
    program = PROGRAM.format(seconds=seconds, path=str(tmp_path / "m.onnx"), verbose=verbose)
    assert shown(program) == ""


def test_without_a_terminal_nothing_is_shown(tmp_path: Path) -> None:
    program = PROGRAM.format(seconds=1.5, path=str(tmp_path / "m.onnx"), verbose=None)
    program += "assert not any(name.partition('.')[0] == 'rich' for name in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "FORCE_COLOR": "1"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


class _Steps(_core.Progress):
    """Keeps the calls that it receives."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[Any] = []

    def begin(self, step: str) -> None:
        self.told.append(step)

    def advance(self, done: int, total: int) -> None:
        self.told.append((done, total))


def test_the_core_tells_its_steps(tmp_path: Path) -> None:
    opbridge.export(nn.Linear(64, 64), (torch.ones(1, 64),), tmp_path / "m.onnx", external_data=True)
    progress = _Steps()
    options: Any = {"target": "onnxruntime", "external_data": "always", "simplify": False, "progress": progress}
    _core.rewrite_model(str(tmp_path / "m.onnx"), str(tmp_path / "n.onnx"), **options)
    assert progress.told[0] == "writing"
    done, total = progress.told[-1]
    assert done == total > 64 * 64 * 4
    progress.begin = lambda step: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    with pytest.raises(ZeroDivisionError):
        _core.rewrite_model(str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx"), **options)
    assert not (tmp_path / "o.onnx").exists()


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
