"""``torch.nn.functional.interpolate`` by a scale that depends on a dynamic size.

The operators take the scale as a Python number, so it would be fixed to the example's. Vision transformers scale their
position embeddings in this way. The functions here compute each result from the elements between which it lies: see
aten/src/ATen/native/UpSample.h of PyTorch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.torch_compat.patch_points import INTERPOLATE

_CUBIC = -0.75  # PyTorch's coefficient of cubic convolution
_CUBIC_WITHOUT_ALIASES = -0.5
_LINEAR = ("linear", "bilinear", "trilinear")
_MODES = ("nearest", "nearest-exact", *_LINEAR, "bicubic")
_WITHOUT_ALIASES = ("bilinear", "bicubic")
Taps = list[tuple[torch.Tensor, torch.Tensor | None]]


@contextlib.contextmanager
def patch_interpolation() -> Iterator[None]:
    original = INTERPOLATE.original

    def interpolate(
        input: torch.Tensor,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
        antialias: bool = False,
    ) -> Any:
        factors = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else [scale_factor] * (input.dim() - 2)
        is_symbolic = any(isinstance(factor, (torch.SymInt, torch.SymFloat)) for factor in factors)
        is_known = mode in (_WITHOUT_ALIASES if antialias else _MODES) and input.is_floating_point()
        if not is_symbolic or not is_known or size is not None or recompute_scale_factor:
            return original(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
        sizes = [math.floor(torch.sym_float(n) * factor) for n, factor in zip(input.shape[2:], factors, strict=True)]
        if align_corners:  # the corners alone decide
            return original(input, sizes, None, mode, align_corners)
        return (_averaged if antialias else _scaled)(input, sizes, factors, mode)

    with patch(INTERPOLATE, interpolate):
        yield


def _scaled(input: torch.Tensor, sizes: list[Any], factors: list[Any], mode: str) -> torch.Tensor:
    result = input.to(torch.float64 if input.dtype == torch.float64 else torch.float32)
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), start=2):
        indices = torch.arange(size, dtype=result.dtype, device=input.device)
        taps = _taps(indices, input.shape[axis], size, 1.0 / factor, mode, is_image=input.dim() == 4)
        terms = []
        for index, weight in taps:
            element = result.index_select(axis, index)
            terms.append(element if weight is None else element * weight.reshape([-1] + [1] * (input.dim() - axis - 1)))
        result = terms[0]
        for term in terms[1:]:
            result = result + term
    return result.to(input.dtype)


def _taps(indices: torch.Tensor, from_size: Any, to_size: Any, step: Any, mode: str, *, is_image: bool) -> Taps:
    """For each element of the scaled axis: the indices and weights of the elements it is interpolated from."""

    def limited(index: torch.Tensor) -> torch.Tensor:
        return index.to(torch.int64).clamp(min=0).minimum(torch.full((), from_size - 1, dtype=torch.int64))

    ratio = torch.full((), to_size, dtype=torch.int64) / from_size
    if mode == "nearest":
        nearest = (indices * step).floor()
        if is_image:  # only upsample_nearest2d ignores the scale where an axis keeps its size or doubles
            nearest = torch.where(ratio == 1, indices, torch.where(ratio == 2, (indices / 2).floor(), nearest))
        return [(limited(nearest), None)]
    if mode == "nearest-exact":
        return [(limited(((indices + 0.5) * step).floor()), None)]
    position = (indices + 0.5) * step - 0.5
    if mode in _LINEAR:
        position = torch.where(ratio == 1, indices, position.clamp(min=0))
        first = limited(position.floor())
        after = (position - first).clamp(0, 1)
        return [(first, 1 - after), (limited(first + 1), after)]
    first = position.floor()
    after = position - first
    weights = [_far(after + 1), _near(after), _near(1 - after), _far(2 - after)]
    return [(limited(first + offset), weight) for offset, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _near(distance: torch.Tensor, cubic: float = _CUBIC) -> torch.Tensor:
    """The cubic weight at a distance of at most 1."""
    return ((cubic + 2) * distance - (cubic + 3)) * distance * distance + 1


def _far(distance: torch.Tensor, cubic: float = _CUBIC) -> torch.Tensor:
    """The cubic weight at a distance from 1 to 2."""
    return ((cubic * distance - 5 * cubic) * distance + 8 * cubic) * distance - 4 * cubic


def _averaged(image: torch.Tensor, sizes: list[Any], factors: list[Any], mode: str) -> torch.Tensor:
    """Without aliases: where the image becomes smaller, the weights reach over as many more elements."""
    result = image.to(torch.float64 if image.dtype == torch.float64 else torch.float32)
    for axis, (size, factor) in enumerate(zip(sizes, factors, strict=True), start=2):
        made, given = (torch.arange(n, dtype=result.dtype, device=image.device) for n in (size, image.shape[axis]))
        step = torch.full((), 1.0 / factor, dtype=result.dtype, device=image.device)
        distance = ((made + 0.5).unsqueeze(1) * step - (given + 0.5)).abs() / step.clamp(min=1)
        weights = (1 - distance).clamp(min=0)
        if mode == "bicubic":
            near, far = (weight(distance, _CUBIC_WITHOUT_ALIASES) for weight in (_near, _far))
            weights = torch.where(distance < 1, near, torch.where(distance < 2, far, 0.0))
        weights = weights / weights.sum(1, keepdim=True)
        # PyTorch leaves an axis alone that keeps its size.
        same = (made.unsqueeze(1) == given).to(result.dtype)
        weights = torch.where(torch.full((), size) == image.shape[axis], same, weights)
        result = weights @ result if axis == 2 else result @ weights.t()
    return result.to(image.dtype)
