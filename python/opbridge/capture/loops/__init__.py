"""Python loops over a dynamic axis, and branches by data, as nodes with bodies.

A capture follows one run of the model, in which ``for t in range(x.shape[1])`` has as many steps as the example. Where
that fixes a size, the function with the loop gets other code, in which the body of the loop is a function. The capture
calls it once and records the body of a ``scan``. Where a function branches by data, as in ``if x.sum() > 0``, its ways
become functions too, both of which the capture calls: they are the bodies of a ``cond``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import CodeType, FrameType, FunctionType, MappingProxyType

import torch

from opbridge.capture.failures import T
from opbridge.capture.loops.counting import lines_that_count_steps, tests_of_counting
from opbridge.capture.loops.functions import functions_with
from opbridge.capture.run_warnings import Warned, hold_warnings, show_warnings
from opbridge.capture.symbolic_sizes.kept_answers import compares_variables, compares_with_bools
from opbridge.capture.symbolic_sizes.syntax import codes_in, definition_of, tree_of
from opbridge.errors import UnsupportedError


@dataclasses.dataclass
class Noted:
    """Code of the user."""

    fixing: set[CodeType] = dataclasses.field(default_factory=set)  # has fixed a dynamic size, perhaps in a loop
    branching: set[CodeType] = dataclasses.field(default_factory=set)  # branches by data
    # Whether the run ends at a loop or a branch whose code is all that the argument has
    ends_at: Callable[[Noted], bool] = lambda _: False


class NodeFound(BaseException):
    """A loop fixes a dynamic size, or a branch depends on data, and can be a node. Not an Exception, which the model
    might catch."""


_noted: ContextVar[Noted | None] = ContextVar("_noted", default=None)


def note_loop(frame: FrameType | None) -> None:
    """Notes that a size becomes constant in ``frame``, perhaps in a loop. Raises NodeFound if the run ends there."""
    noted = _noted.get()
    if noted is None or frame is None:
        return
    noted.fixing.add(frame.f_code)
    code = {frame.f_code}
    if frame.f_lineno in lines_that_count_steps(tree_of(frame.f_code)) and noted.ends_at(
        Noted(code, code & noted.branching)
    ):
        raise NodeFound


def note_branch(frame: FrameType) -> None:
    """Notes that ``frame``, of the user's code, branches by data."""
    noted = _noted.get()
    if noted is None:
        return
    noted.branching.add(frame.f_code)
    while frame.f_back is not None and frame.f_code in frame.f_back.f_code.co_consts:  # a comprehension
        frame = frame.f_back
        noted.branching.add(frame.f_code)


def note_loop_of_data(frame: FrameType | None) -> None:
    """``note_loop`` of a size that depends on data. Data may decide more than the number of steps, such as a break."""
    if frame is not None:
        note_branch(frame)
    note_loop(frame)


def end_at_branch() -> None:
    """Raises NodeFound if the run has come to a branch by data, and ends there."""
    noted = _noted.get()
    if noted is not None and noted.branching and noted.ends_at(Noted(branching=noted.branching)):
        raise NodeFound


@contextlib.contextmanager
def note_loops(ends_at: Callable[[Noted], bool]) -> Iterator[Noted]:
    """Yields the code that fixes a size or branches by data meanwhile. Raises NodeFound at a loop or a branch for which
    ``ends_at`` is true."""
    noted = Noted(ends_at=ends_at)
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def stops_at_counting(frame: FrameType) -> bool:
    """Whether ``frame`` asks whether a ``while`` loop goes on that counts and can be a node."""
    if _noted.get() is None or frame.f_lineno not in tests_of_counting(tree_of(frame.f_code)):
        return False
    note_loop(frame)
    return has_loops(Noted({frame.f_code}))


def has_loops(noted: Noted) -> bool:
    """Whether a function with the noted code has a loop or a branch that can be a node."""
    branching = _functions_with(noted.branching)
    return bool(_with_calls(_functions_with(noted.fixing) | branching, branching))


def retry_with_loops(model: torch.nn.Module, capture: Callable[[], T]) -> T:
    """Calls ``capture()``, which calls the model. If it is refused and a function with a loop has fixed a size, or one
    has branched by data, calls it again, with the loop or the branch as a call of ``opbridge.capture.loops.runtime``.
    In other threads, the function does what it did before."""
    replaced: dict[FunctionType, CodeType] = {}
    branching: set[FunctionType] = set()
    tried: set[tuple[CodeType, bool]] = set()
    functions_with_code = functools.cache(lambda is_meant: _functions_of(model, is_meant))

    def untried(functions: set[FunctionType], branching: set[FunctionType]) -> set[FunctionType]:
        # A function that the model defines in its run is another one in each run.
        return {each for each in functions if (each.__code__, each in branching) not in tried}

    def ends_at(found: Noted) -> bool:
        by_data = branching | _functions_with(found.branching, replaced)
        return bool(_with_calls(untried(_functions_with(found.fixing, replaced), by_data), by_data))

    while True:
        held: list[Warned] = []
        new: dict[FunctionType, CodeType] = {}
        try:
            with note_loops(ends_at) as noted, _with_code(replaced), hold_warnings() as held:
                return capture()
        except (UnsupportedError, NodeFound):
            branching |= _functions_with(noted.branching, replaced)
            if branching:
                branching |= functions_with_code(compares_with_bools)
            again = untried(_functions_with(noted.fixing, replaced) | branching, branching)
            new = _with_calls(again, branching)
            if not new:
                raise
            comparing = untried(functions_with_code(compares_variables) - again, branching)
            new |= _with_calls(comparing, branching, identities=True)
            tried |= {(each.__code__, each in branching) for each in again | comparing}
        finally:
            if not new:
                show_warnings(held)
        replaced |= new


def _functions_of(model: torch.nn.Module, is_meant: Callable[[CodeType], bool]) -> set[FunctionType]:
    """The functions of the model with code that asks what an object *is*, which may stand for another one."""
    from opbridge.capture.state.attributes import Attributes

    return {each for each in Attributes(model).functions if any(map(is_meant, codes_in(each.__code__)))}


def _functions_with(
    codes: Iterable[CodeType], replaced: Mapping[FunctionType, CodeType] = MappingProxyType({})
) -> set[FunctionType]:
    """The functions that have one of the codes, or had it, or steps and ways with it, while they were ``replaced``."""
    new = {code: function for function, whole in replaced.items() for code in codes_in(whole)}
    codes = set(codes)
    defined = {code for code in codes - new.keys() if definition_of(code) is not None}  # others keep their code
    return functions_with(defined) | {new[code] for code in codes & new.keys()}


def _with_calls(
    functions: Iterable[FunctionType], branching: Collection[FunctionType], identities: bool = False
) -> dict[FunctionType, CodeType]:
    """Those of the functions that have loops, branches if they are ``branching``, or comparisons by ``is`` if these are
    asked for, with the code that they have with these as calls."""
    from opbridge.capture.loops.runtime import RUNTIME
    from opbridge.capture.loops.syntax import code_with_calls

    codes = (
        (function, code_with_calls(function, RUNTIME, function in branching, identities)) for function in functions
    )
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
