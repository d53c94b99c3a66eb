"""Python loops over a dynamic axis, as nodes with a body.

A capture follows one run of the model, in which ``for t in range(x.shape[1])`` has as many steps as the example. Where
that fixes a size, the function with the loop gets other code, in which the body of the loop is a function. The capture
calls it once and records the body of a ``scan``.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import CodeType, FrameType, FunctionType

from opbridge.capture.failures import T
from opbridge.capture.loops.counting import tests_of_counting
from opbridge.capture.run_warnings import Warned, hold_warnings, show_warnings
from opbridge.capture.symbolic_sizes.syntax import running_line
from opbridge.errors import UnsupportedError

# The code of the user that has fixed a dynamic size.
_fixing: ContextVar[set[CodeType] | None] = ContextVar("_fixing", default=None)


def note_loop(frame: FrameType | None) -> None:
    """Notes that a size becomes constant in ``frame``, perhaps in a loop."""
    noted = _fixing.get()
    if noted is not None and frame is not None:
        noted.add(frame.f_code)


@contextlib.contextmanager
def note_loops() -> Iterator[set[CodeType]]:
    """Yields the code that fixes a size meanwhile."""
    noted: set[CodeType] = set()
    token = _fixing.set(noted)
    try:
        yield noted
    finally:
        _fixing.reset(token)


def stops_at_counting(frame: FrameType) -> bool:
    """Whether ``frame`` asks whether a ``while`` loop goes on that counts and can be a node."""
    if _fixing.get() is None or running_line(frame) not in tests_of_counting(frame.f_code.co_filename):
        return False
    note_loop(frame)
    return has_loops([frame.f_code])


def has_loops(noted: Iterable[CodeType]) -> bool:
    """Whether a function with the noted code has a loop that can be a node."""
    return bool(_with_calls(noted))


def retry_with_loops(capture: Callable[[], T]) -> T:
    """Calls ``capture()``. If it is refused and a function with a loop has fixed a size, calls it again, with the loop
    as a call of ``opbridge.capture.loops.runtime``. In other threads, the function does what it did before."""
    replaced: dict[FunctionType, CodeType] = {}
    while True:
        held: list[Warned] = []
        new: dict[FunctionType, CodeType] = {}
        try:
            with note_loops() as noted, _with_code(replaced), hold_warnings() as held:
                return capture()
        except UnsupportedError:
            new = {each: code for each, code in _with_calls(noted).items() if each not in replaced}
            if not new:
                raise
        finally:
            if not new:
                show_warnings(held)
        replaced |= new


def _with_calls(noted: Iterable[CodeType]) -> dict[FunctionType, CodeType]:
    """The functions that have the noted code, with the code that they have with their loops as calls."""
    from opbridge.capture.loops.runtime import RUNTIME
    from opbridge.capture.loops.syntax import code_with_calls

    functions = (each for code in noted for each in gc.get_referrers(code) if isinstance(each, FunctionType))
    codes = ((function, code_with_calls(function, RUNTIME)) for function in functions)
    return {function: code for function, code in codes if code is not None}


@contextlib.contextmanager
def _with_code(replaced: dict[FunctionType, CodeType]) -> Iterator[None]:
    before = {function: function.__code__ for function in replaced}
    try:
        for function, code in replaced.items():
            function.__code__ = code
        yield
    finally:
        for function, code in before.items():
            function.__code__ = code
