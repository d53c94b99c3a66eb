"""The operators that a model calls, seen where torch.export sees them: before they are decomposed."""

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
    """Sees each operator at the dispatch key PreDispatch.

    torch admits a few classes of modes there; of these, SchemaCheckMode has no meaning to the rest of torch.
    """

    _dispatch_key = PRE_DISPATCH  # where torch puts it back, as when it prints a tensor

    def __init__(self, call: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        # Not a method of the class, for torch would wrap it in a call of Dynamo.
        self.__dict__["__torch_dispatch__"] = lambda func, types, args, kwargs: call(func, args, kwargs or {})


@contextlib.contextmanager
def intercept_operators(call: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    with enable_python_dispatcher():
        push_predispatch_mode(_Mode(call))
        try:
            yield
        finally:
            pop_predispatch_mode()
