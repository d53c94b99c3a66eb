"""Indexing by a 0-d mask, which adds an axis with one element or none.

torch reads the mask as a Python bool, so a capture would keep the example's value. A tensor of uint8 is a mask too;
torch.export takes a 0-d one for an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.loops.lists import index_with_tensors
from opbridge.capture.rewrites.assignments import assign, axes_of, is_mask, item


class ScalarMasks:
    """Indexes by a mask with an axis of its own. A mask gets one axis, so that the selected part has one size."""

    def __init__(self) -> None:
        self._indices: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def substitutes(self) -> dict[Any, Callable[..., Any]]:
        """The functions of torch that index, with those to call instead."""
        return {torch.Tensor.__getitem__: self._getitem, torch.Tensor.__setitem__: self._setitem}

    def _getitem(self, tensor: torch.Tensor, index: Any) -> Any:
        return item(*self._with_axes(tensor, index))

    def _setitem(self, tensor: torch.Tensor, index: Any, value: Any) -> None:
        assign(*self._with_axes(tensor, index), value)

    def _with_axes(self, tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any]:
        """The tensor with one more axis for each 0-d mask, and the index of it."""
        index = index_with_tensors(index)
        parts = list(index) if isinstance(index, tuple) else [index]
        if not any(map(is_mask, parts)):
            return tensor, index
        axis = 0
        skipped = tensor.dim() - sum(map(axes_of, parts))
        for place, part in enumerate(parts):
            if is_mask(part):
                if part.dim() == 0:
                    tensor = tensor.unsqueeze(axis)
                parts[place] = self._index(part)
                axis += max(part.dim(), 1)
            else:
                axis += skipped if part is Ellipsis else axes_of(part)
        return tensor, tuple(parts) if isinstance(index, tuple) else parts[0]

    def _index(self, mask: torch.Tensor) -> torch.Tensor:
        if id(mask) not in self._indices:
            self._indices[id(mask)] = mask, mask.bool() if mask.dim() else mask.bool().unsqueeze(0)
        return self._indices[id(mask)][1]


def has_scalar_mask(index: Any) -> bool:
    return any(is_mask(part) and part.dim() == 0 for part in (index if isinstance(index, tuple) else (index,)))
