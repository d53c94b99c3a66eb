"""The kernels that torch calls for operators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload

AUTOGRAD = "Autograd"  # the dispatch key of what computes a result and notes how to differentiate it


def replace_kernel(library: torch.library.Library, operator: OpOverload, kernel: Callable[..., Any], key: str) -> None:
    """Makes torch call ``kernel`` for the dispatch key ``key``, as long as the library exists."""
    register: Callable[..., None] = library.impl
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")  # torch 2.13, of a kernel replaced
        register(operator, kernel, key)
