"""Operators of torch.func's transforms, written with simpler ones. The rules by which torch transforms them, computes
their derivatives in forward mode and their second derivatives make symbolic sizes numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from opbridge.torch_compat import OpOverload, dual_numbers_exist, entered_transforms, transforms_are_active

_ATEN: Any = torch.ops.aten


def written_operator(function: OpOverload, args: Any) -> Callable[..., torch.Tensor] | None:
    """The function to call instead of ``function``; None if torch's kernel will do."""
    if function is _ATEN.linear.default:
        is_affine = len(args) > 2 and args[2] is not None
        return _linear if is_affine and args[0].dim() > 2 and transforms_are_active() else None
    by_hand: Callable[..., torch.Tensor] | None = _WRITTEN.get(function)
    if by_hand is None or not _has_dynamic_sizes(args[0]):
        return None
    if function is _ATEN.batch_norm.default and args[_IS_TRAINING]:
        return None
    if function is _ATEN.instance_norm.default and args[_RUNNING_MEAN] is not None:
        return None
    if function in _JOINS:
        return by_hand if dual_numbers_exist() and not all(map(_has_derivative, args[0])) else None
    depth, _ = entered_transforms()
    return by_hand if dual_numbers_exist() or depth > 1 else None


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


def _joined(join: OpOverload) -> Callable[..., torch.Tensor]:
    def call(tensors: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        result: torch.Tensor = join([_with_derivative(tensor) for tensor in tensors], dim)
        return result

    return call


def _has_derivative(tensor: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def _with_derivative(tensor: torch.Tensor) -> torch.Tensor:
    if _has_derivative(tensor):
        return tensor
    dual: torch.Tensor = forward_ad.make_dual(tensor, torch.zeros_like(tensor))  # type: ignore[no-untyped-call]
    return dual


_RUNNING_MEAN, _IS_TRAINING = 3, 5
_EPSILON = 2  # of the arguments after the statistics
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
