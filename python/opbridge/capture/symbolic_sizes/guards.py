"""Keeps sizes symbolic where Python would convert them to numbers; refuses or warns where it cannot."""

from __future__ import annotations

import builtins
import contextlib
import dis
import functools
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

import sympy
import torch

from opbridge.capture.failures import T
from opbridge.capture.operators import operator_of
from opbridge.capture.patching import ByThread, current_thread, patch, patch_attributes
from opbridge.capture.rewrites import control_flow
from opbridge.capture.rewrites.torch_functions import keep_sizes_in_tensors
from opbridge.capture.run_warnings import warn_of_run
from opbridge.capture.source import line_of_frame, runs_users, users_frame
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes import python_functions
from opbridge.capture.symbolic_sizes.dynamic_axes import AS_IN_EXAMPLE, DynamicSizes, Fixing
from opbridge.capture.symbolic_sizes.python_functions import (
    OF_MATH,
    bit_length,
    called_here,
    replace_in,
    round_to_digits,
)
from opbridge.capture.symbolic_sizes.shape_rules import (
    add_missing_shapes,
    leave_overlap_open,
    patch_shapes_of_unbind,
    patch_shapes_of_unique,
)
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import FakeTensor, dispatched_in
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.exporting import BUILTINS_OF_EXPORT
from opbridge.torch_compat.symbols import (
    BROADCASTING,
    CONVERSION_TO_INT,
    EXPECTATION,
    FILE_OF_ASSOCIATIVE_SCAN,
    FILE_OF_TENSOR,
    SymNode,
    always,
    free_unbacked_symbols,
    uninteresting_files,
)

_SYMBOLS = {torch.SymInt, torch.SymFloat}
_DEPTH_OF_CHECK = 6  # frames between a function that calls torch._check and the symbol that is asked
_LAYERS = (  # files and folders
    torch.functional.__file__,
    FILE_OF_TENSOR,
    os.path.dirname(torch.nn.__file__),
    os.path.dirname(torch.distributions.__file__),
    os.path.dirname(torch.func.vmap.__code__.co_filename),
    os.path.dirname(torch.autograd.__file__),
)
_TORCHSCRIPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "torchscript") + os.sep
_THEIR_FILES = (torch.__file__, sys.modules[SymNode.__module__].__file__)


def _asking_frame(frame: FrameType) -> FrameType:
    """The innermost frame outside of the code of symbols, of the replacements of builtins, and of what runs the nodes
    of TorchScript, each in a frame at the user's line."""
    transparent = (*_THEIR_FILES, __file__, python_functions.__file__)
    while frame.f_back is not None and (
        frame.f_code.co_filename in transparent or frame.f_code.co_filename.startswith(_TORCHSCRIPT)
    ):
        frame = frame.f_back
    return frame


def _asked_by_model(frame: FrameType) -> bool:
    """Whether the conversion comes from the user's code, from torch's associative_scan, or from the replacements of
    torch.cond and similar ones."""
    asking = _asking_frame(frame)
    return runs_users(asking) or asking.f_code.co_filename in (control_flow.__file__, FILE_OF_ASSOCIATIVE_SCAN)


def _asked_by_layer(frame: FrameType) -> bool:
    """Whether the conversion comes from torch's functions, layers, distributions and transforms of functions that are
    written in Python."""
    return _asking_frame(frame).f_code.co_filename.startswith(_LAYERS)


class _AskedByCall(BaseException):
    """A C function converts a symbol to a number. Not an Exception, which a model might catch."""


# Raises _AskedByCall if the model may read a number from a tensor by a function that is still to be replaced.
_stop_at_reading: ContextVar[Callable[[], None]] = ContextVar("_stop_at_reading", default=lambda: None)


def retry_with_builtins(capture: Callable[[], T]) -> T:
    """``capture()``, with ``len``, ``min``, ``max`` and functions of ``math`` replaced if the model needs that, and
    ``int`` and ``float`` in the modules that call them with a size or a tensor.

    Replacing them makes torch.compile recompile its functions in all threads. So the first attempt is without; they
    are replaced only if it fails, or if a C function converts a symbol to a number in it. Each attempt stops at the
    first call of a function that has to be replaced too.
    """
    calls: list[tuple[dict[str, Any], str]] = []
    try:
        with _find_calls(calls) as found, patch(BUILTINS_OF_EXPORT, contextlib.nullcontext):
            result = capture()
        if not found:
            return result
    except (_AskedByCall, UnsupportedError):
        pass
    while True:
        with (
            patch_builtins(),
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
    """Yields a list of the symbols that C functions convert, since the model may continue despite the exception.

    Appends the globals of the user's functions that call ``int``, ``float`` or a function of ``math``, and its name,
    to ``calls``. With ``only_new``, only calls that are not among them count.
    """
    found: list[str] = []

    def finding(guard: Callable[[Any, str, int], Any]) -> Callable[[Any, str, int], Any]:
        def ask(self: Any, file: str, line: int) -> Any:
            if free_unbacked_symbols(self.expr):
                _stop_at_reading.get()()
            frame = _asking_frame(sys._getframe(1))
            asked_by_python = not file  # C++ passes its own file
            is_call = "CALL" in dis.opname[frame.f_code.co_code[frame.f_lasti]]
            if asked_by_python and is_call and always(self.shape_env, self.expr) is None:
                new = _new_calls(frame, calls) if runs_users(frame) else []
                calls.extend(new)
                if new or not only_new:
                    found.append(str(self.expr))
                    raise _AskedByCall
            return guard(self, file, line)

        return ask

    def stop_at_reading() -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not runs_users(frame):
            frame = frame.f_back
        if frame is not None and (new := _new_calls(frame, calls)):
            calls.extend(new)
            found.append("a number read from a tensor")
            raise _AskedByCall

    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(_stop_at_reading.reset, _stop_at_reading.set(stop_at_reading))
        for guard in (points.INT_OF_SYMBOL, points.FLOAT_OF_SYMBOL, points.BOOL_OF_SYMBOL):
            until_the_end.enter_context(patch(guard, finding(guard.original)))
        yield found


def _new_calls(frame: FrameType, calls: list[tuple[dict[str, Any], str]]) -> list[tuple[dict[str, Any], str]]:
    names = frame.f_globals
    known = {name for module, name in calls if module is names}
    new = [name for name in called_here(names, frame.f_code.co_names) if name not in known]
    # One by one: a type that is replaced cannot be an element type, and few calls of code that has both need float.
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

    divide = builtins.divmod

    def divmod_(number: Any, by: Any) -> Any:
        return (number // by, number % by) if {type(number), type(by)} & _SYMBOLS else divide(number, by)

    extrema = {"min": extremum(min, torch.sym_min), "max": extremum(max, torch.sym_max)}
    with (
        patch_attributes(builtins, len=len_, divmod=divmod_, **extrema),
        patch_attributes(math, **OF_MATH),
    ):
        yield


@contextlib.contextmanager
def watch_sizes(
    sizes: DynamicSizes, fixings: dict[str, Fixing], caught: Caught, of_data: bool = False
) -> Iterator[None]:
    """Watches what a model does with symbolic sizes: it stays exact, or is refused, or causes a warning. ``of_data``
    includes sizes that depend on data, for which torch would use the example's. Fills ``fixings`` with what fixes
    sizes; ``caught`` notes refusals."""
    with (
        keep_sizes_in_tensors(),
        patch_shapes_of_unique(),
        patch_shapes_of_unbind(),
        leave_overlap_open(),
        add_missing_shapes(),
        refuse_numbers(sizes, caught, of_data),
        warn_of_branches(sizes, caught),
        judge_assumptions(caught),
        pass_sizes_as_numbers(),
        keep_order_of_operations(),
        warn_of_texts(),
        patch(points.BIT_LENGTH, bit_length),
        patch(points.ROUND, round_to_digits),
        note_fixed_sizes(sizes, fixings, caught),
    ):
        yield


def _refused(caught: Caught, what: str) -> UnsupportedError:
    refusal = UnsupportedError(what, line_of_frame(_asking_frame(sys._getframe(1))))
    caught.note(refusal)
    return refusal


def _operator_of(frame: FrameType | None) -> str:
    """The operator that the user's code has called, if one runs."""
    name = ""
    while frame is not None and not runs_users(frame):
        called = dispatched_in(frame)
        if called is not None:
            name = operator_of(called).key
        frame = frame.f_back
    return name


@contextlib.contextmanager
def note_fixed_sizes(sizes: DynamicSizes, fixings: dict[str, Fixing], caught: Caught) -> Iterator[None]:
    """Notes what fixes a size to a constant, the first for each constant. Refuses an equality that holds for the sizes
    of the capture but not for those of the example."""
    original = points.SYMBOL_REPLACEMENT.original

    def set_replacement(self: Any, symbol: Any, value: Any, message: str) -> None:
        original(self, symbol, value, message)
        frame = sys._getframe(1)
        if value.is_number:
            fixings.setdefault(str(value), Fixing(line_of_frame(frame), _operator_of(frame)))
        elif None not in (one := {sizes.in_example(each, self) for each in (symbol, value)}) and len(one) > 1:
            raise _refused(caught, f"the model takes '{symbol}' and '{value}' for equal, which is {AS_IN_EXAMPLE}")
        elif not value.is_Symbol and users_frame(frame) and _is_choice(frame):
            warn_of_run(f"torch takes the size '{symbol}' for '{value}', as in the example")

    with patch(points.SYMBOL_REPLACEMENT, set_replacement):
        yield


def _evaluated(node: Any, evaluate: Callable[..., Any], file: str, line: int) -> tuple[Any, bool]:
    """The number that the symbol is converted to, and whether it is only the example's, the symbol not being fixed."""
    asked, sizes = node.expr, node.shape_env
    fixed = always(sizes, asked) is not None
    result = evaluate(node, file, line)
    return result, not fixed and bool(sizes.replace(asked).free_symbols)


@contextlib.contextmanager
def refuse_numbers(sizes: DynamicSizes, caught: Caught, of_data: bool) -> Iterator[None]:
    """Refuses to convert to an int what the model computes from a dynamic size, since it would be the example's number.
    Warns if an operator needs such a number, as ``split`` that of its pieces, and if it becomes a float.

    If the size itself is converted, it becomes constant, and its axis is refused or becomes constant with it."""
    original = points.INT_OF_SYMBOL.original

    def guard_int(self: Any, file: str, line: int) -> Any:
        asked = self.expr
        if of_data and free_unbacked_symbols(asked):
            _stop_at_reading.get()()
            raise _refused(
                caught,
                f"a size that depends on data ('{asked}') is needed as a Python number, as by range() or an "
                "index of a list; compute with tensors instead, or with what int() and item() return",
            )
        result, is_example = _evaluated(self, original, file, line)
        if not is_example:
            return result
        if sizes.in_example(asked, self.shape_env) not in (result, None):
            what = f"an operator needs '{asked}' as a number; that this is {result} is {AS_IN_EXAMPLE}"
            raise _refused(caught, what)
        frame = sys._getframe(1)
        if frame.f_code is not CONVERSION_TO_INT:
            warn_of_run(f"an operator needs '{asked}', which depends on a dynamic size, as the number {result}")
            return result
        if _asked_by_model(frame):
            raise _refused(
                caught,
                f"'{asked}', which depends on a dynamic size, is made the number {result}, as by range() or an "
                "index of a list; arithmetic, int(), round(), math.floor() and math.sqrt() keep it a size",
            )
        if _asked_by_layer(frame):
            warn_of_run(f"torch makes '{asked}', which depends on a dynamic size, the number {result}")
        return result

    of_float = points.FLOAT_OF_SYMBOL.original

    def guard_float(self: Any, file: str, line: int) -> float:
        asked = self.expr
        if of_data and free_unbacked_symbols(asked):
            _stop_at_reading.get()()
            raise _refused(
                caught,
                f"a number that depends on data ('{asked}') is needed as a Python number, as by a function of math; "
                "compute with tensors instead, or with what float() and item() return",
            )
        result: float
        result, is_example = _evaluated(self, of_float, file, line)
        if is_example:
            warn_of_run(f"'{asked}', which depends on a dynamic size, was made the number {result}")
        return result

    with patch(points.INT_OF_SYMBOL, guard_int), patch(points.FLOAT_OF_SYMBOL, guard_float):
        yield


@contextlib.contextmanager
def warn_of_branches(sizes: DynamicSizes, caught: Caught) -> Iterator[None]:
    """Warns if the model branches by a symbolic size: the captured program always takes the branch of the example. A
    check of sizes by torch is such a branch if the model catches its error."""
    original = points.BOOL_OF_SYMBOL.original

    def guard_bool(self: Any, file: str, line: int) -> Any:
        asked, env = self.expr, self.shape_env
        fixed = always(env, asked) is not None
        try:
            result = original(self, file, line)
        except Exception as error:
            caught.note(error)
            raise
        frame = sys._getframe(1)
        differs = sizes.in_example(asked, env) not in (result, None)
        tried = (differs or not fixed) and in_try_block(frame)
        if tried or _asked_by_model(frame):
            if differs:
                raise _refused(caught, f"the model branches by '{asked}'; that this is {result} is {AS_IN_EXAMPLE}")
            if not _asked_by_model(frame):
                warn_of_run(f"an error that the model may catch: torch checked whether '{asked}', which was {result}")
            elif not fixed:
                warn_of_run(f"a branch by a dynamic size: whether '{asked}' was read as {result}")
        elif not fixed and free_unbacked_symbols(asked) and _asked_by_layer(frame):
            warn_of_run(f"torch branches by a size that depends on data: whether '{asked}' was read as {result}")
        elif result and not fixed and _compares_to_broadcast(frame) and (size := _may_be_one(asked, env)):
            one, other = asked.args if size == asked.args[0] else reversed(asked.args)
            warn_of_run(f"sizes that broadcast: '{one}' was taken for '{other}', as in the example, and may be 1")
        return result

    uninteresting_files().add(__file__)  # torch must not report this file as the location of the branch
    with patch(points.BOOL_OF_SYMBOL, guard_bool):
        yield


def _is_choice(frame: FrameType | None) -> bool:
    """Whether torch goes on in another way if the sizes are not equal: only where it checks them, eager mode fails."""
    codes = _torch_code(frame)
    return EXPECTATION not in codes or bool(codes & BROADCASTING)


def _torch_code(frame: FrameType | None) -> set[CodeType]:
    """The code that runs in the frames inside of the innermost one of the user."""
    codes = set()
    while frame is not None and not runs_users(frame):
        codes.add(frame.f_code)
        frame = frame.f_back
    return codes


def _compares_to_broadcast(frame: FrameType | None) -> bool:
    """Whether torch compares sizes to determine the shape of a broadcast."""
    for _ in range(_DEPTH_OF_CHECK):
        if frame is None:
            return False
        if frame.f_code in BROADCASTING:
            return True
        frame = frame.f_back
    return False


def _may_be_one(asked: Any, env: Any) -> Any:
    """The size in the equation ``asked`` that may be 1 when the other is not; None if the equation fixes both."""
    if not isinstance(asked, sympy.Eq) or not env.replace(asked).free_symbols:
        return None
    return next((side for side in asked.args if always(env, sympy.Ne(side, 1)) is not True), None)


@contextlib.contextmanager
def judge_assumptions(caught: Caught) -> Iterator[None]:
    """Judges what torch assumes of sizes that depend on data. Refuses to broadcast such a size: torch takes it for the
    other size, though it may be 1. Warns if both depend on data, or if the model may catch an error of the check."""
    original = points.EXPECTED_SYMBOL.original

    def expect_true(self: Any, *args: Any) -> Any:
        asked, frame = self.expr, sys._getframe(1)
        if not free_unbacked_symbols(asked) or always(self.shape_env, asked) is not None:
            return original(self, *args)
        if isinstance(asked, sympy.Eq) and _torch_code(frame) & BROADCASTING:
            if not all(map(free_unbacked_symbols, asked.args)):
                found, other = sorted(asked.args, key=lambda side: not free_unbacked_symbols(side))
                raise _refused(
                    caught,
                    f"a size that depends on data ('{found}') broadcasts with '{other}', and torch takes it for that, "
                    "which is wrong if it is 1; reshape the tensor to the size that it has",
                )
            one, other = asked.args
            warn_of_run(f"sizes that broadcast: '{one}' was taken for '{other}', which is wrong if one of them is 1")
        if in_try_block(frame):
            warn_of_run(f"an error that the model may catch: torch assumed '{asked}'")
        return original(self, *args)

    with patch(points.EXPECTED_SYMBOL, expect_true):
        yield


@contextlib.contextmanager
def pass_sizes_as_numbers() -> Iterator[None]:
    """Makes a symbolic size an ``int`` to the model, as in eager mode: ``isinstance`` reads ``__class__``. NumPy's
    functions of an object call its methods: ``numpy.sqrt(size)`` is ``size.sqrt()``."""

    def attributes_of(number: type) -> Callable[[Any, str], Any]:
        def get(self: Any, name: str) -> Any:
            if current_thread() != thread or (name != "__class__" and name not in OF_MATH):
                return object.__getattribute__(self, name)
            if name in OF_MATH:
                return functools.partial(OF_MATH[name], self)
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith("<frozen"):  # the module abc
                frame = frame.f_back
            return number if frame is not None and runs_users(frame) else type(self)

        return get

    # The __class__ of these classes cannot be set, and classes without bases (as in torch 2.13) accept no new bases.
    thread, name = current_thread(), "__getattribute__"
    numbers: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
    outer = {kind: vars(kind)[name] for kind in numbers if name in vars(kind)}  # of an enclosing capture
    try:
        for kind, number in numbers.items():
            setattr(kind, name, attributes_of(number))
        yield
    finally:
        for kind in numbers:
            if kind in outer:
                setattr(kind, name, outer[kind])
            else:
                delattr(kind, name)


@contextlib.contextmanager
def keep_order_of_operations() -> Iterator[None]:
    """Keeps sums and products of floating-point numbers apart, which sympy would join: ``x * 0.7 * 0.3`` becomes
    ``0.21 * x``, whose rounding differs."""

    def apart(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def compute(self: Any, other: Any) -> Any:
            return (
                original(self, other)
                if points.get_proxy_mode() is not None
                else original(_opaque(self), _opaque(other))
            )

        return compute

    with contextlib.ExitStack() as until_the_end:
        for operation in points.FLOAT_ARITHMETIC:
            until_the_end.enter_context(patch(operation, apart(operation.original)))
        yield


def _opaque(node: Any) -> Any:
    """``node``, with its expression in an ``Identity`` if it is a sum or a product of floating-point numbers."""
    if not isinstance(node, SymNode) or node.pytype is not float or not isinstance(node.expr, (sympy.Add, sympy.Mul)):
        return node
    return points.with_expression(node, points.Identity(node.expr))


@contextlib.contextmanager
def warn_of_texts() -> Iterator[None]:
    """Warns if the model converts a symbolic size to text, which is then that of the example's number."""

    def telling(original: Callable[[Any], str]) -> Callable[[Any], str]:
        def text(number: Any) -> str:
            result = original(number)
            if not _asked_by_model(sys._getframe(1)):
                return result
            node = number.node
            if always(node.shape_env, node.expr) is None:
                result = str(node.hint) if node.has_hint() else result
                warn_of_run(f"'{node.expr}', which depends on a dynamic size or on data, was made the text '{result}'")
            return result

        return text

    with contextlib.ExitStack() as until_the_end:
        for text in (points.INT_TEXT, points.FLOAT_TEXT, points.BOOL_TEXT):
            until_the_end.enter_context(patch(text, telling(text.original)))
        yield
