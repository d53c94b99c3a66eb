"""Sizes that stay symbols where Python would make numbers of them."""

from __future__ import annotations

import builtins
import contextlib
from collections.abc import Iterator
from typing import Any

from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from opbridge.errors import UnsupportedError


@contextlib.contextmanager
def lengths_kept() -> Iterator[None]:
    """``len`` of a fake tensor is its size, which may be a symbol; Python's own makes a number of it."""
    original = builtins.len

    def length(value: Any) -> Any:
        return value.shape[0] if type(value) is FakeTensor and value.dim() else original(value)

    builtins.len = length
    try:
        yield
    finally:
        builtins.len = original


@contextlib.contextmanager
def data_dependent_sizes_kept() -> Iterator[None]:
    """Refuses what needs a size that depends on data as a number: it would be that of the example."""
    node: Any = SymNode
    original = node.guard_int

    def guard_int(self: Any, file: str, line: int) -> Any:
        if free_unbacked_symbols(self.expr):
            raise UnsupportedError(
                f"a size that depends on data ('{self.expr}') is needed as a Python number, as by int(), range() or "
                "an index of a list; compute with tensors instead"
            )
        return original(self, file, line)

    node.guard_int = guard_int
    try:
        yield
    finally:
        node.guard_int = original
