"""Convolutions whose number of groups is a dynamic size, as in a blur of each channel: ``groups=x.shape[1]``.

A node has a constant number of groups. Each group is a product of matrices: its weights, and the elements under each
window. In a transposed convolution the product has the elements that are added up under each window.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional as F

from opbridge.capture.patching import patch
from opbridge.capture.rewrites.axes import for_axes
from opbridge.torch_compat.patch_points import CONVOLUTIONS, TRANSPOSED_CONVOLUTIONS

Function = Callable[..., torch.Tensor]


@contextlib.contextmanager
def keep_groups_dynamic() -> Iterator[None]:
    with contextlib.ExitStack() as until_the_end:
        for points_by_axes, convolve in ((CONVOLUTIONS, _convolved), (TRANSPOSED_CONVOLUTIONS, _transposed)):
            for axes, points in points_by_axes.items():
                for point in points:
                    until_the_end.enter_context(patch(point, _replacement(point.original, convolve, axes)))
        yield


def _replacement(original: Function, convolve: Function, axes: int) -> Function:
    """Calls ``convolve``, whose parameters from the third on are those of ``original`` after the bias, if the number of
    groups is dynamic, and the size of the windows is not."""
    options = [*inspect.signature(convolve).parameters][2:]

    @functools.wraps(original)
    def call(
        input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *args: Any, **named: Any
    ) -> torch.Tensor:
        given = dict(zip(options, args, strict=False)) | named
        is_dynamic = isinstance(given.get("groups"), torch.SymInt)
        if not is_dynamic or not all(isinstance(size, int) for size in weight.shape[2:]):
            return original(input, weight, bias, *args, **named)
        is_batch = input.dim() == axes + 2
        result = convolve(input if is_batch else input[None], weight, **given)
        if bias is not None:
            result = result + bias.reshape([-1] + [1] * axes)
        return result if is_batch else result[0]

    return call


def _convolved(
    images: torch.Tensor, weight: torch.Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
) -> torch.Tensor:
    kernel = weight.shape[2:]
    steps, gaps = for_axes(stride, len(kernel)), for_axes(dilation, len(kernel))
    spans = [gap * (size - 1) for gap, size in zip(gaps, kernel, strict=True)]
    if padding == "same":
        edges = [(span // 2, span - span // 2) for span in spans]
    else:
        edges = [(size, size) for size in for_axes(0 if padding == "valid" else padding, len(kernel))]
    padded = _padded(images, edges)
    counts = [(size - span - 1) // step + 1 for size, span, step in zip(padded.shape[2:], spans, steps, strict=True)]
    return _products(padded, weight, steps, gaps, counts, groups)


def _transposed(
    images: torch.Tensor,
    weight: torch.Tensor,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: Any = 1,
    dilation: Any = 1,
) -> torch.Tensor:
    axes = weight.dim() - 2
    whole = _sums(images, weight, for_axes(stride, axes), for_axes(dilation, axes), groups)
    pairs = zip(for_axes(padding, axes), for_axes(output_padding, axes), strict=True)
    return _padded(whole, [(-cut, added - cut) for cut, added in pairs])


def _padded(images: torch.Tensor, edges: list[tuple[Any, Any]]) -> torch.Tensor:
    """``edges``: what is added before and after each axis, or cut off if it is negative."""
    return F.pad(images, [size for edge in reversed(edges) for size in edge])


def _products(
    padded: torch.Tensor, weight: torch.Tensor, steps: list[int], gaps: list[int], counts: list[Any], groups: Any
) -> torch.Tensor:
    """The convolution of images, or of sequences as images of one row. ``counts`` are the numbers of windows."""
    kernel, rows = weight.shape[2:], (1,) * (2 - len(counts))
    image = padded.unsqueeze(2) if rows else padded
    windows = F.unfold(image, (*rows, *kernel), dilation=(*rows, *gaps), stride=(*rows, *steps))
    made, elements = weight.shape[0] // groups, weight.shape[1] * math.prod(kernel)
    of_groups = windows.reshape(padded.shape[0], groups, elements, windows.shape[-1])
    products = weight.reshape(groups, made, elements) @ of_groups
    return products.reshape(padded.shape[0], weight.shape[0], *counts)


def _sums(input: torch.Tensor, weight: torch.Tensor, steps: list[int], gaps: list[int], groups: Any) -> torch.Tensor:
    """The transposed convolution without padding of images, or of sequences as images of one row."""
    kernel, counts, rows = weight.shape[2:], input.shape[2:], (1,) * (2 - len(steps))
    given, elements = weight.shape[0] // groups, weight.shape[1] * math.prod(kernel)
    of_groups = input.reshape(input.shape[0], groups, given, math.prod(counts))
    products = weight.reshape(groups, given, elements).transpose(1, 2) @ of_groups
    sizes = [
        (count - 1) * step + gap * (size - 1) + 1
        for count, step, gap, size in zip(counts, steps, gaps, kernel, strict=True)
    ]
    made = F.fold(
        products.reshape(input.shape[0], groups * elements, math.prod(counts)),
        (*rows, *sizes),
        (*rows, *kernel),
        dilation=(*rows, *gaps),
        stride=(*rows, *steps),
    )
    return made.squeeze(2) if rows else made
