"""Lists whose length data decide, as tensors of their items."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import ListOfNumbers, ListOfRows, Rows, is_of_numbers, note_copies, values_of_numbers
from opbridge.capture.loops.parts import ListOfParts
from opbridge.capture.loops.variables import Growing, Resizes, Variables, run_with_lists, with_item
from opbridge.capture.torchscript.branches import is_known
from opbridge.capture.traced.bodies import NotRecorded
from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import INTEGERS, expression_of

READABLE = (ListOfRows, ListOfNumbers)


def _zero(number: Any) -> Any:
    """A number of the same type."""
    kind = type(number)
    return False if kind is bool else 0 if kind in INTEGERS else 0.0


def item_like(items: Any) -> Any:
    """An item like those of a list."""
    if isinstance(items, ListOfNumbers):
        kind = {torch.bool: bool, torch.int64: int}.get(items.values.dtype, float)
        return tuple([kind()] * items.values.shape[1]) if items.values.dim() > 1 else kind()
    if isinstance(items, ListOfRows) and items.pieces:
        first = items.pieces[0]
        return first.tensor.new_empty(first.tensor.shape[1:]) if isinstance(first, Rows) else first
    if type(items) is not list or not items:
        raise NotRecorded
    return items[0]


class AsTensor(abc.ABC):
    """Passes the variable ``index`` of functions, a list, as a tensor, whose size along ``axis`` grows with it."""

    def __init__(self, index: int, axis: int) -> None:
        self.index = index
        self.axis = axis

    @abc.abstractmethod
    def tensor_of(self, items: Any) -> torch.Tensor:
        """The tensor for the list. Raises NotRecorded if it has other items."""

    @abc.abstractmethod
    def list_of(self, tensor: torch.Tensor) -> Any:
        """The list for the tensor."""

    def tensors(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with the tensor for the list."""
        return with_item(values, self.index, self.tensor_of)

    def lists(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with the list for the tensor."""
        return with_item(values, self.index, self.list_of)

    def step(self, function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        """The function, which takes the variables and returns them."""
        return lambda *given: self.tensors(run_with_lists(function, self.lists(given)))

    def test(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which takes the variables and returns something else."""
        return lambda *given: function(*self.lists(given))


class AsRows(AsTensor):
    """Passes a list of items like ``item`` as a tensor of these, along a new first axis. ``known`` are the symbols of
    which their sizes may be made."""

    def __init__(self, index: int, item: Any, known: frozenset[Any]) -> None:
        super().__init__(index, 0)
        self._of_numbers = is_of_numbers(item)
        like = values_of_numbers([pytree.tree_map(_zero, item)])[0] if self._of_numbers else item
        if not isinstance(like, torch.Tensor) or not all(is_known(size, known) for size in like.shape):
            raise NotRecorded
        self._shape, self._dtype = like.shape, like.dtype

    def tensor_of(self, items: Any) -> torch.Tensor:
        if isinstance(items, ListOfRows) and not self._of_numbers:
            return self._rows(items)
        if type(items) is list and not items:
            return torch.empty((0, *self._shape), dtype=self._dtype)
        if isinstance(items, ListOfNumbers) or (self._of_numbers and all(map(is_of_numbers, items))):
            return values_of_numbers(items)
        if type(items) is list and all(isinstance(each, torch.Tensor) for each in items):
            return self._rows(ListOfRows(items))
        raise NotRecorded

    def _rows(self, items: ListOfRows) -> torch.Tensor:
        shape = [*map(expression_of, self._shape)]
        for piece in items.pieces:
            tensor, own = (piece.tensor, piece.tensor.shape[1:]) if isinstance(piece, Rows) else (piece, piece.shape)
            if tensor.dtype != self._dtype or [*map(expression_of, own)] != shape:
                raise NotRecorded
        return items.rows

    def list_of(self, rows: torch.Tensor) -> ListOfNumbers | ListOfRows:
        if self._of_numbers:
            return ListOfNumbers(rows)
        note_copies.get()([rows])  # others may have the items too
        return ListOfRows([Rows(rows)])


class AsParts(AsTensor):
    """Passes a list of tensors that are like ``item`` but for their size along ``axis`` as a tensor of all of them,
    concatenated along it."""

    def __init__(self, index: int, item: torch.Tensor, axis: int, known: frozenset[Any]) -> None:
        super().__init__(index, axis)
        self._shape = [0 if i == axis else size for i, size in enumerate(item.shape)]
        self._dtype = item.dtype
        if not all(is_known(size, known) for size in self._shape):
            raise NotRecorded

    def tensor_of(self, items: Any) -> torch.Tensor:
        if not isinstance(items, ListOfParts) and type(items) is not list:
            raise NotRecorded
        none = torch.empty(self._shape, dtype=self._dtype)
        parts = ListOfParts([none, *(items.pieces if isinstance(items, ListOfParts) else items)], self.axis)
        tensor = parts.concatenated(self.axis)
        note_copies.get()([tensor, *parts.pieces])
        return tensor

    def list_of(self, tensor: torch.Tensor) -> ListOfParts:
        note_copies.get()([tensor])  # others may have the items too
        return ListOfParts([tensor], self.axis)


def list_as_tensor(found: Resizes, variables: Variables, shared: Collection[int], known: frozenset[Any]) -> AsTensor:
    """What makes a tensor of a list that is a variable of a node. Raises Resizes if only the loop around it can, which
    may have the list too."""
    index = variables.variable_of(found.value)
    if index is None:
        raise found
    value = variables.values[index]
    if index in shared or isinstance(value, Growing):
        raise Resizes(value, found.item, found.axis)
    return AsRows(index, found.item, known) if found.axis is None else AsParts(index, found.item, found.axis, known)
