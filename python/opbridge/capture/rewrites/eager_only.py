"""Functions that eager mode runs, and torch does not run on the tensors of a capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _where(condition: torch.Tensor, *args: Any, **options: Any) -> Any:
    return torch.where(_mask(condition), *args, **options)


def _method_where(tensor: torch.Tensor, condition: torch.Tensor, other: Any) -> torch.Tensor:
    return tensor.where(_mask(condition), other)


def _mask(condition: torch.Tensor) -> torch.Tensor:
    """``condition`` as a mask: its type may be uint8, that of masks before torch had bool."""
    return condition.bool() if condition.dtype == torch.uint8 else condition


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


# The functions, and what to call instead.
EAGER_ONLY: dict[Any, Callable[..., Any]] = {
    torch.where: _where,
    torch.Tensor.where: _method_where,
    torch.Tensor.nbytes.__get__: _nbytes,  # type: ignore[attr-defined]
}
