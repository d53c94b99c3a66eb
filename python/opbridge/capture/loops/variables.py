"""The variables of a loop or of a branch, and the lists that grow in it."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import torch

from opbridge.capture.loops.lists import UnreadList
from opbridge.capture.traced.bodies import NotRecorded
from opbridge.torch_compat import has_memory, pytree, storage_id

MUTABLE = (list, dict, collections.deque)  # of which the leaves are a variable's


class Growing(UnreadList):
    """Stands for a list in a step that only extends it, either at its end or at its front."""

    def __init__(self) -> None:
        super().__init__()
        self.at_front = False

    def __iadd__(self, items: Any) -> Any:  # type: ignore[misc]  # not as list's
        self.extend(items)
        return self

    def insert(self, index: Any, item: Any) -> None:
        if index != 0 or (list.__len__(self) and not self.at_front):
            raise NotRecorded
        self.at_front = True
        list.append(self, item)

    def items(self) -> list[Any]:
        """In the order in which the step has added them."""
        return [list.__getitem__(self, i) for i in range(list.__len__(self))]

    def _refuse(self) -> NoReturn:
        raise NotRecorded


class Variables:
    """The variables are ``values``; their leaves, such as the tensors in a list, are numbered through."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values
        self.written: set[int] = set()  # the leaves that are tensors to which the code writes
        self.leaves: list[Any] = []
        self.variables: list[int] = []  # of the leaves
        self.structures: list[Any] = []
        for i, value in enumerate(values):
            leaves, structure = pytree.tree_flatten(value)
            self.leaves += leaves
            self.variables += [i] * len(leaves)
            self.structures.append(structure)

    def with_leaves(self, leaves: Mapping[int, Any]) -> list[Any]:
        """The variables with other values of some leaves."""
        every = iter([leaves.get(i, leaf) for i, leaf in enumerate(self.leaves)])
        return [
            pytree.tree_unflatten(list(itertools.islice(every, structure.num_leaves)), structure)
            for structure in self.structures
        ]

    def check_writes(self, own: Mapping[int, Any], results: Iterable[Any], operands: Iterable[Any]) -> None:
        """Raises NotRecorded if a write changes anything besides the leaf that is written to. ``own`` are the copies to
        which the code writes, ``results`` what it returns besides them, and ``operands`` the tensors from outside."""
        written = [self.leaves[i] for i in self.written]
        outside = [leaf for i, leaf in enumerate(self.leaves) if i not in self.written]
        if any(is_in_memory_of(each, own.values()) for each in results):
            raise NotRecorded
        if any(is_in_memory_of(each, written) for each in (*outside, *operands)):
            raise NotRecorded
        if len({storage_id(each) for each in written}) < len(written):
            raise NotRecorded


def is_in_memory_of(value: Any, tensors: Collection[Any]) -> bool:
    """Whether the value is a tensor in the memory of one of the tensors."""
    if not isinstance(value, torch.Tensor) or not has_memory(value):
        return False
    return storage_id(value) in {storage_id(each) for each in tensors if has_memory(each)}
