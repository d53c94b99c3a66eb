"""Norms of matrices, and condition numbers by them, which torch computes in C++ from the numbers of rows and columns,
as it asks whether there are any."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F


def _is_extreme(order: Any) -> bool:
    """Whether the norm is the greatest of some values, so that it is 0 if there are none, or, of a negative order, the
    least."""
    return isinstance(order, (int, float)) and abs(order) in (1, 2, math.inf)


def _matrix_norm(
    input: torch.Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    axes = [axis % input.dim() for axis in dim] if len(dim) == 2 <= input.dim() else []
    if not _is_extreme(ord) or len(set(axes)) != 2:
        result: torch.Tensor = torch.linalg.matrix_norm(input, ord, dim, keepdim, dtype=dtype)
        return result
    matrices = input.movedim(axes, (-2, -1))
    if abs(ord) == 2:
        values = torch.linalg.svdvals(matrices if dtype is None else matrices.to(dtype))
    else:
        values = torch.linalg.vector_norm(matrices, 1, -2 if abs(ord) == 1 else -1, dtype=dtype)
    norms = F.pad(values, (0, 1)).amax(-1) if ord > 0 else F.pad(values, (0, 1), value=math.inf).amin(-1)
    return norms[..., None, None].movedim((-2, -1), axes) if keepdim else norms


def _norm(
    input: torch.Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> torch.Tensor:
    axes = (0, 1) if dim is None and input.dim() == 2 else dim
    if _is_extreme(ord) and isinstance(axes, (tuple, list)) and len(axes) == 2:
        return _matrix_norm(input, ord, axes, keepdim, dtype=dtype)
    result: torch.Tensor = torch.linalg.norm(input, ord, dim, keepdim, dtype=dtype)
    return result


def _cond(input: torch.Tensor, p: Any = None) -> torch.Tensor:
    if not _is_extreme(p) or abs(p) == 2:
        result: torch.Tensor = torch.linalg.cond(input, p)
        return result
    inverse, info = torch.linalg.inv_ex(input)
    condition = (_matrix_norm(input, p) * _matrix_norm(inverse, p)).masked_fill(info > 0, math.inf)
    rows = torch.ones(input.shape[-1:], device=input.device).sum()
    return torch.where(rows > 0, condition, 0.0)


SUBSTITUTES: dict[Any, Callable[..., Any]] = {
    torch.linalg.matrix_norm: _matrix_norm,
    torch.linalg.norm: _norm,
    torch.linalg.cond: _cond,
}
