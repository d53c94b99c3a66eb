"""Sizes that stay symbols where Python would make numbers of them."""

from __future__ import annotations

import builtins
import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import ShapeEnv, free_unbacked_symbols, uninteresting_files

from opbridge.capture.recorder import warn_of_run
from opbridge.capture.replaced import replaced
from opbridge.capture.source import is_users, line_of_frame
from opbridge.capture.substitutes import linspace
from opbridge.errors import UnsupportedError

_SYMBOLS = {torch.SymInt, torch.SymFloat}
_THEIR_FILES = (torch.__file__, sys.modules[SymNode.__module__].__file__)


def _asking_frame(frame: FrameType) -> FrameType:
    """The innermost one beyond the symbols themselves and what stands here for a builtin."""
    while frame.f_code.co_filename in (*_THEIR_FILES, __file__) and frame.f_back is not None:
        frame = frame.f_back
    return frame


@contextlib.contextmanager
def sizes_kept_by_builtins() -> Iterator[None]:
    """``len`` of a fake tensor is its size, which may be a symbol, and ``min`` and ``max`` of sizes are symbols too:
    Python's own make a number of it, and choose by the example."""
    length = builtins.len

    def len_(value: Any) -> Any:
        return value.shape[0] if type(value) is FakeTensor and value.dim() else length(value)

    def extremum(original: Callable[..., Any], of_two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if length(args) == 1 and isinstance(args[0], Iterator):
                args = ([*args[0]],)
            values = args[0] if length(args) == 1 and isinstance(args[0], (list, tuple)) else args
            kinds = {type(value) for value in values}
            if kinds & _SYMBOLS and kinds <= _SYMBOLS | {int, float} and not kwargs:
                return functools.reduce(of_two, values)
            return original(*args, **kwargs)

        return call

    with replaced(builtins, len=len_, min=extremum(min, torch.sym_min), max=extremum(max, torch.sym_max)):
        yield


@contextlib.contextmanager
def sizes_watched(lines: dict[str, str], of_data: bool = False) -> Iterator[None]:
    """What a model does with sizes that are symbols stays exact, is refused, or is told; ``of_data`` too, where torch
    itself would take the example's. ``lines`` becomes those that fix sizes."""
    with (
        sizes_kept_by_builtins(),
        linspaces_kept(),
        numbers_refused(of_data),
        branches_told(),
        squeezes_told(),
        fixed_sizes_noted(lines),
    ):
        yield


@contextlib.contextmanager
def fixed_sizes_noted(lines: dict[str, str]) -> Iterator[None]:
    """The lines of the model that make a constant of a size, the first for each constant."""
    original: Any = ShapeEnv._set_replacement

    def set_replacement(self: Any, symbol: Any, value: Any, message: str) -> None:
        original(self, symbol, value, message)
        if value.is_number:
            lines.setdefault(str(value), line_of_frame(sys._getframe(1)))

    with replaced(ShapeEnv, _set_replacement=set_replacement):
        yield


def _evaluated(node: Any, evaluate: Callable[..., Any], file: str, line: int) -> tuple[Any, bool]:
    """The number that the symbol is made, and whether it is the example's while the symbol stays one."""
    asked, sizes = node.expr, node.shape_env
    always = sizes._maybe_evaluate_static(asked) is not None
    result = evaluate(node, file, line)
    return result, not always and bool(sizes.replace(asked).free_symbols)


@contextlib.contextmanager
def numbers_refused(of_data: bool) -> Iterator[None]:
    """Refuses to make an int of what the model computes from a dynamic size, for it would be the number of the example.
    Warns where an operator needs such a number, as ``split`` that of its pieces, and where it becomes a float.

    Where the size itself becomes a number, it is fixed, and its axis refused or fixed with it."""
    original: Any = SymNode.guard_int

    def guard_int(self: Any, file: str, line: int) -> Any:
        asked = self.expr
        if of_data and free_unbacked_symbols(asked):
            raise UnsupportedError(
                f"a size that depends on data ('{asked}') is needed as a Python number, as by int(), range() or "
                "an index of a list; compute with tensors instead"
            )
        result, is_example = _evaluated(self, original, file, line)
        if not is_example:
            return result
        frame = sys._getframe(1)
        if frame.f_code.co_name != "int_":
            warn_of_run(f"an operator needs '{asked}', which depends on a dynamic size, as the number {result}")
            return result
        frame = _asking_frame(frame)
        if is_users(frame.f_code.co_filename):
            raise UnsupportedError(
                f"'{asked}', which depends on a dynamic size, is made the number {result}, as by int(), range() or an "
                "index of a list; //, %, math.floor() and math.ceil() keep it a size",
                line_of_frame(frame),
            )
        return result

    of_float: Any = SymNode.guard_float

    def guard_float(self: Any, file: str, line: int) -> float:
        asked = self.expr
        result: float
        result, is_example = _evaluated(self, of_float, file, line)
        if is_example:
            warn_of_run(f"'{asked}', which depends on a dynamic size, was made the number {result}")
        return result

    with replaced(SymNode, guard_int=guard_int, guard_float=guard_float):
        yield


@contextlib.contextmanager
def branches_told() -> Iterator[None]:
    """Warns where the model goes one way or another by a size that is a symbol: in the captured program it always goes
    the way of the example."""
    original: Any = SymNode.guard_bool

    def guard_bool(self: Any, file: str, line: int) -> Any:
        asked = self.expr
        always = self.shape_env._maybe_evaluate_static(asked) is not None
        result = original(self, file, line)
        if not always and is_users(_asking_frame(sys._getframe(1)).f_code.co_filename):
            warn_of_run(f"a branch by a dynamic size: whether '{asked}' was read as {result}")
        return result

    uninteresting_files().add(__file__)  # torch is not to name it as the place of the branch
    with replaced(SymNode, guard_bool=guard_bool):
        yield


@contextlib.contextmanager
def squeezes_told() -> Iterator[None]:
    """Warns where ``squeeze()`` without a dim meets a dynamic size: torch keeps that axis, where of size 1 too."""

    def telling(squeeze: Callable[..., Any]) -> Callable[..., Any]:
        def call(input: Any, *args: Any, **kwargs: Any) -> Any:
            dynamic = [size for size in input.shape if isinstance(size, torch.SymInt)] if not (args or kwargs) else []
            if dynamic:
                warn_of_run(
                    f"squeeze() keeps the axis of the dynamic size '{dynamic[0]}', which may be 1 and then goes"
                )
            return squeeze(input, *args, **kwargs)

        return call

    function, method = telling(torch.squeeze), telling(torch.Tensor.squeeze)
    with replaced(torch, squeeze=function), replaced(torch.Tensor, squeeze=method):
        yield


@contextlib.contextmanager
def linspaces_kept() -> Iterator[None]:
    """``linspace`` of a dynamic number of steps, which torch takes from the example without a word."""
    original = torch.linspace

    def call(start: Any, end: Any, steps: Any, *args: Any, **kwargs: Any) -> Any:
        make = linspace if isinstance(steps, torch.SymInt) else original
        return make(start, end, steps, *args, **kwargs)

    with replaced(torch, linspace=call):
        yield
