"""Lists of which a loop makes as many items as a dynamic size says."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import torch

from opbridge.capture.run_warnings import warn_of_run
from opbridge.capture.source import line_of_frame
from opbridge.capture.symbolic_sizes.bounds import is_never_negative, is_positive
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree, tensor_of_symbols, without_modes

# Called with tensors of which some are copies of others that share their memory in eager mode.
note_copies: ContextVar[Callable[[Sequence[torch.Tensor]], None]] = ContextVar("note_copies")

_NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat)


class Unread(torch.Tensor):
    """The item of a list, in its memory, that torch finds if it reads the list: none of the true ones."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for each in args:
            if isinstance(each, UnreadList):
                each.refuse()
        _refuse()


def unread() -> list[torch.Tensor]:
    """What an UnreadList has in its memory."""
    with without_modes():
        return [torch.empty(0).as_subclass(Unread)]


class UnreadList(list[Any]):
    """A list that can neither be read nor changed, but for what a class that is derived from it can."""

    is_tuple = False  # whether it stands for a tuple of its items too

    @property
    def length(self) -> Any:
        """The number of items, which may be symbolic."""
        self.refuse()

    @property
    def same(self) -> Any:
        """What each item is."""
        self.refuse()

    def get(self, index: Any) -> Any:
        """The item with an index that is not negative."""
        return self.same

    def total(self) -> Any:
        """The sum of the items, which are numbers."""
        return self.same * self.length

    def extremum(self, name: str) -> Any:
        """The "min" or the "max" of the items, which are numbers."""
        return self.same

    @property
    def rank(self) -> int:
        """The number of axes of each item, which is a tensor."""
        self.refuse()

    def stacked(self) -> torch.Tensor:
        """All items along a new first axis, in memory of their own."""
        self.refuse()

    def concatenated(self, dim: int) -> torch.Tensor:
        """All items along an axis, in memory of their own."""
        self.refuse()

    def padded(
        self, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
    ) -> torch.Tensor:
        """``torch.nn.utils.rnn.pad_sequence`` of the items."""
        self.refuse()

    def refuse(self) -> NoReturn:
        _refuse()

    def _read(self, *_: Any, **__: Any) -> Any:
        self.refuse()

    def __getitem__(self, index: Any) -> Any:
        return self.refuse() if isinstance(index, slice) else self.same

    __len__ = __iter__ = __reversed__ = __contains__ = __setitem__ = __delitem__ = _read
    __bool__ = __add__ = __radd__ = __iadd__ = __mul__ = __rmul__ = __imul__ = _read
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _read
    append = extend = insert = index = count = pop = remove = clear = copy = sort = reverse = _read


class Rows:
    """Items of a list that are the slices of a tensor along its first axis."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


class ListOfRows(UnreadList):
    """Stands for a list of single tensors and of ``Rows``. Functions of torch that stack or concatenate tensors take
    it; any other use is refused."""

    def __init__(self, pieces: Iterable[torch.Tensor | Rows]) -> None:
        super().__init__(unread())
        self.pieces = list(pieces)

    @property
    def first(self) -> list[torch.Tensor]:
        """The items before those whose number is symbolic."""
        return list(itertools.takewhile(lambda piece: not isinstance(piece, Rows), self.pieces))  # type: ignore[arg-type]

    @property
    def rows(self) -> torch.Tensor:
        """A tensor of which the items are slices."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Rows):
            return self.pieces[0].tensor
        made = self.stacked()
        note_copies.get()([made, *(piece.tensor if isinstance(piece, Rows) else piece for piece in self.pieces)])
        return made

    @property
    def rank(self) -> int:
        first = self.pieces[0]
        return first.tensor.dim() - 1 if isinstance(first, Rows) else first.dim()

    def stacked(self) -> torch.Tensor:
        return torch.cat([piece.tensor if isinstance(piece, Rows) else piece.unsqueeze(0) for piece in self.pieces])

    def concatenated(self, dim: int) -> torch.Tensor:
        pieces = []
        for piece in self.pieces:
            if isinstance(piece, Rows):
                axis = dim if dim >= 0 else piece.tensor.dim() - 1 + dim
                piece = piece.tensor.movedim(0, axis).flatten(axis, axis + 1)
            pieces.append(piece)
        return torch.cat(pieces, dim)

    def padded(
        self, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
    ) -> torch.Tensor:
        return _stack(self, 0 if batch_first else 1)  # they have one length

    def append(self, item: Any) -> None:
        self.pieces.append(_tensor(item))

    def extend(self, items: Iterable[Any]) -> None:
        self.pieces += items.pieces if isinstance(items, ListOfRows) else map(_tensor, items)

    def insert(self, index: Any, item: Any) -> None:
        if index != 0:
            _refuse()
        self.pieces.insert(0, _tensor(item))

    def reverse(self) -> None:
        self.pieces = self[::-1].pieces

    def __iadd__(self, items: Iterable[Any]) -> Any:  # type: ignore[misc]  # not as list's
        self.extend(items)
        return self

    def __add__(self, items: Any) -> Any:
        made = ListOfRows(self.pieces)
        made.extend(items)
        return made

    def __radd__(self, items: Any) -> Any:
        made = ListOfRows(map(_tensor, items))
        made.extend(self)
        return made

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index == slice(None, None, -1):
                return ListOfRows([_reversed(piece) for piece in reversed(self.pieces)])
            return ListOfRows([Rows(self.rows[index])])
        if type(index) is int and index in (0, -1) and not isinstance(self.pieces[index], Rows):
            return self.pieces[index]
        return self.rows[index]

    @property
    def length(self) -> Any:
        return sum(piece.tensor.shape[0] if isinstance(piece, Rows) else 1 for piece in self.pieces)

    def __bool__(self) -> bool:
        return bool(self.first) or bool(self.length > 0)


class ListOfNumbers(UnreadList):
    """Stands for a list of Python numbers, or of tuples of numbers: the rows of ``values``, of bool, int64 or float64.
    Functions of torch that make a tensor of a list take it. An item that is not the ``same`` as all others depends on
    data."""

    def __init__(self, values: torch.Tensor, *same: Any) -> None:
        super().__init__(unread())
        self.values = values
        self._same = same

    @property
    def same(self) -> Any:
        return self._same[0] if self._same else self.refuse()

    def get(self, index: Any) -> Any:
        if self._same:
            return self.same
        item = self._numbers()[index]
        return tuple(each.item() for each in item) if item.dim() else item.item()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step is None or (type(index.step) is int and index.step > 0)):
            return ListOfNumbers(self.values[index], *self._same)
        is_known = type(index) is int or (type(index) is torch.SymInt and is_never_negative(index))
        return self.get(index) if is_known else super().__getitem__(index)

    def total(self) -> Any:
        return super().total() if self._same else self._number(self._numbers().sum())

    def extremum(self, name: str) -> Any:
        return self.same if self._same else self._number(getattr(torch, f"a{name}")(self._numbers()))

    def _numbers(self) -> torch.Tensor:
        """The values that a capture can read: no bools, which would be numbers only by a branch."""
        return self.refuse() if self.values.dtype == torch.bool else self.values

    def _number(self, value: torch.Tensor) -> Any:
        return self.refuse() if self.values.dim() > 1 else value.item()

    @property
    def length(self) -> Any:
        return self.values.shape[0]

    def extend(self, items: Iterable[Any]) -> None:
        self.values, self._same = torch.cat([self.values, values_of_numbers(items)]), ()

    def append(self, item: Any) -> None:
        self.extend([item])

    def __iadd__(self, items: Any) -> Any:
        self.extend(items)
        return self

    def __add__(self, items: Any) -> Any:
        return _joined(self, items)

    def __radd__(self, items: Any) -> Any:
        return _joined(items, self)


class Range(UnreadList):
    """Stands for ``range(start, start + count * step, step)``."""

    def __init__(self, start: Any, count: torch.SymInt, step: Any) -> None:
        super().__init__(unread())
        self._start = start
        self._count = count
        self._step = step

    @property
    def length(self) -> Any:
        return self._count

    def __len__(self) -> int:
        raise TypeError("the length is symbolic")  # [*range(n)] then calls __iter__

    def __iter__(self) -> Iterator[Any]:
        """Fixes the number of items."""
        return (self.get(i) for i in range(int(self._count)))

    def get(self, index: Any) -> Any:
        return self._start + index * self._step

    def total(self) -> Any:
        return self._start * self._count + self._step * (self._count * (self._count - 1) // 2)

    @property
    def values(self) -> torch.Tensor:
        numbers: torch.Tensor = torch.arange(self._count) * self._step + self._start
        return numbers


class Slots(UnreadList):
    """Stands for ``[item] * capacity`` until all items are assigned, one after the other: ``pieces`` are the first, of
    known number. A loop assigns the others."""

    def __init__(self, item: Any, capacity: torch.SymInt) -> None:
        super().__init__(unread())
        self.item = item
        self.capacity = capacity
        self.pieces: list[torch.Tensor] = []

    def __setitem__(self, index: Any, item: Any) -> None:
        if type(index) is not int or index != len(self.pieces):
            _refuse()
        self.pieces.append(_tensor(item))

    @property
    def length(self) -> Any:
        return self.capacity

    @property
    def same(self) -> Any:
        return self.refuse() if self.pieces else self.item

    def __add__(self, items: Any) -> Any:
        return ListOfNumbers(values_of_numbers(self)) + items

    def __radd__(self, items: Any) -> Any:
        return items + ListOfNumbers(values_of_numbers(self))


def repeated(items: list[Any], count: torch.SymInt) -> Any:
    """Stands for ``items * count``; None if nothing can."""
    items = frozen(items)
    item, *others = items
    if not others and isinstance(item, torch.Tensor):
        rows = item.unsqueeze(0).repeat(count, *[1] * item.dim())
        note_copies.get()([rows, item])
        return ListOfRows([Rows(rows)])
    if not others and (type(item) in (bool, int, float) or not is_of_numbers(item)):
        return Slots(item, count)
    if not all(map(is_of_numbers, items)):
        return None
    values = values_of_numbers(items)
    return ListOfNumbers(values.repeat(count, *[1] * (values.dim() - 1)), *(() if others else items))


def is_of_numbers(item: Any) -> bool:
    """Whether an item is a Python number, or a tuple of numbers: what nothing can change."""
    return type(item) in _NUMBERS or (type(item) is tuple and all(type(each) in _NUMBERS for each in item))


def frozen(items: list[Any]) -> list[Any]:
    """The items, with tuples for the lists that nothing but ``items`` holds: nothing can change these if ``items`` is
    used no more."""
    (alone,) = _references([[]])
    counts = _references(items)
    return [
        tuple(each) if type(each) is list and count == alone else each
        for each, count in zip(items, counts, strict=True)
    ]


def _references(items: list[Any]) -> list[int]:
    return [sys.getrefcount(each) for each in items]


def values_of_numbers(items: Iterable[Any]) -> torch.Tensor:
    """The items of a list, or one of them, as bool, int64 or float64. Refuses a list with anything else."""
    if isinstance(items, (ListOfNumbers, Range)):
        return items.values
    if isinstance(items, Slots):
        return values_of_numbers([items.same]).repeat(items.capacity)
    if isinstance(items, UnreadList):
        _refuse()
    numbers = list(items)
    if not all(map(is_of_numbers, numbers)):
        _refuse()
    kinds = {type(each) for each in pytree.tree_leaves(numbers)}
    dtype = torch.float64 if kinds & {float, torch.SymFloat} else torch.int64 if kinds - {bool} else torch.bool
    return tensor_of_symbols(numbers, dtype=dtype)


def listed_numbers(tensor: torch.Tensor) -> ListOfNumbers | None:
    """Stands for ``tensor.tolist()``, [n], which later writes to the tensor do not change; None if nothing can."""
    if tensor.is_complex():
        return None
    dtype = torch.float64 if tensor.is_floating_point() else torch.bool if tensor.dtype == torch.bool else torch.int64
    return ListOfNumbers(tensor.to(dtype, copy=True))


def tensor_of_numbers(
    data: Any, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> torch.Tensor:
    """``torch.tensor(data)``, also of symbols and of what stands for a list of numbers."""
    if not isinstance(data, UnreadList):
        return tensor_of_symbols(data, dtype=dtype, device=device)
    values = values_of_numbers(data)
    default = torch.get_default_dtype()
    inferred = default if values.is_floating_point() else values.dtype
    if not is_positive(values.shape[0]) and (values.dim() > 1 or (dtype or inferred) != (dtype or default)):
        warn_of_run(
            f"the tensor of a list that may be empty has {values.dim()} axes and {dtype or inferred} then too, where "
            f"PyTorch's has 1 and {dtype or default}"
        )
    return values.to(dtype=dtype or inferred, device=device, copy=True).requires_grad_(requires_grad)


def _joined(first: Any, second: Any) -> ListOfNumbers:
    made = ListOfNumbers(torch.cat([values_of_numbers(first), values_of_numbers(second)]))
    made.is_tuple = any(isinstance(each, tuple) or getattr(each, "is_tuple", False) for each in (first, second))
    return made


def index_with_tensors(index: Any) -> Any:
    """The index of a tensor with tensors for what stands for lists of numbers. Refuses a tuple, which has a number for
    each axis, and a list of tuples, which torch takes for one."""
    if isinstance(index, tuple):
        return tuple(values_of_numbers(each) if isinstance(each, UnreadList) else each for each in index)
    if not isinstance(index, UnreadList):
        return index
    values = values_of_numbers(index)
    return _refuse() if index.is_tuple or values.dim() > 1 else values


def _reversed(piece: torch.Tensor | Rows) -> torch.Tensor | Rows:
    if not isinstance(piece, Rows):
        return piece
    turned = piece.tensor.flip(0)
    note_copies.get()([piece.tensor, turned])
    return Rows(turned)


def _stack(tensors: UnreadList, dim: int = 0) -> torch.Tensor:
    stacked = tensors.stacked()
    return stacked if dim == 0 else stacked.movedim(0, dim).contiguous()


def _cat(tensors: UnreadList, dim: int = 0, axis: int | None = None) -> torch.Tensor:
    return tensors.concatenated(dim if axis is None else axis)


def _in_columns(tensors: UnreadList) -> torch.Tensor:
    return tensors.concatenated(min(tensors.rank, 2) - 1) if tensors.rank else tensors.stacked()


def _in_rows(tensors: UnreadList) -> torch.Tensor:
    if tensors.rank > 1:
        return tensors.concatenated(0)
    return tensors.stacked() if tensors.rank else tensors.stacked().unsqueeze(1)


def summed(items: Any, start: Any = 0) -> Any:
    """``sum(items, start)``"""
    if not isinstance(items, ListOfRows):
        return start + items.total() if isinstance(items, UnreadList) else sum(items, start)
    if not items.pieces:
        return start
    stacked = items.stacked()
    first = start + stacked.new_zeros(stacked.shape[1:])
    return first + stacked.sum(0, dtype=first.dtype)


def _joining(function: Callable[..., Any], join: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = args[0] if args else kwargs.get("tensors")
        return (join if isinstance(tensors, UnreadList) else function)(*args, **kwargs)

    return call


# The functions of torch that join tensors, with those to call instead, which take an UnreadList too.
JOINING: dict[Any, Any] = {
    torch.stack: _joining(torch.stack, _stack),
    **{function: _joining(function, _cat) for function in (torch.cat, torch.concat, torch.concatenate)},
    torch.hstack: _joining(torch.hstack, _in_columns),
    torch.vstack: _joining(torch.vstack, _in_rows),
}


# Functions that read a list before torch can call another, with those to call instead.
READING: dict[Any, Callable[..., Any]] = {
    torch.nn.utils.rnn.pad_sequence: lambda sequences, *args, **kwargs: sequences.padded(*args, **kwargs),
    torch.Tensor: lambda data: tensor_of_numbers(data, torch.get_default_dtype()),
    torch.BoolTensor: functools.partial(tensor_of_numbers, dtype=torch.bool),
    torch.IntTensor: functools.partial(tensor_of_numbers, dtype=torch.int32),
    torch.LongTensor: functools.partial(tensor_of_numbers, dtype=torch.int64),
    torch.FloatTensor: functools.partial(tensor_of_numbers, dtype=torch.float32),
    torch.DoubleTensor: functools.partial(tensor_of_numbers, dtype=torch.float64),
}


def _tensor(item: Any) -> torch.Tensor:
    if not isinstance(item, torch.Tensor):
        _refuse()
    return item


def _refuse() -> NoReturn:
    raise UnsupportedError(
        "a list with as many items as a dynamic size says can only be extended, indexed, summed, stacked and "
        "concatenated, one of numbers made a tensor; compute with the tensor",
        line_of_frame(sys._getframe(1)),
    )
