"""Copies of tensors by Python's module ``copy``, which would copy memory without an operator."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.patching import patch_attributes


def _deep_copy(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.detach().clone()
    return memo[id(tensor)]


def _shallow_copy(tensor: torch.Tensor, _: Any) -> tuple[Callable[..., torch.Tensor], tuple[torch.Tensor]]:
    """How to make another tensor with the same memory."""
    return torch.Tensor.detach, (tensor,)


# Methods of tensors, and what to call instead.
COPIES: dict[Any, Callable[..., Any]] = {
    torch.Tensor.__deepcopy__: _deep_copy,
    torch.Tensor.__reduce_ex__: _shallow_copy,
}


def patch_shallow_copies() -> contextlib.AbstractContextManager[None]:
    """Replaces the method that torch calls before a mode may, if the tensor is plain."""
    return patch_attributes(torch.Tensor, __reduce_ex__=_shallow_copy)
