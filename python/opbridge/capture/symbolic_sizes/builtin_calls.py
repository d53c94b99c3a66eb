"""Replaces builtins and functions of ``math`` that are called with a size, but only if the model needs it."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import math
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import torch

from opbridge.capture.failures import T
from opbridge.capture.loops.lists import UnreadList
from opbridge.capture.patching import ByThread, patch, patch_attributes
from opbridge.capture.rewrites.causal_attention import patch_causal_attention
from opbridge.capture.source import runs_users
from opbridge.capture.symbolic_sizes.asking import asked_by_layer, asking_frame
from opbridge.capture.symbolic_sizes.dynamic_axes import RangesDoNotHold
from opbridge.capture.symbolic_sizes.python_functions import (
    OF_MATH,
    called_here,
    replace_in,
)
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import FakeTensor, is_transformed
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.exporting import BUILTINS_OF_EXPORT
from opbridge.torch_compat.symbols import always, free_unbacked_symbols

_SYMBOLS = {torch.SymInt, torch.SymFloat}


class _AskedByCall(BaseException):
    """A C function converts a symbol to a number. Not an Exception, which a model might catch."""


# The functions that the attempts of a capture replace in modules, by their globals; None until one needs that.
_replaced: ContextVar[list[tuple[dict[str, Any], str]] | None] = ContextVar("_replaced", default=None)
_stop_at_reading: ContextVar[Callable[[], None]] = ContextVar("_stop_at_reading", default=lambda: None)


def stop_at_reading() -> None:
    """Raises _AskedByCall if the model may read a number from a tensor by a function that is still to be replaced."""
    _stop_at_reading.get()()


def retry_with_builtins(capture: Callable[[], T]) -> T:
    """Calls ``capture()``. If the model needs it, replaces ``len``, ``min``, ``max`` and functions of ``math``, and
    ``int`` and ``float`` in the modules that call them with a size or a tensor.

    Replacing them makes torch.compile recompile its functions in all threads. So the first attempt replaces nothing;
    the next one follows only if it fails, or if a C function converts a symbol to a number in it. Each attempt stops at
    the first call of another function that has to be replaced. Later attempts of the same capture replace all these.
    """
    calls = _replaced.get()
    if calls is None:
        calls = []
        try:
            with _find_calls(calls) as found, patch(BUILTINS_OF_EXPORT, contextlib.nullcontext):
                result = capture()
            if not found:
                return result
        except (_AskedByCall, UnsupportedError) as error:
            if isinstance(error, RangesDoNotHold) and not found:  # the whole model has run
                raise
        _replaced.set(calls)
    while True:
        with (
            patch_builtins(),
            patch_causal_attention(),
            patch(BUILTINS_OF_EXPORT, _builtins_of_export(BUILTINS_OF_EXPORT.original)),
            replace_in(calls),
            _find_calls(calls, only_new=True) as found,
        ):
            try:
                result = capture()
            except (_AskedByCall, UnsupportedError):
                if not found:
                    raise
        if not found:
            return result


@contextlib.contextmanager
def _find_calls(calls: list[tuple[dict[str, Any], str]], only_new: bool = False) -> Iterator[list[str]]:
    """Yields a list of the symbols that C functions convert. The exception alone would not suffice, since the model may
    catch it.

    For each function of the user or of a layer of torch that calls ``int``, ``float`` or a function of ``math``,
    appends its globals and the called name to ``calls``. With ``only_new``, only calls that are not yet in ``calls``
    count.
    """
    found: list[str] = []

    def finding(guard: Callable[[Any, str, int], Any]) -> Callable[[Any, str, int], Any]:
        def ask(self: Any, file: str, line: int) -> Any:
            if free_unbacked_symbols(self.expr):
                stop_at_reading()
            frame = asking_frame(sys._getframe(1))
            asked_by_python = not file  # C++ passes its own file
            is_call = "CALL" in dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if asked_by_python and is_call and always(self.shape_env, self.expr) is None:
                new = _new_calls(frame, calls) if runs_users(frame) or asked_by_layer(frame) else []
                calls.extend(new)
                if new or not only_new:
                    found.append(str(self.expr))
                    raise _AskedByCall
            return guard(self, file, line)

        return ask

    def stop() -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not runs_users(frame):
            frame = frame.f_back
        if frame is not None and (new := _new_calls(frame, calls)):
            calls.extend(new)
            found.append("a number read from a tensor")
            raise _AskedByCall

    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(_stop_at_reading.reset, _stop_at_reading.set(stop))
        for guard in (points.INT_OF_SYMBOL, points.FLOAT_OF_SYMBOL, points.BOOL_OF_SYMBOL):
            until_the_end.enter_context(patch(guard, finding(guard.original)))
        yield found


def _new_calls(frame: FrameType, calls: list[tuple[dict[str, Any], str]]) -> list[tuple[dict[str, Any], str]]:
    names = frame.f_globals
    known = {name for module, name in calls if module is names}
    new = [name for name in called_here(names, frame.f_code.co_names) if name not in known]
    # Only one at a time, int first: a replaced type cannot serve as an element type, and where both are called, few
    # calls need float.
    return [(names, min(new, key=lambda name: name == "float"))] if new else []


def _builtins_of_export(change: Callable[[], Any]) -> Callable[[], Any]:
    """Replaces the context manager in which torch.export replaces builtins, to confine it to this thread."""
    replaced = ((builtins, "max"), (builtins, "min"), (math, "pow"))

    @contextlib.contextmanager
    def confine() -> Iterator[None]:
        before = [getattr(owner, name) for owner, name in replaced]
        with change():
            for (owner, name), elsewhere in zip(replaced, before, strict=True):
                setattr(owner, name, ByThread(getattr(owner, name), elsewhere))
            yield

    return confine


@contextlib.contextmanager
def patch_builtins() -> Iterator[None]:
    """Makes ``len`` of a fake tensor, and ``min``, ``max`` and ``divmod`` of sizes, return symbols; Python's own
    convert to a number, choose by the example, or fail."""
    length = builtins.len

    def len_(value: Any) -> Any:
        if isinstance(value, UnreadList):
            return value.length
        is_symbolic = type(value) is FakeTensor or (type(value) is torch.Tensor and is_transformed(value))
        return value.shape[0] if is_symbolic and value.dim() else length(value)

    def extremum(original: Callable[..., Any], of_two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if length(args) == 1 and isinstance(args[0], UnreadList) and not kwargs:
                return args[0].extremum(original.__name__)
            if length(args) == 1 and isinstance(args[0], Iterator):
                args = ([*args[0]],)
            values = args[0] if length(args) == 1 and isinstance(args[0], (list, tuple)) else args
            kinds = {type(value) for value in values}
            if kinds & _SYMBOLS and kinds <= _SYMBOLS | {int, float} and not kwargs:
                return functools.reduce(of_two, values)
            return original(*args, **kwargs)

        return call

    divide = builtins.divmod

    def divmod_(number: Any, by: Any) -> Any:
        return (number // by, number % by) if {type(number), type(by)} & _SYMBOLS else divide(number, by)

    extrema = {"min": extremum(min, torch.sym_min), "max": extremum(max, torch.sym_max)}
    with (
        patch_attributes(builtins, len=len_, divmod=divmod_, **extrema),
        patch_attributes(math, **OF_MATH),
    ):
        yield
