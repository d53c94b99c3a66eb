"""torch.equal, whose comparison of the sizes is a branch of the model."""

from __future__ import annotations

from typing import Any

import torch


def equal(input: torch.Tensor, other: torch.Tensor) -> Any:
    """Whether all elements are equal: a tensor instead of a bool, so that a model can return it; or False if the shapes
    differ."""
    if input.shape != other.shape:
        return False
    return (input == other).all()
