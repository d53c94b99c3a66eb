"""Windows of images whose lengths, steps or gaps are dynamic sizes. Nodes of ONNX have constant ones, so the elements
of each window are gathered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from opbridge.capture.rewrites.axes import for_axes
from opbridge.capture.rewrites.replaced_functions import Function, Replacements
from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import free_unbacked_symbols


def has_sizes(options: Any) -> bool:
    """Whether one of the numbers is a dynamic size. Numbers that are read from tensors are not: often the tensor is a
    constant, of which a capture may know the number."""
    return any(
        isinstance(leaf, torch.SymInt) and not free_unbacked_symbols(leaf.node.expr)
        for leaf in pytree.tree_leaves(options)
    )


def counts_of_windows(
    sizes: Sequence[Any], kernel: Sequence[Any], steps: Sequence[Any], gaps: Sequence[Any]
) -> list[Any]:
    """The numbers of windows along the axes. Eager mode refuses a step of 0, by which a model must not divide."""
    return [
        (size - gap * (length - 1) - 1) // torch.sym_max(step, 1) + 1
        for size, length, step, gap in zip(sizes, kernel, steps, gaps, strict=True)
    ]


def split_into_windows(
    images: torch.Tensor, kernel: Sequence[Any], steps: Sequence[Any], gaps: Sequence[Any], counts: Sequence[Any]
) -> torch.Tensor:
    """Splits each of the last axes into two: the elements of a window, and the windows."""
    axis = images.dim()
    for length, step, gap, count in zip(*map(reversed, (kernel, steps, gaps, counts)), strict=True):
        axis -= 1
        elements = torch.arange(length, device=images.device) * gap
        places = elements.unsqueeze(1) + torch.arange(count, device=images.device) * step
        sizes = (*images.shape[:axis], length, count, *images.shape[axis + 1 :])
        images = images.index_select(axis, places.flatten()).reshape(sizes)
    return images


def columns_of_windows(
    images: torch.Tensor, kernel: Sequence[Any], steps: Sequence[Any], gaps: Sequence[Any], counts: Sequence[Any]
) -> torch.Tensor:
    """The elements of each window of all channels, as a column."""
    windows = split_into_windows(images, kernel, steps, gaps, counts)
    of_windows = windows.permute(0, 1, *range(2, windows.dim(), 2), *range(3, windows.dim(), 2))
    return of_windows.reshape(images.shape[0], images.shape[1] * math.prod(kernel), math.prod(counts))


def _unfold(input: torch.Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    if not has_sizes((kernel_size, dilation, padding, stride)):
        return NotImplemented
    kernel, gaps, edges, steps = (for_axes(each, 2) for each in (kernel_size, dilation, padding, stride))
    images = F.pad(input if input.dim() == 4 else input[None], (edges[1], edges[1], edges[0], edges[0]))
    counts = counts_of_windows(images.shape[2:], kernel, steps, gaps)
    columns = columns_of_windows(images, kernel, steps, gaps, counts)
    return columns if input.dim() == 4 else columns[0]


def _around(_: Function, args: Any, kwargs: dict[str, Any]) -> Any:
    return _unfold(*args, **kwargs)


UNFOLDED: Replacements = {F.unfold: _around}
