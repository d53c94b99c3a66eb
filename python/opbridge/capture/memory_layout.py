"""Copies of example inputs whose elements lie in memory as those of the original do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch


def copy_of(leaf: Any) -> Any:
    """A copy with the strides and the offset that the tensor has; anything else is returned as it is."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    if not _is_plain(leaf):
        return leaf.clone()
    with torch.no_grad():
        copy = _empty(leaf, leaf.shape, leaf.stride())
        if leaf.numel():
            extent = _extent(leaf.shape, leaf.stride())
            copy.as_strided((extent,), (1,)).copy_(leaf.as_strided((extent,), (1,)))
    return copy.requires_grad_(leaf.requires_grad)


def repeat_ones(leaf: torch.Tensor, axes: Collection[int]) -> torch.Tensor:
    """Repeats the tensor to size 2 along ``axes``, where its size is 1. The axes keep their order in memory, and the
    gaps between elements their sizes; a tensor whose elements share memory becomes contiguous."""
    strides = _strides_of_repeated(leaf, axes) if _is_plain(leaf) and leaf.numel() else None
    if strides is None:
        return leaf.repeat([2 if axis in axes else 1 for axis in range(leaf.dim())])
    sizes = [2 if axis in axes else size for axis, size in enumerate(leaf.shape)]
    with torch.no_grad():
        copy = _empty(leaf, sizes, strides)
        copy.copy_(leaf.expand(sizes))
    return copy.requires_grad_(leaf.requires_grad)


def with_sizes(leaf: torch.Tensor, sizes: Mapping[int, int]) -> torch.Tensor:
    """The tensor with other sizes of some axes, cut off or continued with its elements from the first on, with zeros if
    it has none. The axes keep their order in memory."""
    strides = leaf.stride()
    order = sorted(range(leaf.dim()), key=lambda axis: (-strides[axis], axis))
    with torch.no_grad():
        values = leaf
        for axis, size in sizes.items():
            if values.shape[axis] == 0:
                values = values.new_zeros([*values.shape[:axis], size, *values.shape[axis + 1 :]])
            values = values.index_select(axis, torch.arange(size, device=leaf.device) % values.shape[axis])
        copy = torch.empty_permuted(values.shape, order, dtype=leaf.dtype, device=leaf.device)
        copy.copy_(values)
    return copy.requires_grad_(leaf.requires_grad)


def _strides_of_repeated(leaf: torch.Tensor, axes: Collection[int]) -> list[int] | None:
    """None if elements share memory."""
    strides = list(leaf.stride())
    extent = factor = 1
    for axis in sorted(range(leaf.dim()), key=lambda axis: (strides[axis], -axis)):
        size, stride = leaf.shape[axis], strides[axis] * factor
        if axis in axes:
            size, stride, factor = 2, max(stride, extent), factor * 2
        elif size > 1 and stride < extent:
            return None
        strides[axis] = stride
        extent += (size - 1) * stride
    return strides


def _is_plain(leaf: torch.Tensor) -> bool:
    is_plain = type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout is torch.strided
    return is_plain and not leaf.is_conj() and leaf.is_leaf


def _extent(sizes: Sequence[int], strides: Sequence[int]) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _empty(leaf: torch.Tensor, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """A tensor in memory of its own, with the type and the offset of ``leaf``. It is not a view."""
    offset = leaf.storage_offset()
    memory = leaf.new_empty(offset + (_extent(sizes, strides) if leaf.numel() else 0))
    return leaf.new_empty(0).set_(memory.untyped_storage(), offset, tuple(sizes), tuple(strides))
