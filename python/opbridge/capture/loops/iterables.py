"""What a loop goes through, if the number of items is symbolic."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.loops.lists import ListOfRows, Range, Rows, UnreadList, listed_numbers
from opbridge.capture.loops.parts import ListOfParts, Split
from opbridge.capture.loops.scaling import scaled_numbers
from opbridge.capture.symbolic_sizes.bounds import is_never_negative, is_positive
from opbridge.capture.symbolic_sizes.multiples import ratio
from opbridge.capture.symbolic_sizes.slices import are_always_equal
from opbridge.capture.torchscript.loops import fixed
from opbridge.capture.traced.bodies import NotRecorded
from opbridge.errors import UnsupportedError

# The names of functions of itertools for which the runtime has others, which make no iterators.
LOOPING = frozenset({"accumulate", "pairwise", "islice"})
_OPERATIONS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "FloorDiv": operator.floordiv,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}
_RELATIONS = {"NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge}


@dataclasses.dataclass
class Items:
    """``count`` items, a symbol, of which ``get`` returns the one with the index that it is given."""

    count: torch.SymInt
    get: Callable[[Any], Any]
    all: Callable[[], Iterator[Any]] | None = None  # fixes their number

    def __iter__(self) -> Iterator[Any]:
        """Fixes the number of items."""
        return (self.get(i) for i in range(int(self.count))) if self.all is None else self.all()

    def after_first(self) -> Items:
        return Items(not_negative(self.count - 1), lambda i: self.get(i + 1))


def items_of(iterable: Any) -> Any:
    """The Items of a tensor or a list, if their number is symbolic; otherwise the iterable itself."""
    if isinstance(iterable, Counted):
        return iterable.items or iterable
    if isinstance(iterable, ListOfRows):
        iterable = iterable.rows
    elif isinstance(iterable, UnreadList):
        count = fixed(iterable.length)
        get = iterable.getter() if isinstance(iterable, ListOfParts) else iterable.get
        if type(count) is int:
            return list(map(get, range(count)))
        return Items(count, get, iterable.__iter__ if isinstance(iterable, Split) else None)
    if (
        isinstance(iterable, torch.Tensor)
        and iterable.dim()
        and type(count := fixed(iterable.shape[0])) is torch.SymInt
    ):
        return Items(count, iterable.__getitem__)
    return iterable


def range_of(*limits: Any) -> Any:
    """``range``, also of symbols: a Range if the number of items is symbolic."""
    start, stop, step = (0, *limits, 1) if len(limits) == 1 else (*limits, 1)[:3]
    goes_up = is_never_negative(step) if type(step) is torch.SymInt else type(step) is int and step > 0
    goes_down = type(step) is int and step < 0
    if torch.SymInt not in map(type, limits) or not (goes_up or goes_down):
        return range(*limits)
    distance, by = (stop - start, step) if goes_up else (start - stop, -step)
    count = fixed((distance + by - 1) // by)
    if type(count) is not torch.SymInt:
        return range(*limits)
    return Range(start, not_negative(count), step)


def not_negative(count: torch.SymInt) -> Any:
    """0 for a number that is negative for some sizes, and is then."""
    return count if is_never_negative(count) else torch.sym_max(count, 0)


class Counted:
    """The values of ``number`` in ``while left(number) < right(number): …; number += by``, and the one at its end."""

    def __init__(
        self,
        relation: str,
        operation: str,
        left: Callable[[Any], Any],
        right: Callable[[Any], Any],
        number: Any,
        by: Any,
    ) -> None:
        self._relation = relation
        self._operation = operation
        self._sides = left, right
        self._by = by
        self._start = number
        self.end = number
        self.items: Items | None = None
        if type(by) is int and type(number) in (int, torch.SymInt):
            self.items = self._added(by) if operation in ("Add", "Sub") else self._scaled(by)
        elif not isinstance(number, (int, float, torch.Tensor)):
            raise UnsupportedError(f"a loop counts a {type(number).__name__}, not a Python number")

    def check_bound(self, left: Callable[[Any], Any], right: Callable[[Any], Any]) -> None:
        """Raises NotRecorded if these sides, those of a step, are not those of the first one, as where steps change the
        size of a tensor that the loop compares."""
        now = _distance(self._relation, left(self._start), right(self._start))
        change = fixed(now - self._distance(self._start))
        if type(change) is not int or change != 0:
            raise NotRecorded

    def goes_on(self, number: Any) -> Any:
        left, right = self._sides
        return _RELATIONS[self._relation](left(number), right(number))

    def after(self, number: Any) -> Any:
        return _OPERATIONS[self._operation](number, self._by)

    def _added(self, by: int) -> Items | None:
        """The values, if their number is symbolic."""
        start, step = self._start, by if self._operation == "Add" else -by
        distance = self._distance(start)
        if fixed(distance - self._distance(start + step)) != abs(step):
            return None  # it does not come closer to its end, or is not made of integers
        items = items_of(range_of(start, start + (distance if step > 0 else -distance), step))
        if not isinstance(items, Items):
            return None
        self.end = start + items.count * step
        return items

    def _scaled(self, by: int) -> Items | None:
        """The same of a number that steps multiply or divide."""
        found = scaled_numbers(self._operation, by, self._start, self._distance)
        if found is None:
            return None
        self.end = found.end()
        return Items(found.count, found.get)

    def _distance(self, value: Any) -> Any:
        """The loop goes on while this is above 0."""
        return _distance(self._relation, *(side(value) for side in self._sides))


def _distance(relation: str, less: Any, more: Any) -> Any:
    """By how much the two fulfil the relation, where it holds; not above 0 otherwise. Not a number if one of them is no
    integer. A loop that runs until ``more`` is 0 ends only if that is positive before."""
    if not all(type(side) in (int, torch.SymInt) for side in (less, more)):
        return math.nan
    return (less - more if relation.startswith("Gt") else more - less) + relation.endswith("E")


def reversed_items(iterable: Any) -> Any:
    items = items_of(iterable)
    if not isinstance(items, Items):
        return reversed(items)
    return Items(items.count, lambda i: items.get(items.count - 1 - i))


def enumerated(iterable: Any, start: Any = 0) -> Any:
    items = items_of(iterable)
    if not isinstance(items, Items):
        return enumerate(items, start)
    return Items(items.count, lambda i: (i + start, items.get(i)))


def zipped(*iterables: Any, **options: Any) -> Any:
    every = [items_of(each) for each in iterables]
    counts = {each.count.node.expr if isinstance(each, Items) else None for each in every}
    if options.keys() - {"strict"} or None in counts or len(counts) != 1:
        return zip(*every, **options)  # noqa: B905 (the options are the model's)
    return Items(every[0].count, lambda i: tuple(each.get(i) for each in every))


def mapped(function: Callable[..., Any], *iterables: Any) -> Any:
    items = zipped(*iterables)
    if not isinstance(items, Items):
        return itertools.starmap(function, items)
    return Items(items.count, lambda i: function(*items.get(i)))


def in_pairs(iterable: Any) -> Any:
    """``itertools.pairwise``"""
    items = items_of(iterable)
    if not isinstance(items, Items):
        return itertools.pairwise(items)
    return Items(not_negative(items.count - 1), lambda i: (items.get(i), items.get(i + 1)))


def sliced(iterable: Any, *limits: Any) -> Any:
    """``itertools.islice``"""
    items = items_of(iterable)
    if not isinstance(items, Items):
        return itertools.islice(items, *limits)
    given = slice(*limits)
    start, step = given.start or 0, given.step or 1
    stop: Any = items.count if given.stop is None else torch.sym_min(items.count, given.stop)
    return mapped(items.get, range_of(start, stop, step))


def parts_of(owner: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """The result of ``owner.name(…)``, where ``name`` is one of PARTS: a list that stands for an item for each index
    of an axis of symbolic size, if there is one."""
    tensor, given = (args[0], args[1:]) if owner is torch and args else (owner, args)
    if isinstance(tensor, torch.Tensor) and (parts := PARTS[name](tensor, *given, **kwargs)) is not None:
        return parts
    return getattr(owner, name)(*args, **kwargs)


def _is_symbolic(tensor: torch.Tensor, dim: int) -> bool:
    return type(fixed(tensor.shape[dim])) is torch.SymInt


def _unbound(tensor: torch.Tensor, dim: int = 0) -> UnreadList | None:
    return ListOfRows([Rows(tensor.movedim(dim, 0))]) if _is_symbolic(tensor, dim) else None


def _split(
    tensor: torch.Tensor, split_size: Any = None, dim: int = 0, split_size_or_sections: Any = None
) -> UnreadList | None:
    split_size = split_size_or_sections if split_size is None else split_size
    if type(split_size) not in (int, torch.SymInt) or not _is_symbolic(tensor, dim):
        return None
    if type(split_size) is int and split_size > 0:
        size: Any = tensor.shape[dim]
        if is_positive(size) and _is_multiple(size, split_size):
            return _parts_of_size(tensor, split_size, dim)
    return _if_many(Split(tensor, split_size, dim, lambda: torch.split(tensor, split_size, dim)))


def _parts_of_size(tensor: torch.Tensor, size: int, dim: int) -> ListOfRows:
    axis = dim % tensor.dim()
    parts = tensor.unflatten(axis, (-1, size))  # type: ignore[no-untyped-call]
    return ListOfRows([Rows(parts.movedim(axis, 0))])


def _is_multiple(size: Any, number: int) -> bool:
    rest = fixed(size % number)
    if type(rest) is int:
        return rest == 0
    return are_always_equal(size.node.expr, (size // number * number).node.expr)


def _chunked(tensor: torch.Tensor, chunks: Any, dim: int = 0) -> UnreadList | None:
    if type(chunks) not in (int, torch.SymInt) or not _is_symbolic(tensor, dim):
        return None
    size: Any = tensor.shape[dim]
    if type(chunks) is torch.SymInt and (number := ratio(size.node.expr, chunks.node.expr)) is not None:
        return _parts_of_size(tensor, number, dim)
    return _if_many(Split(tensor, (size + chunks - 1) // chunks, dim, lambda: torch.chunk(tensor, chunks, dim), chunks))


def _if_many(parts: Split) -> Split | None:
    """The parts, if their number is symbolic."""
    return parts if type(fixed(parts.length)) is torch.SymInt else None


def _read(tensor: torch.Tensor) -> UnreadList | None:
    return listed_numbers(tensor) if tensor.dim() == 1 and _is_symbolic(tensor, 0) else None


PARTS: dict[str, Callable[..., UnreadList | None]] = {
    "unbind": _unbound,
    "split": _split,
    "chunk": _chunked,
    "tolist": _read,
}
