"""Intercepts the operators that a model calls, at the level of torch.export: before they are decomposed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opbridge.torch_compat import (
    PRE_DISPATCH,
    SchemaCheckMode,
    enable_python_dispatcher,
    pop_predispatch_mode,
    push_predispatch_mode,
    transforms_are_active,
)

Around = Callable[[Callable[[], Any]], Any]


class _Mode(SchemaCheckMode):  # type: ignore[no-untyped-call]
    """Intercepts each operator at the dispatch key PreDispatch.

    torch allows only a few classes of modes there. SchemaCheckMode is the one that no other part of torch looks for.
    """

    _dispatch_key = PRE_DISPATCH  # torch restores the mode there after it was disabled, as for printing a tensor

    def __init__(self, call: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        # An attribute of the instance: torch would wrap a method of the class in a call of Dynamo.
        self.__dict__["__torch_dispatch__"] = lambda func, types, args, kwargs: call(func, args, kwargs or {})


class _Derivatives(TorchFunctionMode):
    """Hides autograd's own operators from the mode while autograd differentiates a transformed function: torch cannot
    pass to Python the numbers that a transform has wrapped."""

    def __init__(self, around: Around) -> None:
        super().__init__()
        self._around = around

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is not torch.autograd.grad or not transforms_are_active():
            return func(*args, **(kwargs or {}))
        mode = pop_predispatch_mode()
        try:
            return self._around(lambda: func(*args, **(kwargs or {})))
        finally:
            push_predispatch_mode(mode)


@contextlib.contextmanager
def intercept_operators(
    call: Callable[[Any, Any, Any], Any], derivative: Around = lambda compute: compute()
) -> Iterator[None]:
    """``call`` replaces the operators, except for those of the derivatives of functions that torch.func transforms:
    these are computed inside ``derivative``."""
    with enable_python_dispatcher():
        push_predispatch_mode(_Mode(call))
        try:
            with _Derivatives(derivative):
                yield
        finally:
            pop_predispatch_mode()
