"""Windows of images whose lengths, steps, gaps or numbers are dynamic sizes. Nodes of ONNX have constant ones, so the
elements of each window are gathered, or, where windows are adjacent, the axis is reshaped."""

from __future__ import annotations

import functools
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
    kernel, gaps, edges, steps = (for_axes(each, 2) for each in (kernel_size, dilation, padding, stride))
    images = F.pad(input if input.dim() == 4 else input[None], (edges[1], edges[1], edges[0], edges[0]))
    counts = counts_of_windows(images.shape[2:], kernel, steps, gaps)
    columns = columns_of_windows(images, kernel, steps, gaps, counts)
    return columns if input.dim() == 4 else columns[0]


def _places_of_parts(size: Any, count: Any, device: torch.device) -> torch.Tensor:
    """The places of the elements in each of ``count`` parts of an axis, as adaptive pools divide it. The last place is
    repeated, so that all parts have as many."""
    index = torch.arange(count, device=device)
    starts, ends = index * size // count, ((index + 1) * size + count - 1) // count
    most = (size + count - 1) // count + 1
    places = starts.unsqueeze(1) + torch.arange(most, device=device)
    return torch.minimum(places, ends.unsqueeze(1) - 1)


def _greatest_of_parts(rank: int, input: torch.Tensor, output_size: Any, return_indices: bool = False) -> Any:
    counts = for_axes(output_size, rank)
    # None stands for as many parts as there are elements.
    made = [size if count is None else count for size, count in zip(input.shape[-rank:], counts, strict=True)]
    if return_indices or not has_sizes(made):
        return NotImplemented
    for axis, count in zip(range(-rank, 0), counts, strict=True):
        if count is not None:
            places = _places_of_parts(input.shape[axis], count, input.device)
            parts = input.index_select(axis, places.flatten())
            sizes = (*input.shape[:axis], *places.shape, *input.shape[input.dim() + axis + 1 :])
            input = parts.reshape(sizes).amax(input.dim() + axis + 1)
    return input


def _pixel_shuffle(input: torch.Tensor, upscale_factor: Any) -> Any:
    *batch, channels, height, width = input.shape
    factor, first = upscale_factor, len(batch)
    split = input.reshape(*batch, channels // factor**2, factor, factor, height, width)
    order = (*range(first + 1), first + 3, first + 1, first + 4, first + 2)
    return split.permute(order).reshape(*batch, channels // factor**2, height * factor, width * factor)


def _pixel_unshuffle(input: torch.Tensor, downscale_factor: Any) -> Any:
    *batch, channels, height, width = input.shape
    factor, first = downscale_factor, len(batch)
    split = input.reshape(*batch, channels, height // factor, factor, width // factor, factor)
    order = (*range(first + 1), first + 2, first + 4, first + 1, first + 3)
    return split.permute(order).reshape(*batch, channels * factor**2, height // factor, width // factor)


def _instead(call: Function) -> Function:
    """Runs ``call`` instead of a function, unless it returns NotImplemented."""

    def around(_: Function, args: Any, kwargs: dict[str, Any]) -> Any:
        return call(*args, **kwargs)

    return around


def by_sizes(call: Function) -> Function:
    """Runs ``call`` instead of a function that is called with dynamic sizes and returns a tensor of its own."""

    def around(_: Function, args: Any, kwargs: dict[str, Any]) -> Any:
        is_by_size = kwargs.get("out") is None and has_sizes((args, kwargs))
        return call(*args, **kwargs) if is_by_size else NotImplemented

    return around


WINDOWS: Replacements = {
    F.unfold: by_sizes(_unfold),
    F.pixel_shuffle: by_sizes(_pixel_shuffle),
    F.pixel_unshuffle: by_sizes(_pixel_unshuffle),
    **{
        pool: _instead(functools.partial(_greatest_of_parts, rank))
        for rank, pool in enumerate((F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d), 1)
    },
}
