"""The variables of a loop or of a branch, and the lists that grow in it."""

from __future__ import annotations

import collections
import itertools
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch

from opbridge.capture.loops.lists import UnreadList, frozen, unread
from opbridge.capture.state.real_tensors import memory_of
from opbridge.capture.torchscript.loops import fixed
from opbridge.capture.traced.bodies import NotRecorded, WritesOutside
from opbridge.torch_compat import has_memory, pytree

MUTABLE = (list, dict, collections.deque)  # of which the leaves are a variable's


class Reads(NotRecorded):
    """A step of ``loop`` reads one of the ``count`` last items of a list that grows, the leaf with this index."""

    def __init__(self, loop: object, index: int, count: int) -> None:
        self.loop = loop
        self.index = index
        self.count = count


class Resizes(NotRecorded):
    """Data decide the length of the list ``value``, or code reads it while it grows. Its items are like ``item``, but
    for their size along ``axis`` if there is one."""

    def __init__(self, value: Any, item: Any, axis: int | None = None) -> None:
        self.value = value
        self.item = item
        self.axis = axis


class Growing(UnreadList):
    """Stands for a list, the leaf with this index, in a step of ``loop`` that only extends it, either at its end or at
    its front. A step that extends it at its end can read the ``first`` items, which are there before the loop, and as
    many of the ``last`` as are variables of the loop. ``before`` is the number of all items before the step, if each
    step adds one. Of ``Slots``, a step assigns one of the ``capacity`` items. ``like`` has an item like all others if
    there is one before the loop."""

    def __init__(
        self,
        loop: object,
        index: int,
        first: Sequence[Any] = (),
        before: Any = None,
        capacity: Any = None,
        like: Sequence[Any] = (),
    ) -> None:
        super().__init__(unread())
        self._like = like
        self._loop = loop
        self._index = index
        self._first = first
        self._before = before
        self._capacity = capacity
        self._added: list[Any] = []
        self.reads: list[Any] = []  # the indices; shared with what stands for the list in ways
        self._is_counted = False
        self.last: Sequence[Any] = ()
        self.at_front = False

    def within(self) -> Growing:
        """Stands for the list in a way of a branch of the step."""
        made = Growing(self._loop, self._index, self._first, capacity=self._capacity, like=self._like)
        made.last = self.latest()
        made.reads = self.reads
        return made

    def append(self, item: Any) -> None:
        if self.at_front:
            raise NotRecorded
        self._added.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        for each in items:
            self.append(each)

    def __iadd__(self, items: Any) -> Any:  # type: ignore[misc]  # not as list's
        self.extend(items)
        return self

    def insert(self, index: Any, item: Any) -> None:
        if index != 0 or (self._added and not self.at_front):
            raise NotRecorded
        self.at_front = True
        self._added.append(item)

    def __getitem__(self, index: Any) -> Any:
        self.reads.append(index)
        if type(index) is int and 0 <= index < len(self._first):
            return self._first[index]
        if type(index) is torch.SymInt:
            index = fixed(index - self._count())
        elif self._capacity is not None:
            raise NotRecorded  # an item that may not be assigned yet
        if type(index) is not int or index >= 0:
            raise NotRecorded
        latest = self.latest()
        if -index > len(latest):
            raise Reads(self._loop, self._index, -index - len(self._added))
        return latest[index]

    def __setitem__(self, index: Any, item: Any) -> None:
        if self._capacity is None:
            raise NotRecorded
        if is_zero(index - self._count()):
            self.append(item)
        elif not self._first and is_zero(self._capacity - 1 - self._count() - index):
            self.insert(0, item)
        else:
            raise NotRecorded

    def __bool__(self) -> bool:
        if not self._first and not self._added:
            self.refuse()
        return True

    @property
    def length(self) -> Any:
        return self._count() if self._capacity is None else self._capacity

    def _count(self) -> Any:
        """The number of items so far."""
        if self._before is None:
            self.refuse()
        self._is_counted = True
        return self._before + len(self._added)

    def latest(self) -> list[Any]:
        """The last items, as far as they are known."""
        return [*self.last, *self._added]

    def items(self) -> list[Any]:
        """In the order in which the step has added them."""
        if self._is_counted and len(self._added) != 1:
            raise NotRecorded
        if self.at_front and self.reads:
            self.refuse()  # it has read items that are others after an insertion
        return frozen(self._added)

    def has_numbers(self) -> bool:
        """Whether the step has added Python numbers. It cannot add tensors too."""
        are_tensors = {isinstance(each, torch.Tensor) for each in self._added}
        if len(are_tensors) > 1:
            raise NotRecorded
        return False in are_tensors

    def refuse(self) -> NoReturn:
        items = [*self._like, *self._first, *self.latest()]
        raise Resizes(self, items[0]) if items and self._capacity is None else NotRecorded


class Variables:
    """The variables are ``values``; their leaves, such as the tensors in a list, are numbered through. The lists
    ``whole`` are leaves themselves."""

    def __init__(self, values: Sequence[Any], whole: Sequence[Any] = ()) -> None:
        self.values = values
        self.whole = whole
        self.given: Sequence[Any] = ()  # what the code has last got as the variables
        self.written: set[int] = set()  # the leaves that are tensors to which the code writes
        self.leaves: list[Any] = []
        self.variables: list[int] = []  # of the leaves
        self.structures: list[Any] = []
        # torch keeps ``is_leaf`` in a cycle of references: it must not have what counts as a reference to a list.
        is_leaf = self._is_whole if whole else None
        for i, value in enumerate(values):
            leaves, structure = pytree.tree_flatten(value, is_leaf=is_leaf)
            self.leaves += leaves
            self.variables += [i] * len(leaves)
            self.structures.append(structure)

    def _is_whole(self, value: Any) -> bool:
        return any(value is each for each in self.whole)

    def lists_in(self, value: Any) -> list[list[Any]]:
        """The lists in a variable that are no leaves, in their order."""
        return lists_in(value, self._is_whole)

    def with_leaves(self, leaves: Mapping[int, Any]) -> list[Any]:
        """The variables with other values of some leaves."""
        every = iter([leaves.get(i, leaf) for i, leaf in enumerate(self.leaves)])
        return [
            pytree.tree_unflatten(list(itertools.islice(every, structure.num_leaves)), structure)
            for structure in self.structures
        ]

    def variable_of(self, value: Any) -> int | None:
        """The variable that is the list ``value``, outside of the code or in it."""
        pairs = itertools.zip_longest(self.values, self.given)
        return next((i for i, pair in enumerate(pairs) if any(each is value for each in pair)), None)

    def note_write(self, write: WritesOutside, inside: Mapping[int, Any]) -> None:
        """Notes the leaves to which code writes, for which ``inside`` stand there; raises ``write`` if to none."""
        new = {i for i, each in inside.items() if is_in_memory_of(each, [write.tensor])} - self.written
        if not new:
            raise write
        self.written |= new

    def check_writes(
        self,
        own: Mapping[int, Any],
        results: Iterable[Any],
        operands: Iterable[Any],
        is_shared: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        """Raises NotRecorded if a write changes anything besides the leaf that is written to. ``own`` are the copies to
        which the code writes, ``results`` what it returns besides them, and ``operands`` the tensors from outside. The
        next step would also change copies in lists of what ``is_shared``."""
        if any(map(is_shared, own.values())):
            raise NotRecorded
        written = [self.leaves[i] for i in self.written]
        outside = [leaf for i, leaf in enumerate(self.leaves) if i not in self.written]
        if any(is_in_memory_of(each, own.values()) for each in results):
            raise NotRecorded
        if any(is_in_memory_of(each, written) for each in (*outside, *operands)):
            raise NotRecorded
        if len({memory_of(each) for each in written}) < len(written):
            raise NotRecorded


def with_item(values: Sequence[Any], index: int, change: Callable[[Any], Any]) -> tuple[Any, ...]:
    return (*values[:index], change(values[index]), *values[index + 1 :])


def is_zero(number: Any) -> bool:
    """Whether a number, perhaps a symbol, is 0 for all sizes."""
    number = fixed(number)
    return type(number) is int and number == 0


def holds_lists(value: Any) -> bool:
    """Whether lists or dicts are inside of the value."""
    return any(each is not value for each in _mutable_in(value))


def run_with_lists(code: Callable[..., Any], given: Sequence[Any]) -> tuple[Any, ...]:
    """The variables after ``code``, which takes and returns them. Raises NotRecorded if they have one list or dict
    twice, or one of an object outside: whoever changes it later would change both."""
    own = set(map(id, _mutable_in(given)))
    results: tuple[Any, ...] = code(*given)
    found = _mutable_in(results)
    if len(set(map(id, found))) < len(found):
        raise NotRecorded
    # One reference each is that of what holds it in ``results``, of ``found``, of the variable and of the call.
    if any(id(each) not in own and sys.getrefcount(each) > 4 for each in found):
        raise NotRecorded
    return results


def _mutable_in(values: Any) -> list[Any]:
    return _noted(values, lambda each: isinstance(each, MUTABLE), lambda each: isinstance(each, UnreadList))


def lists_in(value: Any, is_leaf: Callable[[Any], bool] = lambda each: False) -> list[list[Any]]:
    """The lists in a structure that are no leaves, in their order."""
    return _noted(value, lambda each: type(each) is list and not is_leaf(each), is_leaf)


def _noted(value: Any, is_noted: Callable[[Any], bool], is_leaf: Callable[[Any], bool]) -> list[Any]:
    """The parts of a structure that are noted."""
    found: list[Any] = []

    def note(each: Any) -> bool:
        if is_noted(each):
            found.append(each)
        return is_leaf(each)

    pytree.tree_leaves(value, is_leaf=note)
    noted = [*found]
    found.clear()  # torch keeps ``note`` in a cycle of references, and they would count as references to the lists
    return noted


def is_in_memory_of(value: Any, tensors: Collection[Any]) -> bool:
    """Whether the value is a tensor in the memory of one of the tensors."""
    if not isinstance(value, torch.Tensor) or not has_memory(value):
        return False
    return memory_of(value) in {memory_of(each) for each in tensors if has_memory(each)}
