"""Runs a program with a pseudo terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from command import ROOT


def on_terminal(
    command: Sequence[str | Path], *, stream: str = "stderr", status: int = 0, **environment: str
) -> tuple[str, str]:
    """What the program writes to the stream that is a terminal, and to the other one."""
    terminal, end = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    variables |= {"PYTHONPATH": str(ROOT / "python"), "TERM": "xterm-256color", **environment}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: end}
    process = subprocess.Popen(command, env=variables, **streams)  # type: ignore[call-overload]
    os.close(end)
    written = b""
    with contextlib.suppress(OSError):  # Linux reports the closed end as an error
        while part := os.read(terminal, 4096):
            written += part
    os.close(terminal)
    other = b"".join(part or b"" for part in process.communicate())
    assert process.returncode == status, (written + other).decode()
    return written.decode(), other.decode()


def plain(text: str) -> str:
    """The text without colours and movements of the cursor other than its return."""
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text)
