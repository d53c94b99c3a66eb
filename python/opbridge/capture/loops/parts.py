"""Lists of tensors that differ in size along one axis, and may be concatenated along it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import UnreadList, unread
from opbridge.capture.symbolic_sizes.bounds import is_never_negative
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.torch_compat.symbols import always, expression_of


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
        self._size = size if _is_positive(size) else torch.sym_max(size, 1)
        self._all_parts = all_parts
        self._parts_of_nothing = parts_of_nothing

    @property
    def length(self) -> Any:
        elements: Any = self.tensor.shape[self.axis]
        count = (elements + self._size - 1) // self._size
        if _is_positive(elements):
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


def _is_positive(size: Any) -> bool:
    """Whether a size is certainly at least 1."""
    return type(size) is int or always(size.node.shape_env, size.node.expr >= 1) is not None


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
        return torch.cat(self.pieces, self.axis) if dim % self.rank == self.axis else self.refuse()

    def _kind(self, tensor: torch.Tensor) -> tuple[Any, ...]:
        sizes = [None if i == self.axis else expression_of(size) for i, size in enumerate(tensor.shape)]
        return tensor.dtype, sizes
