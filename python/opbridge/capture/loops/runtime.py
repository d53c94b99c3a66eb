"""What the functions with loops as calls call."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from opbridge.capture.loops import iterables
from opbridge.capture.loops.iterables import Items, items_of
from opbridge.capture.torchscript.branches import UNINITIALIZED

Step = Callable[..., tuple[Any, ...]]


class Recording(Protocol):
    """Makes a loop of symbolic length a node of the program. ``shared`` are the variables whose value may be a list
    that others hold too."""

    def run(self, items: Items, step: Step, values: list[Any], shared: set[int]) -> tuple[Any, ...]: ...


recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


class _Runtime:
    """Runs loops as Python does, unless their length is symbolic and ``recording`` is set in this thread."""

    def each(self, iterable: Any, step: Step, *variables: Callable[[], Any]) -> tuple[Any, ...]:
        """``for item in iterable: a, b = step(item, a, b)`` for the variables a and b; returns their last values."""
        values = tuple(map(_value_of, variables))
        recorder, items = recording.get(), items_of(iterable)
        if recorder is not None and isinstance(items, Items):
            # One reference each is that of the variable, of ``values`` and of the call.
            shared = {i for i in range(len(values)) if sys.getrefcount(values[i]) > 3}
            return recorder.run(items, step, list(values), shared)
        for item in iterable:
            values = step(item, *values)
        return values

    def listed(self, iterable: Any, make: Callable[[Any], Any]) -> Any:
        """``[make(item) for item in iterable]``"""
        recorder, items = recording.get(), items_of(iterable)
        if recorder is None or not isinstance(items, Items):
            return [make(item) for item in iterable]

        def step(item: Any, made: list[Any]) -> tuple[list[Any]]:
            made.append(make(item))
            return (made,)

        return recorder.run(items, step, [[]], set())[0]

    def parts(self, owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        """``owner.name(…)`` for unbind, split and chunk"""
        if recording.get() is None:
            return getattr(owner, name)(*args, **kwargs)
        return iterables.parts_of(owner, name, *args, **kwargs)

    range = staticmethod(iterables.range_of)
    reversed = staticmethod(iterables.reversed_items)
    enumerate = staticmethod(iterables.enumerated)
    zip = staticmethod(iterables.zipped)


RUNTIME = _Runtime()


def _value_of(variable: Callable[[], Any]) -> Any:
    try:
        return variable()
    except NameError:
        return UNINITIALIZED
