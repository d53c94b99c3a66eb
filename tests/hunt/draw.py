"""Draws a case from a seed."""

from __future__ import annotations

import fnmatch
import functools
import zlib

from hunt.calls import Call, Overload, draw_call, overloads
from hunt.programs import Program, draw_program


def about(kind: str, seed: int) -> str:
    """The name of the called operator, or "program"."""
    return _overload(seed).name if kind == "call" else "program"


def matches(name: str, patterns: str) -> bool:
    """Whether the name fits one of the patterns, which commas separate."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))


def draw(kind: str, seed: int) -> Call | Program | None:
    """None if PyTorch rejects everything that was drawn."""
    return draw_call(seed, _overload(seed)) if kind == "call" else draw_program(seed)


@functools.lru_cache(maxsize=16)
def _overload(seed: int) -> Overload:
    """The overload of a seed. In nearly all cases it stays the same when mappings are added."""
    return min(overloads(), key=lambda overload: zlib.crc32(f"{seed} {overload.name}".encode()))
