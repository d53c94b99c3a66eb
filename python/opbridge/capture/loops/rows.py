"""Lists whose length data decide, as tensors of their items."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import ListOfNumbers, ListOfRows, Rows, is_of_numbers, note_copies, values_of_numbers
from opbridge.capture.loops.parts import ListOfParts, Parts
from opbridge.capture.loops.variables import Growing, Resizes, Variables, run_with_lists, with_item
from opbridge.capture.torchscript.branches import is_known
from opbridge.capture.traced.bodies import NotRecorded
from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import INTEGERS, expression_of

READABLE = (ListOfRows, ListOfNumbers, ListOfParts)


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


class AsTensors(abc.ABC):
    """Passes the variable ``index`` of functions, a list, as tensors, which grow with it along their ``axes``."""

    def __init__(self, index: int, axes: Sequence[int]) -> None:
        self.index = index
        self.axes = axes

    @abc.abstractmethod
    def tensors_of(self, items: Any) -> tuple[torch.Tensor, ...]:
        """The tensors for the list. Raises NotRecorded if it has other items."""

    @abc.abstractmethod
    def list_of(self, *tensors: torch.Tensor) -> Any:
        """The list for the tensors."""

    def tensors(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with the tensors for the list."""
        return with_item(values, self.index, self.tensors_of)

    def lists(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with the list for the tensors."""
        return with_item(values, self.index, lambda tensors: self.list_of(*tensors))

    def step(self, function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        """The function, which takes the variables and returns them."""
        return lambda *given: self.tensors(run_with_lists(function, self.lists(given)))

    def test(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which takes the variables and returns something else."""
        return lambda *given: function(*self.lists(given))


class AsRows(AsTensors):
    """Passes a list of items like ``item`` as a tensor of these, along a new first axis. ``known`` are the symbols of
    which their sizes may be made."""

    def __init__(self, index: int, item: Any, known: frozenset[Any]) -> None:
        super().__init__(index, [0])
        self._of_numbers = is_of_numbers(item)
        like = values_of_numbers([pytree.tree_map(_zero, item)])[0] if self._of_numbers else item
        if not isinstance(like, torch.Tensor) or not all(is_known(size, known) for size in like.shape):
            raise NotRecorded
        self._shape, self._dtype = like.shape, like.dtype

    def tensors_of(self, items: Any) -> tuple[torch.Tensor, ...]:
        return (self._tensor_of(items),)

    def _tensor_of(self, items: Any) -> torch.Tensor:
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

    def list_of(self, *tensors: torch.Tensor) -> ListOfNumbers | ListOfRows:
        (rows,) = tensors
        if self._of_numbers:
            return ListOfNumbers(rows)
        note_copies.get()([rows])  # others may have the items too
        return ListOfRows([Rows(rows)])


class AsParts(AsTensors):
    """Passes a list of tensors that are like ``item`` but for their size along ``axis`` as a tensor of all of them,
    concatenated along it, and one of their sizes."""

    def __init__(self, index: int, item: torch.Tensor, axis: int, known: frozenset[Any]) -> None:
        super().__init__(index, [axis, 0])
        self._axis = axis
        self._shape = [0 if i == axis else size for i, size in enumerate(item.shape)]
        self._dtype = item.dtype
        if not all(is_known(size, known) for size in self._shape):
            raise NotRecorded

    def tensors_of(self, items: Any) -> tuple[torch.Tensor, ...]:
        if not isinstance(items, ListOfParts) and type(items) is not list:
            raise NotRecorded
        none = Parts(torch.empty(self._shape, dtype=self._dtype), torch.empty(0, dtype=torch.int64))
        parts = (ListOfParts([none], self._axis) + items).parts
        return parts.tensor, parts.lengths

    def list_of(self, *tensors: torch.Tensor) -> ListOfParts:
        note_copies.get()(tensors[:1])  # others may have the items too
        return ListOfParts([Parts(*tensors)], self._axis)


def resizing(value: Any, items: Any) -> Resizes:
    """What is raised because the list ``value`` has ``items``, or others like them."""
    parts = next((each for each in (items, value) if isinstance(each, ListOfParts)), None)
    return Resizes(value, item_like(items)) if parts is None else Resizes(value, parts.like, parts.axis)


def list_as_tensors(found: Resizes, variables: Variables, shared: Collection[int], known: frozenset[Any]) -> AsTensors:
    """What makes tensors of a list that is a variable of a node. Raises Resizes if only the loop around it can, which
    may have the list too."""
    index = variables.variable_of(found.value)
    if index is None:
        raise found
    value = variables.values[index]
    if index in shared or isinstance(value, Growing):
        raise Resizes(value, found.item, found.axis)
    item, axis = found.item, found.axis
    if axis is None and isinstance(item, torch.Tensor):
        unknown = [i for i, size in enumerate(item.shape) if not is_known(size, known)]
        axis = unknown[0] if len(unknown) == 1 else None
    return AsRows(index, item, known) if axis is None else AsParts(index, item, axis, known)
