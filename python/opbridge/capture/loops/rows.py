"""Lists whose length data decide, as tensors of their items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import ListOfNumbers, ListOfRows, Rows, is_of_numbers, note_copies, values_of_numbers
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


class AsRows:
    """Passes the variable ``index`` of functions, a list of items like ``item``, as a tensor of these. ``known`` are
    the symbols of which their sizes may be made."""

    def __init__(self, index: int, item: Any, known: frozenset[Any]) -> None:
        self.index = index
        self._of_numbers = is_of_numbers(item)
        like = values_of_numbers([pytree.tree_map(_zero, item)])[0] if self._of_numbers else item
        if not isinstance(like, torch.Tensor) or not all(is_known(size, known) for size in like.shape):
            raise NotRecorded
        self._shape, self._dtype = like.shape, like.dtype

    def rows(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with the tensor for the list."""
        items = values[self.index]
        if isinstance(items, ListOfRows) and not self._of_numbers:
            rows = self._rows(items)
        elif type(items) is list and not items:
            rows = torch.empty((0, *self._shape), dtype=self._dtype)
        elif isinstance(items, ListOfNumbers) or (self._of_numbers and all(map(is_of_numbers, items))):
            rows = values_of_numbers(items)
        elif type(items) is list and all(isinstance(each, torch.Tensor) for each in items):
            rows = self._rows(ListOfRows(items))
        else:
            raise NotRecorded
        return with_item(values, self.index, lambda _: rows)

    def _rows(self, items: ListOfRows) -> torch.Tensor:
        shape = [*map(expression_of, self._shape)]
        for piece in items.pieces:
            tensor, own = (piece.tensor, piece.tensor.shape[1:]) if isinstance(piece, Rows) else (piece, piece.shape)
            if tensor.dtype != self._dtype or [*map(expression_of, own)] != shape:
                raise NotRecorded
        return items.rows

    def lists(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """The variables with the list for the tensor."""
        return with_item(values, self.index, self._list)

    def _list(self, rows: torch.Tensor) -> ListOfNumbers | ListOfRows:
        if self._of_numbers:
            return ListOfNumbers(rows)
        note_copies.get()([rows])  # others may have the items too
        return ListOfRows([Rows(rows)])

    def step(self, function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        """The function, which takes the variables and returns them."""
        return lambda *given: self.rows(run_with_lists(function, self.lists(given)))

    def test(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which takes the variables and returns something else."""
        return lambda *given: function(*self.lists(given))


def as_rows(found: Resizes, variables: Variables, shared: Collection[int], known: frozenset[Any]) -> AsRows:
    """What makes the list that variable of a node that has it. Raises Resizes if only the loop around it can, which may
    have the list too."""
    index = variables.variable_of(found.value)
    if index is None:
        raise found
    value = variables.values[index]
    if index in shared or isinstance(value, Growing):
        raise Resizes(value, found.item)
    return AsRows(index, found.item, known)
