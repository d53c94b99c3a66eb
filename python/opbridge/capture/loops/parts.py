"""Lists of tensors that differ in size along one axis, and may be concatenated along it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import UnreadList, unread
from opbridge.torch_compat.symbols import always, expression_of


class Split(UnreadList):
    """Stands for ``tensor.split(size, dim)``, where the last part may be smaller. ``all_parts`` makes as many as the
    example has."""

    is_tuple = True

    def __init__(
        self, tensor: torch.Tensor, size: Any, dim: int, all_parts: Callable[[], Sequence[torch.Tensor]]
    ) -> None:
        super().__init__(unread())
        self.tensor = tensor
        self.axis = dim % tensor.dim()
        self._size = size
        self._all_parts = all_parts

    @property
    def length(self) -> Any:
        """At least 1: of an axis without elements, there is an empty part."""
        count: Any = (self.tensor.shape[self.axis] + self._size - 1) // self._size
        is_any = always(count.node.shape_env, count.node.expr >= 1) is not None
        return count if is_any else torch.sym_max(count, 1)

    def get(self, index: Any) -> torch.Tensor:
        start = index * self._size
        return self.tensor[(slice(None),) * self.axis + (slice(start, start + self._size),)]

    def __getitem__(self, index: Any) -> Any:
        if type(index) is not int:
            return self.refuse()
        return self.get(index if index >= 0 else self.length + index)

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


class ListOfParts(UnreadList):
    """Stands for a list of tensors that are alike but for their size along ``axis``. Each of ``pieces`` is one of them,
    or several, concatenated along it."""

    def __init__(self, pieces: Iterable[torch.Tensor], axis: int) -> None:
        super().__init__(unread())
        self.axis = axis
        self.pieces: list[torch.Tensor] = []
        self.extend(pieces)

    def append(self, item: Any) -> None:
        if not isinstance(item, torch.Tensor) or (self.pieces and self._kind(item) != self._kind(self.pieces[0])):
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
        return self.pieces[0].dim() if self.pieces else super().rank

    def concatenated(self, dim: int) -> torch.Tensor:
        if dim % self.rank != self.axis:
            self.refuse()
        return self.joined()

    def joined(self) -> torch.Tensor:
        """All items, in memory of their own."""
        return torch.cat(self.pieces, self.axis)

    def _kind(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        sizes = [None if i == self.axis else expression_of(size) for i, size in enumerate(tensor.shape)]
        return tensor.dtype, sizes
