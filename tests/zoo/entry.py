"""A model of the zoo: how to build it, and its inputs."""

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
    # Keyword arguments: inputs(0) is exported; inputs(1) differs from it in values and, if `batched`, in batch size.
    inputs: Callable[[int], dict[str, Any]]
    batched: bool = True  # dim 0 of every input is a dynamic batch: 1 in the export, 2 in the second comparison
    tolerance: float = 1e-3  # for the largest difference relative to the largest magnitude of the output
    # The outputs are boxes (n, 4), labels (n) and scores (n) of detections, and possibly more (n, …). Rounding may
    # change the order of detections with nearly equal scores.
    detections: bool = False
