"""Tensors without memory, by which torch stands for derivatives of 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.torch_compat.lookup import look_up

KEY = "ZeroTensor"  # of the kernels that are called for them

with look_up():
    zero_tensor: Callable[..., torch.Tensor] = torch._efficientzerotensor


def is_zero_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value._is_zerotensor()


def in_memory(value: Any) -> Any:
    """The same zeros, as an ordinary tensor; any other value as it is. torch would make symbolic sizes numbers."""
    return torch.zeros(value.shape, dtype=value.dtype, device=value.device) if is_zero_tensor(value) else value
