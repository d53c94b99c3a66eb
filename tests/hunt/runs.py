"""Other inputs for a model: other sizes if they are dynamic, otherwise other values."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hunt.case import Settings
from hunt.tensors import TensorSpec, resized, spec_of


def other_run(rng: random.Random, inputs: Sequence[TensorSpec], settings: Settings) -> tuple[TensorSpec, ...]:
    """Inputs of other sizes. Equal sizes stay equal; one in three runs has sizes of 1."""
    by_size: dict[int, int] = {}
    to_one = rng.random() < 0.3

    def other(size: int) -> int:
        return by_size.setdefault(size, 1 if to_one else rng.choice((1, 2, 2, 3, 3, 4, 5, 6, size)))

    run = []
    for spec, dims in zip(inputs, settings.dynamic or (), strict=True):
        size = tuple(other(n) if d in (dims or {}) else n for d, n in enumerate(spec.size))
        run.append(resized(rng, spec, size))
    return tuple(run)


def other_values(rng: random.Random, inputs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """The same sizes and elements, in another order."""
    run = []
    for spec in inputs:
        made = spec.make()
        order = rng.sample(range(made.numel()), made.numel())
        run.append(spec_of(made.reshape(-1)[order].reshape(spec.size).contiguous()) if order else spec)
    return tuple(run)
