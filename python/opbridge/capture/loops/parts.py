"""Lists of tensors that differ in size along one axis, and may be concatenated along it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import UnreadList, note_copies, unread
from opbridge.capture.symbolic_sizes.bounds import is_never_negative, is_positive
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.capture.torchscript.branches import size_in
from opbridge.torch_compat.symbols import expression_of


class Split(UnreadList):
    """Stands for ``tensor.split(size, dim)``, where the last part may be smaller. ``all_parts`` makes as many as the
    example has. An axis without elements has ``parts_of_nothing``."""

    is_tuple = True

    def __init__(
        self,
        tensor: torch.Tensor,
        size: Any,
        dim: int,
        all_parts: Callable[[], Sequence[torch.Tensor]],
        parts_of_nothing: int = 1,
    ) -> None:
        super().__init__(unread())
        self.tensor = tensor
        self.axis = dim % tensor.dim()
        self._size = size if is_positive(size) else torch.sym_max(size, 1)
        self._all_parts = all_parts
        self._parts_of_nothing = parts_of_nothing

    @property
    def length(self) -> Any:
        elements: Any = self.tensor.shape[self.axis]
        count = (elements + self._size - 1) // self._size
        if is_positive(elements):
            return count
        return count + (1 - torch.sym_min(elements, 1)) * self._parts_of_nothing

    def get(self, index: Any) -> torch.Tensor:
        start = index * self._size
        return self.tensor[(slice(None),) * self.axis + (slice(start, start + self._size),)]

    def __getitem__(self, index: Any) -> Any:
        is_known = type(index) is int or (type(index) is torch.SymInt and is_never_negative(index))
        if not is_known or in_try_block(sys._getframe(1)):  # where the model may catch that there is no such part
            return self.refuse()
        return self.get(self.length + index if type(index) is int and index < 0 else index)

    def __len__(self) -> int:
        raise TypeError("the length is symbolic")  # [*parts] then calls __iter__

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Fixes the number of parts."""
        return iter(self._all_parts())

    @property
    def rank(self) -> int:
        return self.tensor.dim()

    def concatenated(self, dim: int) -> torch.Tensor:
        return self.tensor.clone() if dim % self.tensor.dim() == self.axis else torch.cat([*self], dim)


@dataclasses.dataclass
class Parts:
    """Items of a list, concatenated along an axis, and their sizes along it, an int64 [items]."""

    tensor: torch.Tensor
    lengths: torch.Tensor

    def starts(self) -> torch.Tensor:
        """Where the items begin."""
        return self.lengths.cumsum(0) - self.lengths

    def taken(self, axis: int, start: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        """``size`` elements along the axis."""
        taken: torch.Tensor = self.tensor.index_select(axis, start + torch.arange(size_in(size)))
        note_copies.get()([taken, self.tensor])
        return taken


class ListOfParts(UnreadList):
    """Stands for a list of tensors that are alike but for their size along ``axis``. Each of ``pieces`` is one of them,
    or several."""

    def __init__(self, pieces: Iterable[torch.Tensor | Parts], axis: int) -> None:
        super().__init__(unread())
        self.axis = axis
        self.pieces: list[torch.Tensor | Parts] = []
        self.extend(pieces)

    @property
    def like(self) -> torch.Tensor:
        """A tensor like the items, but for its size along the axis."""
        first: torch.Tensor = _tensor_of(self.pieces[0])
        return first

    @property
    def parts(self) -> Parts:
        """All items."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Parts):
            return self.pieces[0]
        lengths = [
            each.lengths if isinstance(each, Parts) else torch.full((1,), each.shape[self.axis], dtype=torch.int64)
            for each in self.pieces
        ]
        tensors = [_tensor_of(each) for each in self.pieces]
        made = Parts(torch.cat(tensors, self.axis), torch.cat(lengths))
        note_copies.get()([made.tensor, *tensors])
        return made

    @property
    def length(self) -> Any:
        return sum(each.lengths.shape[0] if isinstance(each, Parts) else 1 for each in self.pieces)

    def __bool__(self) -> bool:
        return bool(any(isinstance(each, torch.Tensor) for each in self.pieces) or self.length > 0)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index.step not in (None, 1):
                self.refuse()
            parts = self.parts
            before, lengths = parts.lengths[: 0 if index.start is None else index.start], parts.lengths[index]
            return ListOfParts([Parts(parts.taken(self.axis, before.sum(), lengths.sum()), lengths)], self.axis)
        if in_try_block(sys._getframe(1)):  # where the model may catch that there is no such item
            self.refuse()
        if type(index) is int and index in (0, -1) and isinstance(self.pieces[index], torch.Tensor):
            return self.pieces[index]
        return self.getter()(index)

    def getter(self) -> Callable[[Any], torch.Tensor]:
        """What returns the item with an index. A loop that calls it need not concatenate the items in each step."""
        parts = self.parts
        starts = parts.starts()
        return lambda index: parts.taken(self.axis, starts[index], parts.lengths[index])

    def padded(
        self, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
    ) -> torch.Tensor:
        if self.axis != 0 or padding_side != "right":
            self.refuse()
        parts = self.parts
        places = torch.arange(size_in(parts.lengths.amax()))
        is_there = places < parts.lengths[:, None]
        items = parts.tensor[torch.where(is_there, parts.starts()[:, None] + places, 0)]
        mask = is_there.reshape(is_there.shape + (1,) * (items.dim() - 2))
        made = torch.where(mask, items, torch.scalar_tensor(padding_value, dtype=items.dtype))
        return made if batch_first else made.transpose(0, 1).contiguous()

    def append(self, item: Any) -> None:
        tensor = _tensor_of(item)
        if not isinstance(tensor, torch.Tensor) or (self.pieces and self._kind(tensor) != self._kind(self.like)):
            self.refuse()
        self.pieces.append(item)

    def extend(self, items: Iterable[Any]) -> None:
        is_in_pieces = isinstance(items, ListOfParts) and items.axis == self.axis
        for each in items.pieces if is_in_pieces else items:  # type: ignore[attr-defined]
            self.append(each)

    def __iadd__(self, items: Any) -> Any:
        self.extend(items)
        return self

    def __add__(self, items: Any) -> Any:
        made = ListOfParts(self.pieces, self.axis)
        made.extend(items)
        return made

    def __radd__(self, items: Any) -> Any:
        return ListOfParts(items, self.axis) + self

    @property
    def rank(self) -> int:
        return self.like.dim() if self.pieces else super().rank

    def concatenated(self, dim: int) -> torch.Tensor:
        if dim % self.rank != self.axis:
            self.refuse()
        return torch.cat([_tensor_of(each) for each in self.pieces], self.axis)

    def _kind(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        sizes = [None if i == self.axis else expression_of(size) for i, size in enumerate(tensor.shape)]
        return tensor.dtype, sizes


def _tensor_of(piece: Any) -> Any:
    return piece.tensor if isinstance(piece, Parts) else piece
