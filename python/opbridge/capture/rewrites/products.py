"""Products of several tensors. To order them, torch asks for the sizes; to reshape them, whether they are 0."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class MultiplyInOrder(TorchFunctionMode):
    """Multiplies tensors of symbolic sizes from left to right."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        multiply = _PRODUCTS.get(func)
        if multiply is None or kwargs:
            return func(*args, **(kwargs or {}))
        return multiply(func, *args)


def _einsum(original: Callable[..., Any], equation: Any, *operands: Any) -> Any:
    tensors = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if len(tensors) <= 2 or not isinstance(equation, str) or not _are_symbolic(tensors):
        return original(equation, *operands)
    return torch.ops.aten.einsum(equation, list(tensors))


def _chain_matmul(original: Callable[..., Any], *matrices: torch.Tensor) -> Any:
    return functools.reduce(torch.matmul, matrices) if _are_symbolic(matrices) else original(*matrices)


def _multi_dot(original: Callable[..., Any], tensors: Iterable[torch.Tensor]) -> Any:
    return functools.reduce(torch.matmul, tensors) if _are_symbolic(tensors) else original(tensors)


def _bilinear(
    original: Callable[..., Any], a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> Any:
    if torch.is_autocast_enabled("cpu") or not _are_symbolic([a]):
        return original(a, b, weight, bias)
    rows = (a @ weight.permute(1, 0, 2).flatten(1)).unflatten(-1, (weight.shape[0], weight.shape[2]))
    result = (rows @ b.unsqueeze(-1)).squeeze(-1)
    return result if bias is None else result + bias


def _are_symbolic(tensors: Iterable[torch.Tensor]) -> bool:
    return any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)


_PRODUCTS: dict[Any, Callable[..., Any]] = {
    torch.bilinear: _bilinear,
    torch.einsum: _einsum,
    torch.chain_matmul: _chain_matmul,
    torch.linalg.multi_dot: _multi_dot,
}
