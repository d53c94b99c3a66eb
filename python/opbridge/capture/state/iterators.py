"""Iterators that a model advances, such as ``itertools.count()`` and generators. None can be set back, so during a run
another object takes their place, which keeps what they return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opbridge.capture.state.holders import Holder, StateHolder
from opbridge.capture.state.kinds import Replayed, iterator_of


class IteratorHolder(StateHolder):
    __slots__ = ()
    owner: Replayed

    def put_back(self) -> None:
        self.owner.position = self._state

    def _read(self) -> int:
        return self.owner.position


class Places:
    """The variables and containers that hold one iterator, or its method ``__next__``."""

    def __init__(self, iterator: Iterator[Any], name: str) -> None:
        self.replayed = Replayed(iterator, name)
        self._found: list[tuple[Holder, Any, Any]] = []

    def occupy(self, holder: Holder, key: Any, part: Any) -> None:
        if holder.put(key, _like(part, self.replayed)):
            self._found.append((holder, key, part))

    def vacate(self) -> None:
        iterator = self.replayed.from_first()
        for holder, key, part in self._found:
            holder.put(key, part if iterator_of(part) is iterator else _like(part, iterator))


def occupied(found: list[tuple[Holder, Any, Any]]) -> tuple[list[Places], list[IteratorHolder]]:
    """Puts a ``Replayed`` into each of the places, the values ``found`` in holders by keys."""
    known: dict[int, Places] = {}
    holders = []
    for holder, key, part in found:
        iterator = iterator_of(part)
        places = known.get(id(iterator))
        if places is None:
            places = known[id(iterator)] = Places(iterator, holder.path_of(key))
            holders.append(IteratorHolder(places.replayed))
            holders[-1].parent, holders[-1].key = holder, key
        places.occupy(holder, key, part)
    return list(known.values()), holders


def _like(part: Any, iterator: Any) -> Any:
    return iterator if iterator_of(part) is part else iterator.__next__
