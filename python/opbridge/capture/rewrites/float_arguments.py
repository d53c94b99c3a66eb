"""Functions of torch whose operator takes a float or an int, for a number that is computed from symbolic sizes.

torch converts an argument of these types to a Python number, the example's. An argument of the type Scalar stays
symbolic. So these functions compute the same with operators that take a Scalar.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from opbridge.capture.rewrites.replaced_functions import Replacements

Function = Callable[..., Any]
Tensor = Any  # a tensor, with which torch computes numbers of any kind
_SYMBOLS = (torch.SymInt, torch.SymFloat)
_HALF = (torch.float16, torch.bfloat16)


def _in_float(compute: Function) -> Function:
    """Computes in float32 what has a half type, as torch's kernels do."""

    @functools.wraps(compute)
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        if input.dtype not in _HALF:
            return compute(input, *args, **kwargs)
        result = compute(input.float(), *args, **kwargs)
        return result if result is NotImplemented else result.to(input.dtype)

    return call


def _normalized(x: Tensor, axes: list[int], eps: Any) -> Tensor:
    centered = x - x.mean(axes, keepdim=True)
    return centered * torch.rsqrt(centered.square().mean(axes, keepdim=True) + eps)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _of_channels(x: Tensor, values: Tensor | None) -> Tensor | None:
    return None if values is None else values.reshape([-1] + [1] * (x.dim() - 2))


@_in_float
def _layer_norm(input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Tensor:
    return _affine(_normalized(input, [*range(-len(normalized_shape), 0)], eps), weight, bias)


@_in_float
def _rms_norm(input: Tensor, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Tensor:
    square = input.square().mean([*range(-len(normalized_shape), 0)], keepdim=True)
    return _affine(input * torch.rsqrt(square + eps), weight, None)


@_in_float
def _group_norm(input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Tensor:
    groups = input.reshape(input.shape[0], num_groups, -1)
    x = _normalized(groups, [-1], eps).reshape(input.shape)
    return _affine(x, _of_channels(x, weight), _of_channels(x, bias))


def _instance_norm(
    input: Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: Any = 1e-5,
) -> Any:
    if not use_input_stats or running_mean is not None or running_var is not None:
        return NotImplemented
    return _group_norm(input, input.shape[1], weight, bias, eps)


@_in_float
def _batch_norm(
    input: Tensor,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: Any = 1e-5,
) -> Any:
    if training or running_mean is None or running_var is None:
        return NotImplemented
    mean, variance, weight, bias = (_of_channels(input, each) for each in (running_mean, running_var, weight, bias))
    return _affine((input - mean) * torch.rsqrt(variance + eps), weight, bias)


def _isclose(input: Tensor, other: Tensor, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    close = input == other
    if equal_nan and (input.is_floating_point() or input.is_complex()):
        close = close | (input.isnan() & other.isnan())
    if not (input.is_floating_point() or input.is_complex()):
        other = other.to(torch.get_default_dtype())
    difference = (input - other).abs()
    return close | (difference.isfinite() & (difference <= (other * rtol).abs() + atol))


def _allclose(input: Tensor, other: Tensor, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    """Returns a tensor instead of a bool, so that a model can return the result."""
    return _isclose(input, other, rtol, atol, equal_nan).all()


def _nan_to_num(input: Tensor, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if input.is_complex():
        return NotImplemented
    if not input.is_floating_point():
        return input.clone()
    limits = torch.finfo(input.dtype)
    result = input.masked_fill(input.isnan(), 0.0 if nan is None else nan)
    result = result.masked_fill(input == math.inf, limits.max if posinf is None else posinf)
    return result.masked_fill(input == -math.inf, limits.min if neginf is None else neginf)


def _logit(input: Tensor, eps: Any = None) -> Tensor:
    x = input if input.is_floating_point() else input.to(torch.get_default_dtype())
    low = torch.full((), eps, dtype=x.dtype, device=x.device)
    # PyTorch compares with the lower bound first, which exceeds the upper one if eps > 0.5, and ignores negative ones.
    x = torch.where(low < 0, x, torch.where(x < low, low, torch.where(x > 1 - low, 1 - low, x)))
    return torch.log(x / (1 - x))


def _quantile(original: Function) -> Function:
    def call(input: Tensor, q: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(q, _SYMBOLS):
            return NotImplemented
        return original(input, torch.full((), q, dtype=input.dtype, device=input.device), *args, **kwargs)

    return call


def _cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: Any = 1e-8) -> Any:
    dtype = torch.promote_types(x1.dtype, x2.dtype)
    if not dtype.is_floating_point:
        return NotImplemented
    x1, x2 = torch.broadcast_tensors(x1.to(dtype), x2.to(dtype))  # type: ignore[no-untyped-call]
    a, b = (x / torch.linalg.vector_norm(x, dim=dim, keepdim=True).clamp(min=eps) for x in (x1, x2))
    return (a * b).sum(dim)


def _cdist(x1: Tensor, x2: Tensor, p: Any = 2.0, compute_mode: Any = None) -> Tensor:
    return torch.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p, -1)


def _pairwise_distance(x1: Tensor, x2: Tensor, p: Any = 2.0, eps: Any = 1e-6, keepdim: bool = False) -> Tensor:
    return torch.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim)


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if not isinstance(scale, _SYMBOLS):
        return NotImplemented
    return F.scaled_dot_product_attention(
        query * scale, key, value, attn_mask, dropout_p, is_causal, scale=1.0, enable_gqa=enable_gqa
    )


def _dropout(original: Function) -> Function:
    def call(input: Tensor, p: Any = 0.5, training: bool = True, inplace: bool = False) -> Any:
        return NotImplemented if training else original(input, 0.5, False, inplace)

    return call


def _reduced(losses: Tensor, reduction: str) -> Any:
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum() if reduction == "sum" else NotImplemented


def _huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: Any = 1.0, weight: Tensor | None = None
) -> Any:
    if weight is not None:
        return NotImplemented
    size = (input - target).abs()
    return _reduced(torch.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta)), reduction)


def _smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: Any = 1.0,
) -> Any:
    if size_average is not None or reduce is not None:
        return NotImplemented
    size = (input - target).abs()
    return _reduced(torch.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta), reduction)


_OF_FLOATS: dict[Any, Function] = {
    F.layer_norm: _layer_norm,
    F.rms_norm: _rms_norm,
    F.group_norm: _group_norm,
    F.instance_norm: _instance_norm,
    F.batch_norm: _batch_norm,
    F.huber_loss: _huber_loss,
    F.smooth_l1_loss: _smooth_l1_loss,
    F.pairwise_distance: _pairwise_distance,
    F.cosine_similarity: _cosine_similarity,
    F.scaled_dot_product_attention: _attention,
    torch.cdist: _cdist,
    **{function: _dropout(function) for function in (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d)},
}
# Functions that are methods of tensors too.
_METHODS: dict[str, Callable[[Function], Function]] = {
    "isclose": lambda original: _isclose,
    "allclose": lambda original: _allclose,
    "nan_to_num": lambda original: _nan_to_num,
    "logit": lambda original: _logit,
    "quantile": _quantile,
    "nanquantile": _quantile,
}
_SUBSTITUTES: dict[Any, Function] = _OF_FLOATS | {
    getattr(owner, name): make(getattr(owner, name))
    for name, make in _METHODS.items()
    for owner in (torch, torch.Tensor)
}


def _for_symbols(substitute: Function) -> Function:
    def around(_: Function, args: Any, kwargs: dict[str, Any]) -> Any:
        has_symbols = any(isinstance(each, _SYMBOLS) for each in (*args, *kwargs.values()))
        return substitute(*args, **kwargs) if has_symbols else NotImplemented

    return around


OF_FLOAT_ARGUMENTS: Replacements = {function: _for_symbols(each) for function, each in _SUBSTITUTES.items()}
