"""Operator files that the compiler must refuse."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def compile_errors(folder: Path, operators: str) -> str:
    """The compiler's errors for a file with these ``operators``, which must not compile."""
    source = folder / "wrong.cc"
    source.write_text('#include "opbridge/operator.h"\nusing namespace opbridge::op;\n' + operators)
    command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    return done.stderr
