"""Convolutions whose options are dynamic sizes, as in a blur of each channel: ``groups=x.shape[1]``.

A node has constant options. Each group is a product of matrices: its weights, and the elements under each window. In a
transposed convolution the product has the elements that are added up under each window.
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
from opbridge.capture.rewrites.dynamic_windows import columns_of_windows, counts_of_windows, has_sizes
from opbridge.torch_compat.patch_points import CONVOLUTIONS, TRANSPOSED_CONVOLUTIONS

Function = Callable[..., torch.Tensor]


@contextlib.contextmanager
def keep_convolutions_dynamic() -> Iterator[None]:
    with contextlib.ExitStack() as until_the_end:
        for points_by_axes, convolve in ((CONVOLUTIONS, convolved), (TRANSPOSED_CONVOLUTIONS, transposed)):
            for axes, points in points_by_axes.items():
                for point in points:
                    until_the_end.enter_context(patch(point, _replacement(point.original, convolve, axes)))
        yield


def _replacement(original: Function, convolve: Function, axes: int) -> Function:
    """Calls ``convolve``, whose parameters from the third on are those of ``original`` after the bias, if one of them
    is dynamic."""
    options = [*inspect.signature(convolve).parameters][2:]

    @functools.wraps(original)
    def call(
        input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *args: Any, **named: Any
    ) -> torch.Tensor:
        given = dict(zip(options, args, strict=False)) | named
        dynamic = {name for name, value in given.items() if has_sizes(value)}
        if isinstance(given.get("groups"), torch.SymInt):
            dynamic.add("groups")
        if not dynamic or (convolve is transposed and not _has_constant_windows(weight, given)):
            return original(input, weight, bias, *args, **named)
        if dynamic == {"padding"} and convolve is convolved:
            edges = [(size, size) for size in for_axes(given["padding"], axes)]
            return original(_padded(input, edges), weight, bias, **given | {"padding": 0})
        is_batch = input.dim() == axes + 2
        result = convolve(input if is_batch else input[None], weight, **given)
        if bias is not None:
            result = result + bias.reshape([-1] + [1] * axes)
        return result if is_batch else result[0]

    return call


def _has_constant_windows(weight: torch.Tensor, given: dict[str, Any]) -> bool:
    return not has_sizes((weight.shape[2:], given.get("stride"), given.get("dilation")))


def convolved(
    images: torch.Tensor, weight: torch.Tensor, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
) -> torch.Tensor:
    windows, counts = _windows(images, weight.shape[2:], stride, padding, dilation)
    made, elements = weight.shape[0] // groups, weight.shape[1] * math.prod(weight.shape[2:])
    products = weight.reshape(groups, made, elements) @ _of_groups(windows, groups)
    return products.reshape(images.shape[0], weight.shape[0], *counts)


def transposed(
    images: torch.Tensor,
    weight: torch.Tensor,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: Any = 1,
    dilation: Any = 1,
) -> torch.Tensor:
    axes = weight.dim() - 2
    given, elements = weight.shape[0] // groups, weight.shape[1] * math.prod(weight.shape[2:])
    weights = weight.reshape(groups, given, elements).transpose(1, 2)
    products = (weights @ _of_groups(images.flatten(2), groups)).flatten(1, 2)
    whole = _sums(products, images.shape[2:], weight.shape[2:], for_axes(stride, axes), for_axes(dilation, axes))
    pairs = zip(for_axes(padding, axes), for_axes(output_padding, axes), strict=True)
    return _padded(whole, [(-cut, added - cut) for cut, added in pairs])


def gradient_of_weights(
    gradient: torch.Tensor, images: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: Any
) -> torch.Tensor:
    """By the weights of a convolution of each image; in a transposed one the two tensors change places."""
    windows, _ = _windows(images, kernel, stride, padding, dilation)
    products = _of_groups(gradient.flatten(2), groups) @ _of_groups(windows, groups).transpose(2, 3)
    return products.reshape(images.shape[0], gradient.shape[1], -1, *kernel)


def _of_groups(channels: torch.Tensor, groups: Any) -> torch.Tensor:
    return channels.reshape(channels.shape[0], groups, channels.shape[1] // groups, channels.shape[2])


def _padded(images: torch.Tensor, edges: list[tuple[Any, Any]]) -> torch.Tensor:
    """``edges``: what is added before and after each axis, or cut off if it is negative."""
    sizes = [size for edge in reversed(edges) for size in edge]
    return F.pad(images, sizes) if any(not isinstance(size, int) or size for size in sizes) else images


def _windows(
    images: torch.Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> tuple[torch.Tensor, list[Any]]:
    """The elements under each window, as a column, and the numbers of windows along the axes."""
    steps, gaps = for_axes(stride, len(kernel)), for_axes(dilation, len(kernel))
    spans = [gap * (size - 1) for gap, size in zip(gaps, kernel, strict=True)]
    if padding == "same":
        edges = [(span // 2, span - span // 2) for span in spans]
    else:
        edges = [(size, size) for size in for_axes(0 if padding == "valid" else padding, len(kernel))]
    padded = _padded(images, edges)
    counts = counts_of_windows(padded.shape[2:], kernel, steps, gaps)
    if not has_sizes((kernel, steps, gaps)):
        return _unfolded(padded, kernel, steps, gaps, counts), counts
    return columns_of_windows(padded, kernel, steps, gaps, counts), counts


def _unfolded(padded: torch.Tensor, kernel: Any, steps: list[int], gaps: list[int], counts: list[Any]) -> torch.Tensor:
    if len(kernel) == 3:
        reach = steps[0] * (counts[0] - 1) + 1
        planes = [padded[:, :, i * gaps[0] : i * gaps[0] + reach : steps[0]] for i in range(kernel[0])]
        of_planes = [
            _unfolded(plane.transpose(1, 2).flatten(0, 1), kernel[1:], steps[1:], gaps[1:], counts[1:])
            .reshape(padded.shape[0], counts[0], padded.shape[1], math.prod(kernel[1:]), math.prod(counts[1:]))
            .permute(0, 2, 3, 1, 4)
            for plane in planes
        ]
        return torch.stack(of_planes, 2).flatten(4).flatten(1, 3)
    row = (1,) * (2 - len(kernel))  # a sequence is an image of one row
    image = padded.unsqueeze(2) if row else padded
    return F.unfold(image, (*row, *kernel), dilation=(*row, *gaps), stride=(*row, *steps))


def _sums(products: torch.Tensor, counts: Any, kernel: Any, steps: list[int], gaps: list[int]) -> torch.Tensor:
    """The images whose elements are the sums of what lies at their places in all windows, which are columns."""
    sizes = [
        (count - 1) * step + gap * (size - 1) + 1
        for count, step, gap, size in zip(counts, steps, gaps, kernel, strict=True)
    ]
    if len(kernel) == 3:
        elements = math.prod(kernel[1:])
        planes = products.reshape(products.shape[0], -1, kernel[0], elements, counts[0], math.prod(counts[1:]))
        whole = products.new_zeros(())
        for i in range(kernel[0]):
            columns = planes[:, :, i].permute(0, 3, 1, 2, 4).flatten(2, 3).flatten(0, 1)
            made = _sums(columns, counts[1:], kernel[1:], steps[1:], gaps[1:])
            images = made.reshape(products.shape[0], counts[0], *made.shape[1:]).transpose(1, 2)
            apart = F.pad(images.unsqueeze(3), (0, 0, 0, 0, 0, steps[0] - 1)).flatten(2, 3)
            before = i * gaps[0]
            whole = whole + F.pad(apart, (0, 0, 0, 0, before, sizes[0] - before - counts[0] * steps[0]))
        return whole
    row = (1,) * (2 - len(kernel))
    options = {"dilation": (*row, *gaps), "stride": (*row, *steps)}
    made = F.fold(products, (*row, *sizes), (*row, *kernel), **options)
    return made.squeeze(2) if row else made
