"""Functions that eager mode runs, and torch does not run on the tensors of a capture."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.program import own_generator_refusal
from opbridge.capture.source import line_of_frame
from opbridge.torch_compat import pytree


def _where(condition: torch.Tensor, *args: Any, **options: Any) -> Any:
    return torch.where(_mask(condition), *args, **options)


def _method_where(tensor: torch.Tensor, condition: torch.Tensor, other: Any) -> torch.Tensor:
    return tensor.where(_mask(condition), other)


def index_of_masks(index: Any) -> Any:
    """The index ``index`` of a tensor, with its masks as tensors of bool."""
    return tuple(map(_mask, index)) if isinstance(index, tuple) else _mask(index)


def _index_put(function: Callable[..., Any]) -> Callable[..., Any]:
    def put(tensor: torch.Tensor, indices: Any, *args: Any, **options: Any) -> Any:
        return function(tensor, tuple(map(_mask, indices)), *args, **options)

    return put


def _mask(value: Any) -> Any:
    """``value``, with bool instead of uint8, the type of masks before torch had bool."""
    return value.bool() if isinstance(value, torch.Tensor) and value.dtype == torch.uint8 else value


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _without_generator(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without ``generator=None``, for which torch calls an operator that takes no symbolic sizes."""

    def draw(*args: Any, generator: torch.Generator | None = None, **options: Any) -> Any:
        if generator is None:
            return function(*args, **options)
        if any(isinstance(leaf, torch.SymInt) for leaf in pytree.tree_leaves((args, options))):
            raise own_generator_refusal(f"torch.{function.__name__}", line_of_frame(sys._getframe(1)))
        return function(*args, generator=generator, **options)

    return draw


# The functions, and what to call instead.
EAGER_ONLY: dict[Any, Callable[..., Any]] = {
    torch.where: _where,
    torch.Tensor.where: _method_where,
    **{
        put: _index_put(put)
        for put in (torch.index_put, torch.index_put_, torch.Tensor.index_put, torch.Tensor.index_put_)
    },
    torch.Tensor.nbytes.__get__: _nbytes,  # type: ignore[attr-defined]
    **{function: _without_generator(function) for function in (torch.rand, torch.randn, torch.randint, torch.randperm)},
}
