"""Indexing by a 0-d boolean tensor, which adds an axis with one element or none.

torch reads the mask as a Python bool, so a capture would keep the example's value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.rewrites.assignments import assign
from opbridge.capture.rewrites.eager_only import index_of_masks


class ScalarMasks:
    """Indexes by a mask with an axis of its own. A mask gets one axis, so that the selected part has one size."""

    def __init__(self) -> None:
        self._axes: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def substitutes(self) -> dict[Any, Callable[..., Any]]:
        """The functions of torch that index, with those to call instead."""
        return {torch.Tensor.__getitem__: self._getitem, torch.Tensor.__setitem__: self._setitem}

    def _getitem(self, tensor: torch.Tensor, index: Any) -> Any:
        if _is_scalar_mask(index):
            return tensor.unsqueeze(0)[self._axis(index)]
        return torch.Tensor.__getitem__(tensor, index_of_masks(index))

    def _setitem(self, tensor: torch.Tensor, index: Any, value: Any) -> None:
        if _is_scalar_mask(index):
            tensor.unsqueeze(0)[self._axis(index)] = value
        else:
            assign(tensor, index, value)

    def _axis(self, mask: torch.Tensor) -> torch.Tensor:
        if id(mask) not in self._axes:
            self._axes[id(mask)] = mask, mask.unsqueeze(0)
        return self._axes[id(mask)][1]


def _is_scalar_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dim() == 0 and index.dtype == torch.bool
