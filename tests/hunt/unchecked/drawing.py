"""Draws tensors that fit each other."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from hunt.defined import TAME
from hunt.tensors import TensorSpec, draw_tensor, spec_of

Arguments = dict[str, Any]


class Draw:
    """Draws tensors of one floating-point type."""

    def __init__(self, rng: random.Random, dtype: torch.dtype) -> None:
        self.rng = rng
        self.dtype = dtype

    def size(self, low: int = 1, high: int = 4) -> int:
        return self.rng.randint(low, high)

    def sizes(self, count: int, low: int = 1, high: int = 4) -> list[int]:
        return [self.size(low, high) for _ in range(count)]

    def choice(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def tensor(self, *size: int, dtype: torch.dtype | None = None, kinds: Sequence[str] = TAME) -> TensorSpec:
        return draw_tensor(self.rng, dtype or self.dtype, size, kinds, memory=False)

    def positive(self, *size: int) -> TensorSpec:
        return spec_of(self.tensor(*size, kinds=("normal",)).make().abs() + 0.25)

    def indices(self, below: int, *size: int) -> TensorSpec:
        return spec_of(torch.tensor([self.rng.randrange(below) for _ in range(_count(size))]).reshape(size))

    def mask(self, *size: int) -> TensorSpec:
        return draw_tensor(self.rng, torch.bool, size, memory=False)

    def flags(self, count: int) -> list[bool]:
        """At least one of which is True."""
        flags = [self.choice(True, False) for _ in range(count)]
        return flags if any(flags) else [True] * count


def _count(size: Sequence[int]) -> int:
    return int(torch.Size(size).numel())
