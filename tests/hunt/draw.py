"""From a seed to a case."""

from __future__ import annotations

import functools
import zlib

from hunt.calls import Call, Overload, draw_call, overloads
from hunt.programs import Program, draw_program


def about(kind: str, seed: int) -> str:
    """The operator that is called, or that it is a program."""
    return _overload(seed).name if kind == "call" else "program"


def draw(kind: str, seed: int) -> Call | Program | None:
    """None where PyTorch accepts nothing of what was drawn."""
    return draw_call(seed, _overload(seed)) if kind == "call" else draw_program(seed)


@functools.lru_cache(maxsize=16)
def _overload(seed: int) -> Overload:
    """One that stays the seed's own, in nearly all cases, when mappings are added."""
    return min(overloads(), key=lambda overload: zlib.crc32(f"{seed} {overload.name}".encode()))
