"""From a seed to a case."""

from __future__ import annotations

from hunt.calls import Call, Overload, draw_call, overloads
from hunt.programs import Program, draw_program

STRIDE = 613  # a prime: seeds in a row call operators of many families


def about(kind: str, seed: int) -> str:
    """The operator that is called, or that it is a program."""
    return _overload(seed).name if kind == "call" else "program"


def draw(kind: str, seed: int) -> Call | Program | None:
    """None where PyTorch accepts nothing of what was drawn."""
    return draw_call(seed, _overload(seed)) if kind == "call" else draw_program(seed)


def _overload(seed: int) -> Overload:
    return overloads()[seed * STRIDE % len(overloads())]
