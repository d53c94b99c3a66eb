"""What the functions with loops as calls call."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Protocol

import torch

from opbridge.capture.loops import iterables
from opbridge.capture.loops.iterables import Counted, Items, items_of
from opbridge.capture.loops.lists import READING, ListOfNumbers, Range, UnreadList, repeated, summed
from opbridge.capture.loops.rows import READABLE
from opbridge.capture.loops.variables import MUTABLE, lists_in
from opbridge.capture.torchscript.branches import UNINITIALIZED, Truth, as_truth, logically
from opbridge.capture.torchscript.loops import fixed
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree
from opbridge.torch_compat.fake_tensors import value_of

Step = Callable[..., tuple[Any, ...]]
Held = Mapping[int, tuple[int, Any]]  # the id of a list → the number of references to it, and the list
NOTHING: Held = MappingProxyType({})
_MOST_STEPS = 10_000  # of a loop that data end, each of which becomes a node


class Recording(Protocol):
    """Makes a node of a loop of symbolic length, of a branch by data or by the number of a step, and of a loop that
    data end. ``shared`` are the variables whose value may be a list that others hold too."""

    def run(self, items: Items, step: Step, values: list[Any], shared: set[int]) -> tuple[Any, ...]: ...

    def choose(
        self, condition: Truth, ways: Sequence[Step], values: list[Any], shared: set[int]
    ) -> tuple[Any, ...]: ...

    def repeat(
        self, condition: Truth, test: Callable[..., Any], step: Step, values: list[Any], shared: set[int]
    ) -> tuple[Any, ...]: ...

    def check_are_others(self, value: Any, other: Any) -> None:
        """Refuses the model if the two may be one tensor where the graph runs."""
        ...


recording: ContextVar[Recording | None] = ContextVar("recording", default=None)
_aliased: ContextVar[tuple[Any, ...]] = ContextVar("_aliased", default=())


class _Runtime:
    """Runs loops and branches as Python does, unless ``recording`` is set in this thread and the length of a loop is
    symbolic or data decide a branch."""

    def each(
        self,
        iterable: Any,
        step: Step,
        *variables: Callable[[], Any],
        stopped: int | None = None,
        held: Held = NOTHING,
    ) -> tuple[Any, ...]:
        """``for item in iterable: a, b = step(item, a, b)`` for the variables a and b; returns their last values. Once
        the one with the index ``stopped`` is true, steps change nothing."""
        if isinstance(iterable, Counted) and iterable.items is None:
            return self._counted(iterable, step, variables, stopped, held)
        values = tuple(map(_value_of, variables))
        recorder, items = recording.get(), items_of(iterable)
        if recorder is not None and isinstance(items, Items):
            shared = _shared(values, held)
            return recorder.run(items, step, list(values), shared)
        if isinstance(items, Items) and type(fixed(items.count)) is not int:
            raise UnsupportedError(
                "a loop over a dynamic axis follows the example where a branch by data does; compute both ways of the "
                "branch and choose with torch.where(…)"
            )
        for number, item in enumerate(items):
            with note_aliases(_aliases(values, held)):
                values = step(item, *values)
            if stopped is not None and values[stopped] is True:
                break
            if number > _MOST_STEPS and stopped is not None and type(values[stopped]) is Truth:
                raise UnsupportedError(f"a loop that data end has more than {_MOST_STEPS} steps")
        return values

    def _counted(
        self,
        numbers: Counted,
        step: Step,
        variables: Sequence[Callable[[], Any]],
        stopped: int | None,
        held: Held,
    ) -> tuple[Any, ...]:
        """``each`` of the numbers, whose end neither a constant nor a size decides."""

        def goes_on(number: Any, *values: Any) -> Any:
            if stopped is None:
                return numbers.goes_on(number)
            return self.both(self.negated(values[stopped]), lambda: numbers.goes_on(number), False)

        def run(number: Any, *values: Any) -> tuple[Any, ...]:
            return (numbers.after(number), *step(number, *values))

        numbers.end, *values = self.repeat(goes_on, run, lambda: numbers.end, *variables, held=held)
        return tuple(values)

    def repeat(
        self, test: Callable[..., Any], step: Step, *variables: Callable[[], Any], held: Held = NOTHING
    ) -> tuple[Any, ...]:
        """``while test(a, b): a, b = step(a, b)`` for the variables a and b; returns their last values."""
        values = tuple(map(_value_of, variables))
        while True:
            goes_on = test(*values)
            condition = _undecided(goes_on)
            if condition is not None:
                shared = _shared(values, held)
                return _recording().repeat(condition, lambda *given: _truth_of(test(*given)), step, [*values], shared)
            if not goes_on:
                return values
            with note_aliases(_aliases(values, held)):
                values = step(*values)

    def held(self, *variables: Callable[[], Any]) -> Held:
        """The lists and dicts among the variables of a step or a way, which takes them from what runs it."""
        values = tuple(map(_value_of, variables))
        counts = [sys.getrefcount(values[i]) for i in range(len(values))]
        return {id(each): (n, each) for n, each in zip(counts, values, strict=True) if isinstance(each, MUTABLE)}

    def listed(self, iterable: Any, make: Callable[[Any], Any], test: Callable[[Any], Any] | None = None) -> Any:
        """``[make(item) for item in iterable if test(item)]``"""
        recorder, items = recording.get(), items_of(iterable)

        def add(item: Any, made: list[Any]) -> tuple[Any, ...]:
            made.append(make(item))
            return (made,)

        def add_if(item: Any, made: list[Any]) -> tuple[Any, ...]:
            assert test is not None
            held = self.held(lambda: made)
            return self.branch(test(item), lambda made: add(item, made), lambda made: (made,), lambda: made, held=held)

        step = add if test is None else add_if
        if recorder is not None and isinstance(items, Items):
            return recorder.run(items, step, [[]], set())[0]
        made: list[Any] = []
        for item in items:
            (made,) = step(item, made)
        return made

    def joined(self, *parts: Any) -> Any:
        """``[*part, *other, …]``"""
        parts = tuple(self.listed(each, lambda item: item) if isinstance(each, Items) else each for each in parts)
        if not any(isinstance(each, UnreadList) for each in parts):
            return [*itertools.chain(*parts)]
        if len(parts) == 1 and isinstance(parts[0], Range):
            return parts[0]
        made: Any = []
        for each in parts:
            items = ListOfNumbers(each.values) if isinstance(each, Range) else each
            made = made + (items if isinstance(items, UnreadList) else [*items])
        return made

    def branch(
        self, test: Any, yes: Step, no: Step, *variables: Callable[[], Any], held: Held = NOTHING
    ) -> tuple[Any, ...]:
        """``a, b = yes(a, b) if test else no(a, b)`` for the variables a and b"""
        values = tuple(map(_value_of, variables))
        condition = _undecided(test)
        if condition is not None:
            shared = _shared(values, held)
            return _recording().choose(condition, (yes, no), list(values), shared)
        with note_aliases(_aliases(values, held)):
            return (yes if test else no)(*values)

    def chosen(self, test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """``yes() if test else no()``"""
        return self.branch(test, lambda _: (yes(),), lambda _: (no(),), lambda: UNINITIALIZED)[0]

    def both(self, first: Any, second: Callable[[], Any], is_plain: bool) -> Any:
        """``first and second()`` of a test. Unless it ``is_plain``, the second may fail if the first does not hold."""
        condition = _undecided(first)
        if condition is None:
            return second() if first else False  # whose truth is asked only once
        if is_plain:
            return logically("aten::__and__", [condition, _truth_of(second())])
        return self.chosen(condition, lambda: _truth_of(second()), lambda: False)

    def either(self, first: Any, second: Callable[[], Any], is_plain: bool) -> Any:
        """``first or second()``, likewise"""
        condition = _undecided(first)
        if condition is None:
            return True if first else second()
        if is_plain:
            return logically("aten::__or__", [condition, _truth_of(second())])
        return self.chosen(condition, lambda: True, lambda: _truth_of(second()))

    def first_false(self, first: Any, second: Callable[[], Any]) -> Any:
        """``first and second()`` as a value"""
        condition = _undecided(first)
        if condition is None:
            first = _bool_of(first)  # whose truth is asked only once
            return second() if first else first
        return self.chosen(condition, second, lambda: False if type(first) is Truth else first)

    def first_true(self, first: Any, second: Callable[[], Any]) -> Any:
        """``first or second()`` as a value"""
        condition = _undecided(first)
        if condition is None:
            first = _bool_of(first)
            return first if first else second()
        return self.chosen(condition, lambda: True if type(first) is Truth else first, second)

    def negated(self, value: Any) -> Any:
        """``not value``"""
        condition = _undecided(value)
        return not value if condition is None else logically("aten::__not__", [condition])

    def truth(self, *args: Any) -> Any:
        """``bool(value)``"""
        condition = _undecided(args[0]) if args else None
        return bool(*args) if condition is None else condition

    def matched(self, subject: Any) -> Any:
        """``subject``, which Python matches with patterns: by the identity of a bool"""
        if any(type(each) is Truth for each in pytree.tree_leaves(subject)):
            raise UnsupportedError("the model matches a bool that data decide; write the match as branches")
        return subject

    def is_bool(self, value: Any, constant: bool) -> Any:
        """``value is True`` or ``value is False``"""
        if type(value) is not Truth:
            return _bool_of(value) is constant
        return value if constant else self.negated(value)

    def is_same(self, value: Any, other: Any) -> bool:
        """``value is other`` of two variables"""
        recorder = recording.get()
        if recorder is not None and value is not other:
            recorder.check_are_others(value, other)
        return value is other

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
        """``function(…)``, one that reads a list or goes through an iterable"""
        if function in self._looping:
            return self._looping[function](*args, **kwargs)
        is_unread = bool(args) and isinstance(args[0], UnreadList)
        return (READING.get(function, function) if is_unread else function)(*args, **kwargs)

    def reduced(self, function: Callable[[Any, Any], Any], iterable: Any, *initial: Any) -> Any:
        """``functools.reduce(…)``"""
        recorder, items = recording.get(), items_of(iterable)
        if recorder is None or not isinstance(items, Items):
            return functools.reduce(function, items, *initial)
        value, rest = (initial[0], items) if initial else (items.get(0), items.after_first())
        shared = {0} if isinstance(value, MUTABLE) else set()
        return recorder.run(rest, lambda item, value: (function(value, item),), [value], shared)[0]

    def accumulated(
        self, iterable: Any, function: Callable[[Any, Any], Any] = operator.add, *, initial: Any = None
    ) -> Any:
        """``itertools.accumulate(…)``"""
        recorder, items = recording.get(), items_of(iterable)
        if recorder is None or not isinstance(items, Items):
            return itertools.accumulate(items, function, initial=initial)
        first, rest = (items.get(0), items.after_first()) if initial is None else (initial, items)

        def step(item: Any, value: Any, values: list[Any]) -> tuple[Any, ...]:
            value = function(value, item)
            values.append(value)
            return value, values

        shared = {0} if isinstance(first, MUTABLE) else set()
        return recorder.run(rest, step, [first, [first]], shared)[1]

    def sum(self, items: Any, start: Any = 0) -> Any:
        """``sum(items, start)``"""
        is_of_rows = isinstance(items, torch.Tensor) and items.dim() > 0
        return summed(self.parts(items, "unbind") if is_of_rows else items, start)

    def tuple(self, items: Any) -> Any:
        """``tuple(items)``"""
        if not isinstance(items, UnreadList):
            return (*items,)
        items.is_tuple = True
        return items

    counted = iterables.Counted
    range = staticmethod(iterables.range_of)
    reversed = staticmethod(iterables.reversed_items)
    enumerate = staticmethod(iterables.enumerated)
    zip = staticmethod(iterables.zipped)
    map = staticmethod(iterables.mapped)

    @functools.cached_property
    def _looping(self) -> dict[Any, Callable[..., Any]]:
        return {
            functools.reduce: self.reduced,
            itertools.accumulate: self.accumulated,
            itertools.pairwise: iterables.in_pairs,
            itertools.islice: iterables.sliced,
        }


RUNTIME = _Runtime()


def _recording() -> Recording:
    found = recording.get()
    assert found is not None
    return found


def _undecided(test: Any) -> Truth | None:
    """What a branch tests if it depends on data, or on the number of a step of a loop that is being recorded."""
    if recording.get() is None:
        return None
    if isinstance(test, READABLE):
        test = test.length
    if isinstance(test, torch.Tensor) and all(type(size) is int and size == 1 for size in test.shape):
        truth = test.reshape(()) != 0
        return Truth(truth) if value_of(truth) is None else None
    found = as_truth(fixed(test != 0 if type(test) is torch.SymInt else test))
    return found if type(found) is Truth else None


def _truth_of(value: Any) -> Any:
    """The truth of any value in a test that depends on data."""
    if type(value) is torch.SymInt:
        value = value != 0
    if type(value) is torch.SymBool:
        return Truth(torch.scalar_tensor(value, dtype=torch.bool))
    truth = _undecided(value)
    return bool(value) if truth is None else truth


def _bool_of(value: Any) -> Any:
    """``value``; the bool that a symbol of one stands for"""
    return bool(value) if type(value) is torch.SymBool else value


def _shared(values: Any, held: Held) -> set[int]:
    """The variables whose value may be a list that others hold too, besides those that held it before."""
    # One reference each is that of the variable, of ``values`` and of the call, and one that of ``held``.
    return {
        i
        for i in range(len(values))
        if sys.getrefcount(values[i]) > (held[id(values[i])][0] + 1 if id(values[i]) in held else 3)
        or any(values[i] is each for each in _aliased.get())
        or shares_lists(values[i])
    }


def _aliases(values: Any, held: Held) -> list[Any]:
    """The variables that are lists or dicts which others hold too."""
    if recording.get() is None:
        return []
    shared, ids = _shared(values, held), [*map(id, values)]
    return [
        each for i, each in enumerate(values) if isinstance(each, MUTABLE) and (i in shared or ids.count(id(each)) > 1)
    ]


@contextlib.contextmanager
def note_aliases(lists: Sequence[Any]) -> Iterator[None]:
    """Notes lists that a step or a way takes and others hold too: ``held`` would count these among what runs it."""
    token = _aliased.set((*_aliased.get(), *lists))
    try:
        yield
    finally:
        _aliased.reset(token)


def shares_lists(value: Any) -> bool:
    """Whether others may hold a list in ``value`` too."""
    lists = [each for each in lists_in(value) if each is not value]
    # One reference each is that of what holds the list in ``value``, of ``lists``, of the variable and of the call.
    return any(sys.getrefcount(each) > 4 for each in lists)


def _value_of(variable: Callable[[], Any]) -> Any:
    try:
        return variable()
    except NameError:
        return UNINITIALIZED
