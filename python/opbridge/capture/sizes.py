"""Sizes that stay symbols where Python would make numbers of them."""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, uninteresting_files

from opbridge.capture.recorder import warn_of_run
from opbridge.capture.source import is_ours, is_users
from opbridge.errors import UnsupportedError


@contextlib.contextmanager
def sizes_kept_by_builtins() -> Iterator[None]:
    """``len`` of a fake tensor is its size, which may be a symbol, and ``min`` and ``max`` of sizes are symbols too:
    Python's own make a number of it, and choose by the example."""
    names = ("len", "min", "max")
    original = {name: getattr(builtins, name) for name in names}

    def length(value: Any) -> Any:
        return value.shape[0] if type(value) is FakeTensor and value.dim() else original["len"](value)

    def extremum(name: str, of_two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            values = args[0] if original["len"](args) == 1 and isinstance(args[0], (list, tuple)) else args
            kinds = {type(value) for value in values}
            if torch.SymInt in kinds and kinds <= {torch.SymInt, int} and not kwargs:
                return functools.reduce(of_two, values)
            return original[name](*args, **kwargs)

        return call

    kept = {"len": length, "min": extremum("min", torch.sym_min), "max": extremum("max", torch.sym_max)}
    for name in names:
        setattr(builtins, name, kept[name])
    try:
        yield
    finally:
        for name in names:
            setattr(builtins, name, original[name])


@contextlib.contextmanager
def data_dependent_sizes_kept() -> Iterator[None]:
    """Refuses what needs a size that depends on data as a number, which would be that of the example."""
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


@contextlib.contextmanager
def branches_told() -> Iterator[None]:
    """Warns where the model goes one way or another by a size that is a symbol: in the captured program it always goes
    the way of the example."""
    node: Any = SymNode
    original = node.guard_bool

    def guard_bool(self: Any, file: str, line: int) -> Any:
        always, asked = self.shape_env._maybe_evaluate_static(self.expr) is not None, str(self.expr)
        result = original(self, file, line)
        asking = sys._getframe(3).f_code.co_filename  # beyond SymNode.bool_ and SymBool.__bool__
        if not always and is_users(asking) and not is_ours(asking):
            warn_of_run(f"a branch by a dynamic size: whether '{asked}' was read as {result}")
        return result

    node.guard_bool = guard_bool
    uninteresting_files().add(__file__)  # torch is not to name it as the place of the branch
    try:
        yield
    finally:
        node.guard_bool = original
