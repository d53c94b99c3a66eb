"""Branches by data, or by the number of a step of a loop, as ``cond`` nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opbridge.capture.loops.lists import UnreadList
from opbridge.capture.loops.rows import READABLE, list_as_tensors, resizing
from opbridge.capture.loops.variables import MUTABLE, Growing, Reads, Resizes, Variables, holds_lists, run_with_lists
from opbridge.capture.torchscript.branches import Truth, record_branch, symbols_before
from opbridge.capture.traced.bodies import NotRecorded, WritesOutside
from opbridge.capture.traced.recorder import Recorder
from opbridge.torch_compat import pytree

Way = Callable[..., tuple[Any, ...]]
_WRITTEN = object()


def record_choice(
    recorder: Recorder, condition: Truth, ways: Sequence[Way], values: Sequence[Any], shared: set[int]
) -> tuple[Any, ...]:
    """The variables, which are ``values`` before, after the way that the condition chooses; others may hold the lists
    of those that are ``shared``. Raises NotRecorded if the choice cannot be a node."""
    choice = _Choice(recorder, condition, ways, values, shared)
    known = symbols_before(condition.tensor)
    while True:
        try:
            return choice.recorded()
        except WritesOutside as write:
            choice.note_write(write, dict(enumerate(choice.leaves)))
            continue
        except Resizes as found:
            lists = list_as_tensors(found, choice, shared, known)
        except NotRecorded as error:
            readable = [each for i, each in enumerate(values) if isinstance(each, READABLE) and i not in shared]
            if not readable or (isinstance(error, Reads) and error.loop is not None):
                raise
            lists = list_as_tensors(resizing(readable[0], readable[0]), choice, shared, known)  # a way may read it
        ways = [lists.step(way) for way in ways]
        return lists.lists(record_choice(recorder, condition, ways, lists.tensors(values), shared))


class _Choice(Variables):
    def __init__(
        self, recorder: Recorder, condition: Truth, ways: Sequence[Way], values: Sequence[Any], shared: set[int]
    ) -> None:
        super().__init__(values)
        self._recorder = recorder
        self._condition = condition
        self._ways = ways
        self._shared = shared
        self._kept: dict[int, bool] = {}  # whether a variable that is a list or a dict still is the same one
        self._in_place: dict[int, bool] = {}  # whether the ways change a variable, such as a list, or assign another
        self._at_front: dict[int, bool] = {}  # whether a list grows at its front
        self._lists: dict[int, list[Any]] = {}  # the lists, or what is added to them, after the first way

    def recorded(self) -> tuple[Any, ...]:
        # The ways copy these copies: one that uses the leaf too has it by another name.
        copies = {i: self.leaves[i].clone() for i in self.written}
        ways = [functools.partial(self._run, way, copies) for way in self._ways]
        results = record_branch(self._recorder, self._condition, ways, with_numbers=True)
        for i, now in zip(copies, results.pop(), strict=True):
            self.leaves[i].copy_(now)
        return tuple(map(self._after, range(len(results)), results))

    def _run(self, way: Way, copies: Mapping[int, Any]) -> list[Any]:
        """The variables after the way, in which ``_WRITTEN`` stands for the leaves to which it writes, and these
        leaves; of a list that grows, the items that the way adds."""
        own = {i: copy.clone() for i, copy in copies.items()}
        self._recorder.note_standing(own.values())
        given = self.given = self.with_leaves(own)
        for i, value in enumerate(self.values):
            if isinstance(value, UnreadList):
                given[i] = value.within() if isinstance(value, Growing) else Growing(None, i)
        results = []
        after = run_with_lists(way, given)
        for i, (start, now) in enumerate(zip(given, after, strict=True)):
            results.append(self._added(i, start, now) if type(start) is Growing else self._result(i, start, now, own))
        operands = [each for each in self._recorder.operands if all(each is not copy for copy in copies.values())]
        self.check_writes(own, pytree.tree_leaves(results), operands)
        return [*results, list(own.values())]

    def _compare_lengths(self, index: int, items: list[Any]) -> None:
        other = self._lists.setdefault(index, items)
        if len(other) != len(items):
            raise resizing(self.values[index], other or items)

    def _added(self, index: int, start: Growing, now: Any) -> list[Any]:
        if now is not start:
            start.refuse()
        items: list[Any] = start.items()
        self._compare_lengths(index, items)
        if items and self._at_front.setdefault(index, start.at_front) != start.at_front:
            raise NotRecorded
        return items

    def _result(self, index: int, start: Any, now: Any, own: Mapping[int, Any]) -> Any:
        """A variable after a way."""
        if isinstance(start, MUTABLE):
            is_kept = self._kept.setdefault(index, now is start)
            if index in self._shared and is_kept != (now is start):
                raise NotRecorded
        if isinstance(now, READABLE):  # a list before
            raise resizing(self.values[index], now)
        if type(start) is type(now) is list:
            self._compare_lengths(index, now)
        leaves, structure = pytree.tree_flatten(now)
        own_leaves = {i: each for i, each in own.items() if self.variables[i] == index}
        if own_leaves:
            first = self.variables.index(index)
            if structure != self.structures[index] or any(leaves[i - first] is not own[i] for i in own_leaves):
                raise NotRecorded
            for i in own_leaves:
                leaves[i - first] = _WRITTEN
        if self._is_unchanged(index, leaves, structure):
            return pytree.tree_unflatten(leaves, structure)
        if holds_lists(start) or self._in_place.setdefault(index, now is start) != (now is start):
            raise NotRecorded
        return pytree.tree_unflatten(leaves, structure)

    def _is_unchanged(self, index: int, leaves: Sequence[Any], structure: Any) -> bool:
        before = [leaf for leaf, variable in zip(self.leaves, self.variables, strict=True) if variable == index]
        same = (now is _WRITTEN or now is leaf for now, leaf in zip(leaves, before, strict=False))
        return structure == self.structures[index] and all(same)

    def _after(self, index: int, result: Any) -> Any:
        """A variable after the node."""
        value = self.values[index]
        if isinstance(value, UnreadList):
            for each in result:
                value.insert(0, each) if self._at_front[index] else value.append(each)
            return value
        leaves, structure = pytree.tree_flatten(result)
        if self._is_unchanged(index, leaves, structure) and self._kept.get(index, True):
            return value
        if any(leaf is _WRITTEN for leaf in leaves):
            raise NotRecorded
        if not self._in_place.get(index, False):
            return result
        if not isinstance(value, MUTABLE):
            raise NotRecorded
        value.clear()
        (value.update if isinstance(value, dict) else value.extend)(result)
        return value
