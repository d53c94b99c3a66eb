"""Operators of torch.func's transforms, written with simpler ones. The rules by which torch transforms them, computes
their derivatives in forward mode and their second derivatives make symbolic sizes numbers."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from opbridge.capture.operators import operator_of
from opbridge.capture.rewrites.second_derivatives import expects_second_derivatives
from opbridge.capture.source import line_of_frame
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import (
    OpOverload,
    dual_numbers_exist,
    entered_transforms,
    forward_mode_is_innermost,
    transforms_are_active,
)
from opbridge.torch_compat.symbols import expression_of

_ATEN: Any = torch.ops.aten


def written_operator(function: OpOverload, args: Any) -> Callable[..., torch.Tensor] | None:
    """The function to call instead of ``function``; None if torch's kernel will do."""
    if function is _ATEN.linear.default:
        is_affine = len(args) > 2 and args[2] is not None
        return _linear if is_affine and args[0].dim() > 2 and transforms_are_active() else None
    if function in _FOURIER:
        return _resized(function) if _resizes(function, *args) else None
    if function in _FOURIER_OF_AXES and _resizes_axes(function, *args):
        raise _resizing_refusal(function)
    by_hand: Callable[..., torch.Tensor] | None = _WRITTEN.get(function)
    if by_hand is None or not _has_dynamic_sizes(args[0]):
        return None
    if function is _ATEN.batch_norm.default and args[_IS_TRAINING]:
        return None
    if function is _ATEN.instance_norm.default and args[_RUNNING_MEAN] is not None:
        return None
    if function in _JOINS:
        if not dual_numbers_exist() or all(map(_has_derivative, args[0])):
            return None
        return by_hand if forward_mode_is_innermost() else _PLACED[function]
    depth, _ = entered_transforms()
    again = expects_second_derivatives() and torch.is_grad_enabled() and args[0].requires_grad
    return by_hand if dual_numbers_exist() or depth > 1 or again else None


def _has_dynamic_sizes(given: Any) -> bool:
    tensors = given if isinstance(given, (list, tuple)) else [given]
    return any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return x @ weight.t() + bias


def _layer_norm(
    x: torch.Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> torch.Tensor:
    return _affine(_normalized(x, list(range(-len(shape), 0)), eps), weight, bias).to(x.dtype)


def _group_norm(
    x: torch.Tensor, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> torch.Tensor:
    normalized = _normalized(x.reshape(x.shape[0], groups, -1), [-1], eps).reshape(x.shape)
    return _of_channels(normalized, weight, bias).to(x.dtype)


def _batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *options: Any) -> torch.Tensor:
    scale = (variance + options[_EPSILON]).rsqrt()
    return _of_channels(_of_channels(x, scale, -mean * scale), weight, bias).to(x.dtype)


def _instance_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *options: Any) -> torch.Tensor:
    return _of_channels(_normalized(x, list(range(2, x.dim())), options[_EPSILON]), weight, bias).to(x.dtype)


def _glu(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    half = x.shape[dim] // 2
    return x.narrow(dim, 0, half) * x.narrow(dim, half, half).sigmoid()


def _resizes(transform: OpOverload, x: torch.Tensor, n: Any = None, dim: int = -1, *_: Any) -> bool:
    """Whether the transform cuts or pads a dynamic axis. torch does one of both, as for the example, in its derivative,
    and so it would for all sizes."""
    return n is not None and _may_differ(x.shape[dim], _length(transform, n))


def _resizes_axes(transform: OpOverload, x: torch.Tensor, s: Any = None, dim: Any = None, *_: Any) -> bool:
    if s is None:
        return False
    lengths = [*s[:-1], _length(transform, s[-1])]
    axes = dim or range(-len(s), 0)
    return any(n != -1 and _may_differ(x.shape[axis], n) for n, axis in zip(lengths, axes, strict=True))


def _length(transform: OpOverload, n: Any) -> Any:
    return n // 2 + 1 if transform in _OF_HALVES and n != -1 else n


def _may_differ(size: Any, length: Any) -> bool:
    a, b = expression_of(size), expression_of(length)
    return bool(a != b) and not all(isinstance(each, int) or each.is_number for each in (a, b))


def _resized(transform: OpOverload) -> Callable[..., torch.Tensor]:
    def call(x: torch.Tensor, n: Any, dim: int = -1, *options: Any, **named: Any) -> torch.Tensor:
        length = _length(transform, n)
        kept = torch.sym_min(x.shape[dim], length)
        padded = _padded(x.narrow(dim, 0, kept), dim, 0, length - kept)
        if _resizes(transform, padded, n, dim):
            raise _resizing_refusal(transform)
        result: torch.Tensor = transform(padded, n, dim, *options, **named)
        return result

    return call


def _padded(x: torch.Tensor, dim: int, before: Any, after: Any, value: float = 0) -> torch.Tensor:
    later_axes = [0] * (2 * (x.dim() - 1 - dim % x.dim()))
    return torch.constant_pad_nd(x, [*later_axes, before, after], value)


def _resizing_refusal(transform: OpOverload) -> UnsupportedError:
    return UnsupportedError(
        f"the model differentiates {operator_of(transform).key}, which cuts or pads a dynamic axis; slice the tensor "
        "and call F.pad before it, or give the length of a single axis as a number, as in torch.fft.fft(x, 8, dim)",
        line_of_frame(sys._getframe(2)),
    )


def _joined(join: OpOverload) -> Callable[..., torch.Tensor]:
    def call(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        result: torch.Tensor = join([_with_derivative(tensor) for tensor in tensors], dim)
        return result

    return call


def _placed(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    """The tensors joined without a derivative in forward mode of each, which those of a transform inside of forward
    mode cannot get."""
    rank = max(tensor.dim() for tensor in tensors)
    kept = [tensor for tensor in tensors if tensor.dim() == rank]  # others are empty, and left out
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    ends = list(itertools.accumulate(tensor.shape[dim] for tensor in kept))
    zero = -0.0 if dtype.is_floating_point else 0  # which changes no number that it is added to
    padded = [
        _padded(tensor.to(dtype), dim, end - tensor.shape[dim], ends[-1] - end, zero)
        for tensor, end in zip(kept, ends, strict=True)
    ]
    return functools.reduce(torch.add, padded)


def _placed_along_new(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
    return _placed([tensor.unsqueeze(dim) for tensor in tensors], dim)


def _has_derivative(tensor: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def _with_derivative(tensor: torch.Tensor) -> torch.Tensor:
    if _has_derivative(tensor):
        return tensor
    dual: torch.Tensor = forward_ad.make_dual(tensor, torch.zeros_like(tensor))  # type: ignore[no-untyped-call]
    return dual


def _transforms(names: Sequence[str], axes: Sequence[str]) -> set[OpOverload]:
    return {getattr(_ATEN, f"fft_{name}{of_axes}").default for name in names for of_axes in axes}


_OF_HALVES = _transforms(("irfft", "hfft"), ("", "2", "n"))  # n // 2 + 1 numbers are given along the last axis
_FOURIER_NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_FOURIER, _FOURIER_OF_AXES = _transforms(_FOURIER_NAMES, ("",)), _transforms(_FOURIER_NAMES, ("2", "n"))
_RUNNING_MEAN, _IS_TRAINING = 3, 5
_EPSILON = 2  # of the arguments after the statistics
_PLACED = {_ATEN.cat.default: _placed, _ATEN.stack.default: _placed_along_new}
_JOINS = {join: _joined(join) for join in (_ATEN.cat.default, _ATEN.stack.default)}
_WRITTEN: dict[OpOverload, Callable[..., torch.Tensor]] = {
    _ATEN.layer_norm.default: _layer_norm,
    _ATEN.group_norm.default: _group_norm,
    _ATEN.batch_norm.default: _batch_norm,
    _ATEN.instance_norm.default: _instance_norm,
    _ATEN.glu.default: _glu,
    **_JOINS,
}


def _normalized(x: torch.Tensor, axes: list[int], eps: float) -> torch.Tensor:
    wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    centered = wide - wide.mean(axes, keepdim=True)
    return centered * (centered.square().mean(axes, keepdim=True) + eps).rsqrt()


def _of_channels(x: torch.Tensor, scale: torch.Tensor | None, shift: torch.Tensor | None) -> torch.Tensor:
    def aligned(values: torch.Tensor | None) -> torch.Tensor | None:
        return values if values is None else values.reshape(-1, *[1] * (x.dim() - 2))

    return _affine(x, aligned(scale), aligned(shift))


def _affine(x: torch.Tensor, scale: torch.Tensor | None, shift: torch.Tensor | None) -> torch.Tensor:
    scaled = x if scale is None else x * scale
    return scaled if shift is None else scaled + shift
