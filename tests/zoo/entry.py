"""What a model of the zoo is: how to build it, and what to call it with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from torch import nn


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model with seeded random weights."""

    name: str  # "torchvision/resnet50"
    build: Callable[[], nn.Module]
    # Keyword arguments: inputs(0) is exported; inputs(1) differs from it in values, and where `batched` in batch size.
    inputs: Callable[[int], dict[str, Any]]
    batched: bool = True  # dim 0 of every input is a dynamic batch, 1 where exported and 2 where compared again
    tolerance: float = 1e-3  # of a difference to the largest magnitude of the output
    # The outputs are boxes (n, 4), labels (n) and scores (n) of things found, and perhaps more (n, …): in an order
    # that rounding may change where two scores are all but equal.
    detections: bool = False
