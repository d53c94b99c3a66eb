"""Runs the command `opbridge` as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("OPBRIDGE_BUILD_DIR", ROOT / "build" / "release"))
OPBRIDGE = BUILD / "opbridge"
# Of a command that runs Python: this one, with the package of this checkout.
IN_THIS_PYTHON = {
    "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
    "OPBRIDGE_PYTHON": sys.executable,
}


def opbridge(
    *arguments: Any, env: dict[str, str] | None = None, memory: int | None = None
) -> subprocess.CompletedProcess[str]:
    """``memory``: the most bytes that it may map."""
    assert OPBRIDGE.exists(), f"build the target opbridge first: {OPBRIDGE} is missing"
    limit = [] if memory is None else ["prlimit", f"--as={memory}"]
    return subprocess.run(
        [*limit, OPBRIDGE, *map(str, arguments)],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, **(env or {})},
    )


def refusal(*arguments: Any, env: dict[str, str] | None = None) -> str:
    """The one line that the command prints if it refuses."""
    done = opbridge(*arguments, env=env)
    assert done.returncode == 2, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("opbridge: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr
