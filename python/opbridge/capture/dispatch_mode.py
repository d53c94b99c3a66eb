"""Intercepts the operators that a model calls, at the level of torch.export: before they are decomposed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from opbridge.torch_compat import (
    PRE_DISPATCH,
    SchemaCheckMode,
    enable_python_dispatcher,
    pop_predispatch_mode,
    push_predispatch_mode,
)


class _Mode(SchemaCheckMode):  # type: ignore[no-untyped-call]
    """Intercepts each operator at the dispatch key PreDispatch.

    torch allows only a few classes of modes there. SchemaCheckMode is the one that no other part of torch looks for.
    """

    _dispatch_key = PRE_DISPATCH  # torch restores the mode there after it was disabled, as for printing a tensor

    def __init__(self, call: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        # An attribute of the instance: torch would wrap a method of the class in a call of Dynamo.
        self.__dict__["__torch_dispatch__"] = lambda func, types, args, kwargs: call(func, args, kwargs or {})


@contextlib.contextmanager
def intercept_operators(call: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    with enable_python_dispatcher():
        push_predispatch_mode(_Mode(call))
        try:
            yield
        finally:
            pop_predispatch_mode()
