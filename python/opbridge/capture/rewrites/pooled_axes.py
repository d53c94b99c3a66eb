"""Pooling by windows as long as an axis of dynamic size, as ``F.avg_pool2d(x, x.shape[2:])``: reductions of the axis.

Windows of any other dynamic length are refused, because nodes of ONNX have constant ones.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.rewrites.axes import for_axes
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
    ) -> torch.Tensor:
        divisor = () if divisor_override is None else (divisor_override,)
        if not divisor and input.is_floating_point():
            input, kernel_size, stride = _reduced(torch.mean, rank, input, kernel_size, stride, padding)
        pooled: torch.Tensor = original(input, kernel_size, stride, padding, ceil_mode, count_include_pad, *divisor)
        return pooled

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
        if not return_indices:
            input, kernel_size, stride = _reduced(torch.amax, rank, input, kernel_size, stride, padding, dilation)
        return original(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)

    return pool


@contextlib.contextmanager
def reduce_pooled_axes() -> Iterator[None]:
    """Makes the functions of ``torch.nn.functional`` reduce axes whose size is the length of the windows."""
    with contextlib.ExitStack() as until_the_end:
        for points, around in ((AVERAGES, _average), (MAXIMA, _maximum)):
            for rank, point in enumerate(points, 1):
                until_the_end.enter_context(patch(point, around(point.original, rank)))
        yield
