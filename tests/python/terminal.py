"""Runs a program with a pseudo terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from command import ROOT

END = b"\x04"  # no program writes it


def on_terminal(
    command: Sequence[str | Path], *, stream: str = "stderr", status: int = 0, **environment: str
) -> tuple[str, str]:
    """What the program writes to the stream that is a terminal, and to the other one."""
    terminal, end = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    variables |= {"PYTHONPATH": str(ROOT / "python"), "TERM": "xterm-256color", **environment}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: end}
    process = subprocess.Popen(command, env=variables, **streams)  # type: ignore[call-overload]
    other: list[bytes] = []

    def mark_the_end() -> None:
        other.extend(part for part in process.communicate() if part)
        os.write(end, END)

    # Linux may report an end that the program closes before it hands out what was written last: it stays open here.
    waiting = threading.Thread(target=mark_the_end)
    waiting.start()
    written = b""
    while not written.endswith(END):
        written += os.read(terminal, 4096)
    waiting.join()
    os.close(end)
    os.close(terminal)
    written = written.removesuffix(END)
    assert process.returncode == status, (written + b"".join(other)).decode()
    return written.decode(), b"".join(other).decode()


def plain(text: str) -> str:
    """The text without colours and movements of the cursor other than its return."""
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text)
