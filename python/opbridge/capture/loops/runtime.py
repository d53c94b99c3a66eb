"""What the functions with loops as calls call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

import torch

from opbridge.capture.loops import iterables
from opbridge.capture.loops.iterables import Items, items_of
from opbridge.capture.loops.lists import READING, UnreadList, repeated, summed
from opbridge.capture.loops.variables import lists_in
from opbridge.capture.torchscript.branches import UNINITIALIZED, Truth, as_truth, logically
from opbridge.capture.torchscript.loops import fixed
from opbridge.torch_compat import is_fake

Step = Callable[..., tuple[Any, ...]]


class Recording(Protocol):
    """Makes a loop of symbolic length, and a branch of a step by the step's number or by data, a node of the program.
    ``shared`` are the variables whose value may be a list that others hold too."""

    def run(self, items: Items, step: Step, values: list[Any], shared: set[int]) -> tuple[Any, ...]: ...

    def choose(self, condition: Truth, ways: Sequence[Step], values: list[Any]) -> tuple[Any, ...]: ...


recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


class _Runtime:
    """Runs loops and their branches as Python does, unless the length of a loop is symbolic and ``recording`` is set in
    this thread."""

    def each(self, iterable: Any, step: Step, *variables: Callable[[], Any]) -> tuple[Any, ...]:
        """``for item in iterable: a, b = step(item, a, b)`` for the variables a and b; returns their last values."""
        values = tuple(map(_value_of, variables))
        recorder, items = recording.get(), items_of(iterable)
        if recorder is not None and isinstance(items, Items):
            # One reference each is that of the variable, of ``values`` and of the call.
            shared = {i for i in range(len(values)) if sys.getrefcount(values[i]) > 3 or _shares_lists(values[i])}
            return recorder.run(items, step, list(values), shared)
        for item in items:
            values = step(item, *values)
        return values

    def listed(self, iterable: Any, make: Callable[[Any], Any]) -> Any:
        """``[make(item) for item in iterable]``"""
        recorder, items = recording.get(), items_of(iterable)
        if recorder is None or not isinstance(items, Items):
            return [make(item) for item in items]

        def step(item: Any, made: list[Any]) -> tuple[list[Any]]:
            made.append(make(item))
            return (made,)

        return recorder.run(items, step, [[]], set())[0]

    def branch(self, test: Any, yes: Step, no: Step, *variables: Callable[[], Any]) -> tuple[Any, ...]:
        """``a, b = yes(a, b) if test else no(a, b)`` for the variables a and b"""
        values = list(map(_value_of, variables))
        condition = _undecided(test)
        if condition is not None:
            return _recording().choose(condition, (yes, no), values)
        return (yes if test else no)(*values)

    def chosen(self, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """``yes() if test else no()``"""
        return self.branch(test, lambda _: (yes(),), lambda _: (no(),), lambda: UNINITIALIZED)[0]

    def both(self, first: Any, second: Callable[[], Any], is_plain: bool) -> Any:
        """``first and second()`` of a test. Unless it ``is_plain``, the second may fail if the first does not hold."""
        condition = _undecided(first)
        if condition is None:
            return second() if first else first
        if is_plain:
            return logically("aten::__and__", [condition, _truth_of(second())])
        return self.chosen(condition, lambda: _truth_of(second()), lambda: False)

    def either(self, first: Any, second: Callable[[], Any], is_plain: bool) -> Any:
        """``first or second()``, likewise"""
        condition = _undecided(first)
        if condition is None:
            return first if first else second()
        if is_plain:
            return logically("aten::__or__", [condition, _truth_of(second())])
        return self.chosen(condition, lambda: True, lambda: _truth_of(second()))

    def negated(self, value: Any) -> Any:
        """``not value``"""
        condition = _undecided(value)
        return not value if condition is None else logically("aten::__not__", [condition])

    def parts(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """``owner.name(…)`` for unbind, split and chunk"""
        if recording.get() is None:
            return getattr(owner, name)(*args, **kwargs)
        return iterables.parts_of(owner, name, *args, **kwargs)

    def repeated(self, items: Any, count: Any) -> Any:
        """``items * count``"""
        if recording.get() is None or type(count) is not torch.SymInt or type(fixed(count)) is not torch.SymInt:
            return items * count
        made = repeated(items, iterables.not_negative(count))
        return items * count if made is None else made

    def called(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """``function(…)``, one that reads a list"""
        is_unread = bool(args) and isinstance(args[0], UnreadList)
        return (READING.get(function, function) if is_unread else function)(*args, **kwargs)

    def tuple(self, items: Any) -> Any:
        """``tuple(items)``"""
        if not isinstance(items, UnreadList):
            return (*items,)
        items.is_tuple = True
        return items

    sum = staticmethod(summed)
    counted = iterables.Counted
    range = staticmethod(iterables.range_of)
    reversed = staticmethod(iterables.reversed_items)
    enumerate = staticmethod(iterables.enumerated)
    zip = staticmethod(iterables.zipped)


RUNTIME = _Runtime()


def _recording() -> Recording:
    found = recording.get()
    assert found is not None
    return found


def _undecided(test: Any) -> Truth | None:
    """What a branch tests if it depends on data, or on the number of a step of a loop that is being recorded."""
    if recording.get() is None:
        return None
    if is_fake(test) and all(type(size) is int and size == 1 for size in test.shape):
        return Truth(test.reshape(()) != 0)
    truth = as_truth(fixed(test != 0 if type(test) is torch.SymInt else test))
    return truth if type(truth) is Truth else None


def _truth_of(value: Any) -> Any:
    """The truth of any value in a test that depends on data."""
    if type(value) is torch.SymInt:
        value = value != 0
    if type(value) is torch.SymBool:
        return Truth(torch.scalar_tensor(value, dtype=torch.bool))
    truth = _undecided(value)
    return bool(value) if truth is None else truth


def _shares_lists(value: Any) -> bool:
    """Whether others may hold a list in ``value`` too."""
    lists = [each for each in lists_in(value) if each is not value]
    # One reference each is that of what holds the list in ``value``, of ``lists``, of the variable and of the call.
    return any(sys.getrefcount(each) > 4 for each in lists)


def _value_of(variable: Callable[[], Any]) -> Any:
    try:
        return variable()
    except NameError:
        return UNINITIALIZED
