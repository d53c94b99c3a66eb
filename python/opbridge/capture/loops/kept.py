"""What objects keep, as by ``self.state = …`` or ``self.total.add_(…)``, as further variables of a loop or a branch."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import UnreadList
from opbridge.capture.loops.variables import MUTABLE, is_in_memory_of
from opbridge.capture.state.attributes import Attributes, Place
from opbridge.capture.state.ownership import is_own
from opbridge.capture.traced.bodies import NotRecorded, WritesOutside
from opbridge.capture.traced.recorder import Recorder
from opbridge.torch_compat import is_fake, pytree

Function = Callable[..., Any]


class Keeps(BaseException):
    """A body changes what objects keep, which can be variables: those of ``kept``."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept


def state_of(functions: Iterable[Any], values: Iterable[Any]) -> Attributes:
    """What functions with the variables ``values`` can change besides these."""
    others = (each for each in pytree.tree_leaves(list(values)) if not isinstance(each, torch.Tensor))
    seen: set[int] = set()
    return Attributes(*(own for function in functions for own in _of_the_model(function, seen)), *others)


def keeps(state: Attributes, recorder: Recorder) -> bool:
    """Whether a body has changed nothing since ``state``. It may assign tensors that it has made where there were none;
    they are refused where they are used outside of it."""
    if any(_has_tensors(place.before) for place in state.assigned()):
        return False
    return state.only_assign(lambda each: is_fake(each) and not recorder.knows(each))


def _is_own(place: Place, *records: Attributes) -> bool:
    """Whether nothing but the place, and the records, refers to the list in it."""
    value = place.get()
    # One reference each is that of the place, of the variable and of the call.
    return sys.getrefcount(value) == 3 + sum(record.references(value) for record in records)


def _in_place(before: Any, value: Any) -> Any:
    if not isinstance(before, UnreadList) or before is value:
        return value
    if type(before) is not type(value):
        raise NotRecorded
    vars(before).update(vars(value))
    return before


def _object(place: Place) -> int:
    return id(place.before)


def _has_tensors(value: Any) -> bool:
    return any(isinstance(each, torch.Tensor) for each in pytree.tree_leaves(value))


def _of_the_model(function: Any, seen: set[int]) -> Iterator[Any]:
    """The function, or those of the model that one of opbridge calls."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, types.FunctionType) or is_own(str(function.__module__)):
        yield function
        return
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # the variable has no value yet
            if isinstance(cell.cell_contents, (types.FunctionType, types.MethodType, functools.partial)):
                yield from _of_the_model(cell.cell_contents, seen)


class Kept:
    """The values of ``places``, of which those in one list hold one object. One may be MISSING: a model can ask whether
    a dict has a key. A function with these variables besides its own finds their values in the places, which have those
    before again when it returns."""

    def __init__(self, places: Iterable[list[Place]] = (), own: Iterable[Place] = ()) -> None:
        """``own`` are those of lists that nothing else holds."""
        self._places = list(places)
        self._own = frozenset(own)

    def check(self, state: Attributes, model: Attributes, error: BaseException) -> None:
        """Raises Keeps, of more places, if a body that ended with ``error`` has changed what these hold since
        ``state``, which is undone, or writes to a tensor in them. ``model`` also refers to what the model holds."""
        found = [[place] for place in state.assigned()]
        for (place,) in found:
            place.set(place.before)
        grown = state.grown()
        for place, items in grown:
            place.get()[:] = items
        found += [[place] for place, _ in grown]
        if isinstance(error, WritesOutside):
            written = state.holding(lambda value: is_in_memory_of(value, [error.tensor]))
            found += [list(same) for _, same in itertools.groupby(sorted(written, key=_object), key=_object)]
        known = {place.identity for places in self._places for place in places}
        new = [places for places in found if known.isdisjoint(place.identity for place in places)]
        if new:
            own = (place for place, _ in grown if _is_own(place, state, model))
            raise Keeps(Kept([*self._places, *new], [*self._own, *own])) from error

    def variables(self, values: Sequence[Any], shared: Iterable[int]) -> tuple[list[Any], set[int]]:
        """The variables, those kept behind the others, and which of them are lists that others may hold."""
        every = [*values, *self.values()]
        kept = zip(range(len(values), len(every)), self._places, strict=True)
        others = (i for i, (place, *_) in kept if isinstance(every[i], MUTABLE) and place not in self._own)
        return every, {*shared, *others}

    def values(self) -> list[Any]:
        values = []
        for first, *others in self._places:
            value = first.get()
            if any(place.get() is not value for place in others):
                raise NotRecorded
            values.append(value)
        return values

    def put(self, variables: Sequence[Any]) -> tuple[Any, ...]:
        """Puts the values behind the other variables into their places. Returns the others."""
        own, values = self._split(variables)
        for places, value in zip(self._places, values, strict=True):
            for place in places:
                place.set(value)
        return tuple(own)

    def with_same_lists(self, variables: Sequence[Any]) -> tuple[Any, ...]:
        """The variables, in which lists that grow are what they were before, changed in place: the code may have named
        one, as ``self.rows.append(…)`` has before its argument is computed."""
        own, values = self._split(variables)
        return *own, *(_in_place(place.get(), value) for (place, *_), value in zip(self._places, values, strict=True))

    def step(self, function: Function) -> Function:
        """``function``, which takes and returns the variables, with those kept besides."""

        def run(*given: Any) -> tuple[Any, ...]:
            with self._given(given) as own:
                return (*function(*own), *self.values())

        return run if self._places else function

    def test(self, function: Function) -> Function:
        """``function``, which takes the variables, with those kept besides."""

        def run(*given: Any) -> Any:
            with self._given(given) as own:
                result = function(*own)
                if any(now is not before for now, before in zip(self.values(), self._split(given)[1], strict=True)):
                    raise NotRecorded
                return result

        return run if self._places else function

    @contextlib.contextmanager
    def _given(self, variables: Sequence[Any]) -> Iterator[Sequence[Any]]:
        before = [(place, place.get()) for places in self._places for place in places]
        try:
            yield self.put(variables)
        finally:
            for place, value in before:
                place.set(value)

    def _split(self, variables: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        count = len(variables) - len(self._places)
        return variables[:count], variables[count:]
