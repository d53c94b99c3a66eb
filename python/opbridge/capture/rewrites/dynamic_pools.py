"""Pools whose windows, steps, or padding are computed from dynamic sizes, as in ``F.avg_pool2d(x, x.shape[2:])``.

Windows as long as an axis are reductions of this axis; those of any other dynamic length are gathered. Nor does torch's
rule for the number of windows know that it depends on the size whether ``ceil_mode`` drops one.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from opbridge.capture.patching import patch
from opbridge.capture.rewrites.axes import for_axes
from opbridge.capture.rewrites.dynamic_windows import counts_of_windows, has_sizes, split_into_windows
from opbridge.torch_compat.symbols import AVERAGES, MAXIMA

Function = Callable[..., Any]


def _is_length(number: Any, size: Any) -> bool:
    """Whether a number is the dynamic size of an axis."""
    are_symbols = isinstance(number, torch.SymInt) and isinstance(size, torch.SymInt)
    return are_symbols and number.node.expr == size.node.expr


def _reduced(
    reduce: Function, rank: int, input: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1
) -> tuple[torch.Tensor, Any, Any]:
    """``input`` without the axes that are pooled as a whole, but for one element, and the windows and strides that pool
    the others."""
    kernel, paddings, dilations = (for_axes(value, rank) for value in (kernel_size, padding, dilation))
    whole = [
        axis
        for axis in range(-rank, 0)
        if _is_length(kernel[axis], input.shape[axis]) and paddings[axis] == 0 and dilations[axis] == 1
    ]
    if not whole:
        return input, kernel_size, stride
    strides = for_axes(stride, rank) if stride else list(kernel)  # no stride, or an empty list, is that of the windows
    for axis in whole:
        kernel[axis] = strides[axis] = 1
    return reduce(input, whole, keepdim=True), kernel, strides


class _Pool:
    """A pool of an image: how it is padded, and where its windows are along each axis."""

    def __init__(
        self, rank: int, input: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> None:
        self.kernel, self.gaps, self.edges = (for_axes(each, rank) for each in (kernel, dilation, padding))
        self.steps = for_axes(stride, rank) if stride else self.kernel
        self.is_dynamic = has_sizes((self.kernel, self.steps, self.edges, self.gaps))
        sizes: Any = input.shape[-rank:]
        padded = [size + 2 * edge for size, edge in zip(sizes, self.edges, strict=True)]
        self.counts = counts_of_windows(padded, self.kernel, self.steps, self.gaps)
        self.beyond: list[Any] = [0] * rank  # padding behind the image and its edges
        if not ceil_mode:
            return
        for axis, (size, step, edge) in enumerate(zip(sizes, self.steps, self.edges, strict=True)):
            span = self.gaps[axis] * (self.kernel[axis] - 1) + 1
            self.is_dynamic |= isinstance(size, torch.SymInt) and edge + step > span
            rounded_up = (padded[axis] - span + step - 1) // torch.sym_max(step, 1)
            # No window starts after the image and its left padding.
            last = torch.sym_min(rounded_up, (size + edge - 1) // torch.sym_max(step, 1))
            self.counts[axis] = last + 1
            self.beyond[axis] = torch.sym_max(last * step + span - padded[axis], 0)

    def of(self, image: torch.Tensor, at_edges: float, beyond: float, original: Function, reduce: Function) -> Any:
        """The result for ``image``, padded with these numbers: by ``original``, which takes constant windows, or by
        ``reduce`` of each window."""
        padded = F.pad(image, [size for edge in reversed(self.edges) for size in (edge, edge)], value=at_edges)
        if any(not isinstance(size, int) or size for size in self.beyond):
            padded = F.pad(padded, [size for more in reversed(self.beyond) for size in (0, more)], value=beyond)
        if not has_sizes((self.kernel, self.steps, self.gaps)):
            return original(padded)
        windows = split_into_windows(padded, self.kernel, self.steps, self.gaps, self.counts)
        return reduce(windows, [*range(-2 * len(self.kernel), 0, 2)])


def _average(original: Function, rank: int) -> Function:
    @functools.wraps(original)
    def pool(
        input: torch.Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        divisor = () if divisor_override is None else (divisor_override,)
        if not divisor and input.is_floating_point():
            input, kernel_size, stride = _reduced(torch.mean, rank, input, kernel_size, stride, padding)
        pool = _Pool(rank, input, kernel_size, stride, padding, 1, ceil_mode)
        if not pool.is_dynamic or not input.is_floating_point():
            return original(input, kernel_size, stride, padding, ceil_mode, count_include_pad, *divisor)

        def of(image: torch.Tensor, at_edges: float) -> Any:
            return pool.of(image, at_edges, 0.0, lambda padded: original(padded, pool.kernel, pool.steps), torch.mean)

        means = of(input, 0.0)
        if divisor_override is not None:
            return means * (math.prod(pool.kernel) / divisor_override)
        sizes = [*[1] * (input.dim() - rank), *input.shape[-rank:]]
        return means / of(torch.ones(sizes, dtype=input.dtype, device=input.device), float(count_include_pad))

    return pool


def _maximum(original: Function, rank: int) -> Function:
    @functools.wraps(original)
    def pool(
        input: torch.Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        if return_indices:
            return original(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
        input, kernel_size, stride = _reduced(torch.amax, rank, input, kernel_size, stride, padding, dilation)
        pool = _Pool(rank, input, kernel_size, stride, padding, dilation, ceil_mode)
        if not pool.is_dynamic:
            return original(input, kernel_size, stride, padding, dilation, ceil_mode)
        of_padded = functools.partial(
            original, kernel_size=pool.kernel, stride=pool.steps, padding=0, dilation=pool.gaps
        )
        least = -math.inf if input.is_floating_point() else torch.iinfo(input.dtype).min
        return pool.of(input, least, least, of_padded, torch.amax)

    return pool


@contextlib.contextmanager
def keep_pools_dynamic() -> Iterator[None]:
    """Makes the pools of ``torch.nn.functional`` take dynamic sizes for their windows."""
    with contextlib.ExitStack() as until_the_end:
        for points, around in ((AVERAGES, _average), (MAXIMA, _maximum)):
            for rank, point in enumerate(points, 1):
                until_the_end.enter_context(patch(point, around(point.original, rank)))
        yield
