"""Arguments of operators that PyTorch itself calls, many of them gradients, which hardly check what they are given."""

from __future__ import annotations

import random

import torch

from hunt.samples import is_derivative
from hunt.tensors import FLOATS, draw_dtype
from hunt.unchecked import axes, convolutions, layers, matrices, sequences
from hunt.unchecked.drawing import Arguments, Draw

_RULES = convolutions.RULES | sequences.RULES | matrices.RULES | layers.RULES | axes.RULES

# strategies.py draws the arguments of optimizers, and defined.py knows those of _weight_norm.
_DRAWN_ELSEWHERE = {"_weight_norm", *(f"_fused_{name}" for name in ("adam", "adamw", "sgd", "adagrad"))}


def must_fit(name: str) -> bool:
    """Whether PyTorch may read or write out of bounds if the arguments of an operator do not fit each other."""
    base = name.partition("::")[2].partition(".")[0]
    return name in _RULES or is_derivative(base) or base in _DRAWN_ELSEWHERE


def arguments_of_unchecked(rng: random.Random, name: str) -> Arguments | None:
    """None if there is no rule for the operator."""
    rule = _RULES.get(name)
    return rule(Draw(rng, rng.choice((torch.float32, draw_dtype(rng, FLOATS))))) if rule else None
