"""From a seed to a case."""

from __future__ import annotations

from typing import Any

from hunt.calls import draw_call, overloads

KINDS = ("call",)


def about(kind: str, seed: int) -> str:
    """The operator that is called."""
    return overloads()[seed % len(overloads())].name


def draw(kind: str, seed: int) -> Any:
    """None where PyTorch accepts nothing of what was drawn. What is drawn has ``case()`` and ``simpler()``."""
    return draw_call(seed, overloads()[seed % len(overloads())])
