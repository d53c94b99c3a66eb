"""From a seed to a case."""

from __future__ import annotations

from hunt.calls import Call, draw_call, overloads
from hunt.programs import Program, draw_program


def about(kind: str, seed: int) -> str:
    """The operator that is called, or that it is a program."""
    return overloads()[seed % len(overloads())].name if kind == "call" else "program"


def draw(kind: str, seed: int) -> Call | Program | None:
    """None where PyTorch accepts nothing of what was drawn."""
    return draw_call(seed, overloads()[seed % len(overloads())]) if kind == "call" else draw_program(seed)
