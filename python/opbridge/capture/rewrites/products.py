"""Products of several tensors, from left to right. To order them, torch asks for the sizes; to reshape them, whether
they are 0."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from opbridge.capture.rewrites.replaced_functions import Replacements


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
    original: Callable[..., Any],
    input1: torch.Tensor,
    input2: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> Any:
    if torch.is_autocast_enabled("cpu") or not _are_symbolic([input1]):
        return original(input1, input2, weight, bias)
    rows = input1 @ weight.permute(1, 0, 2).flatten(1)
    rows = rows.reshape(*input1.shape[:-1], weight.shape[0], weight.shape[2])
    result = (rows @ input2.unsqueeze(-1)).squeeze(-1)
    return result if bias is None else result + bias


def _tensordot(original: Callable[..., Any], a: torch.Tensor, b: torch.Tensor, dims: Any = 2) -> Any:
    if not _are_symbolic([a, b]) or isinstance(dims, torch.Tensor):
        return original(a, b, dims=dims)
    of_a, of_b = (range(-dims, 0), range(dims)) if isinstance(dims, int) else dims
    of_a, of_b = [axis % a.dim() for axis in of_a], [axis % b.dim() for axis in of_b]
    if [a.shape[axis] for axis in of_a] != [b.shape[axis] for axis in of_b]:
        return original(a, b, dims=dims)
    names = [of_a[of_b.index(axis)] if axis in of_b else a.dim() + axis for axis in range(b.dim())]
    kept = [name for name in (*range(a.dim()), *names) if name not in of_a]
    return torch.einsum(a, list(range(a.dim())), b, names, kept)


def _are_symbolic(tensors: Iterable[torch.Tensor]) -> bool:
    return any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)


def _unless_written_to(multiply: Callable[..., Any]) -> Callable[..., Any]:
    def around(original: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        if kwargs.get("out") is not None:
            return NotImplemented
        return multiply(original, *args, **{name: value for name, value in kwargs.items() if name != "out"})

    return around


PRODUCTS: Replacements = {
    function: _unless_written_to(multiply)
    for function, multiply in (
        (torch.bilinear, _bilinear),
        (torch.einsum, _einsum),
        (torch.tensordot, _tensordot),
        (torch.chain_matmul, _chain_matmul),
        (torch.linalg.multi_dot, _multi_dot),
    )
}
