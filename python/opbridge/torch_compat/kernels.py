"""The kernels that torch calls for operators."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
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


@contextlib.contextmanager
def replace_shape_rule(
    library: torch.library.Library, operator: OpOverload, rule: Callable[..., Any]
) -> Iterator[None]:
    """Makes torch call ``rule`` for the shapes of the operator's results: for the dispatch key as long as ``library``
    exists, and in place of a rule in Python, which torch prefers."""
    replace_kernel(library, operator, rule, "Meta")
    key = torch._C.DispatchKey.Meta
    kernels, calls = operator.py_kernels, operator._dispatch_cache
    if (before := kernels.get(key)) is None:
        yield
        return
    try:
        kernels[key] = rule
        calls.pop(key, None)
        yield
    finally:
        kernels[key] = before
        calls.pop(key, None)
