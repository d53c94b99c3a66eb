"""Conversions of sizes to Python's numbers and texts."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import sympy
import torch

from opbridge.capture.eager_types import NUMBERS, class_for
from opbridge.capture.loops import note_loop, note_loop_of_data
from opbridge.capture.patching import current_thread, patch
from opbridge.capture.run_warnings import warn_of_run
from opbridge.capture.source import users_frame
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import (
    NeedsNumberOfData,
    argument_asked,
    asked_by_layer,
    asked_by_model,
    asked_by_shape_rule,
    asking_frame,
    refused,
    refuses_parts_of_example,
    splits,
    unpacks_parts,
)
from opbridge.capture.symbolic_sizes.builtin_calls import stop_at_reading
from opbridge.capture.symbolic_sizes.dynamic_axes import AS_IN_EXAMPLE, DynamicSizes
from opbridge.capture.symbolic_sizes.multiples import is_always_quotient
from opbridge.capture.symbolic_sizes.python_functions import METHODS_OF_NUMPY
from opbridge.capture.symbolic_sizes.shown import only_shows
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.symbols import (
    CONVERSION_TO_INT,
    SymNode,
    always,
    free_unbacked_symbols,
)


def _evaluated(node: Any, evaluate: Callable[..., Any], file: str, line: int) -> tuple[Any, bool]:
    """Returns the number, and whether it holds for the example alone because the symbol is not fixed."""
    asked, sizes = node.expr, node.shape_env
    fixed = always(sizes, asked) is not None
    result = evaluate(node, file, line)
    return result, not fixed and bool(sizes.replace(asked).free_symbols)


@contextlib.contextmanager
def refuse_numbers(sizes: DynamicSizes, caught: Caught, of_data: bool) -> Iterator[None]:
    """Refuses to convert a number that the model computes from a dynamic size to an int: it would be the example's
    number. Warns if an operator needs such a number, as ``split`` needs the number of its pieces, and if the number
    becomes a float.

    If the size itself is converted, it becomes constant. Its axis is then refused, or becomes constant too."""
    original = points.INT_OF_SYMBOL.original

    def guard_int(self: Any, file: str, line: int) -> Any:
        asked = self.expr
        if self.has_hint() and asked_by_model(sys._getframe(1)) and only_shows(asking_frame(sys._getframe(1))):
            return self.hint
        if free_unbacked_symbols(asked):
            note_loop_of_data(users_frame(sys._getframe(1)))
        if of_data and free_unbacked_symbols(asked):
            stop_at_reading()
            shown = sizes.text_of(asked)
            raise refused(
                caught,
                f"a size that depends on data ('{shown}') is needed as a Python number, as by range() or an "
                "index of a list; compute with tensors instead, or with what int() and item() return",
                NeedsNumberOfData,
            )
        result, is_example = _evaluated(self, original, file, line)
        if not is_example or is_always_quotient(asked, result):
            return result
        shown = sizes.text_of(asked)
        if sizes.in_example(asked, self.shape_env) not in (result, None):
            what = f"an operator needs '{shown}' as a number, and a capture takes {result}; {AS_IN_EXAMPLE}"
            raise refused(caught, what)
        frame = sys._getframe(1)
        if frame.f_code is not CONVERSION_TO_INT:
            what = f"an operator needs '{shown}', which depends on a dynamic size, as the number {result}"
            function, is_given = splits(frame)
            if not function:
                warn_of_run(what + argument_asked(frame, asked))
            elif in_try_block(frame) or not unpacks_parts(users_frame(frame)):
                note_loop(users_frame(frame))
                what += f" of the parts that {function}() makes"
                what += "; tensor_split() and x.split([…]) make a number that is given"
                if refuses_parts_of_example.get() and not is_given:
                    raise refused(caught, what)
                warn_of_run(what)
            return result
        if asked_by_model(frame):
            note_loop(users_frame(frame))
            raise refused(
                caught,
                f"'{shown}', which depends on a dynamic size, is converted to the number {result}, as by range() or an "
                "index of a list; arithmetic, int(), round(), math.floor() and math.sqrt() keep it a size",
            )
        if asked_by_layer(frame):
            warn_of_run(f"torch converts '{shown}', which depends on a dynamic size, to the number {result}")
        return result

    of_float = points.FLOAT_OF_SYMBOL.original

    def guard_float(self: Any, file: str, line: int) -> float:
        asked = self.expr
        if of_data and free_unbacked_symbols(asked):
            stop_at_reading()
            shown = sizes.text_of(asked)
            raise refused(
                caught,
                f"a number that depends on data ('{shown}') is needed as a Python number, as by a function of math; "
                "compute with tensors instead, or with what float() and item() return",
                NeedsNumberOfData,
            )
        result: float
        result, is_example = _evaluated(self, of_float, file, line)
        if is_example and not asked_by_shape_rule(sys._getframe(1), asked):
            shown, given = sizes.text_of(asked), argument_asked(sys._getframe(1), asked)
            what = f"'{shown}', which depends on a dynamic size, was converted to the number {result}{given}"
            warn_of_run(f"{what}; a formula of tensors keeps it dynamic" if given else what)
        return result

    with patch(points.INT_OF_SYMBOL, guard_int), patch(points.FLOAT_OF_SYMBOL, guard_float):
        yield


@contextlib.contextmanager
def pass_sizes_as_numbers() -> Iterator[None]:
    """Makes a symbolic size an ``int`` to the model, as in eager mode: ``isinstance`` reads ``__class__``. NumPy
    computes functions of an object by its methods: ``numpy.sqrt(size)`` calls ``size.sqrt()``. ``~size`` is missing."""

    def get(self: Any, name: str) -> Any:
        if current_thread() != thread or (name != "__class__" and name not in METHODS_OF_NUMPY):
            return object.__getattribute__(self, name)
        if name in METHODS_OF_NUMPY:
            return functools.partial(METHODS_OF_NUMPY[name], self)
        return class_for(self, sys._getframe(1))

    # The __class__ of these classes cannot be set, and classes without bases (as in torch 2.13) accept no new bases.
    thread = current_thread()
    methods: dict[tuple[type, str], Any] = {(kind, "__getattribute__"): get for kind in NUMBERS}
    methods[torch.SymInt, "__invert__"] = lambda number: -1 - number
    outer = {(kind, name): vars(kind)[name] for kind, name in methods if name in vars(kind)}  # of an enclosing capture
    try:
        for (kind, name), method in methods.items():
            setattr(kind, name, method)
        yield
    finally:
        for kind, name in methods:
            if (kind, name) in outer:
                setattr(kind, name, outer[kind, name])
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
def warn_of_texts(sizes: DynamicSizes) -> Iterator[None]:
    """Warns if the model converts a symbolic size to text other than to show it: the text has the example's number."""

    def telling(original: Callable[[Any], str]) -> Callable[[Any], str]:
        def text(number: Any) -> str:
            result = original(number)
            if not asked_by_model(sys._getframe(1)):
                return result
            node = number.node
            if always(node.shape_env, node.expr) is None:
                result = str(node.hint) if node.has_hint() else result
                if not only_shows(asking_frame(sys._getframe(1))):
                    shown = sizes.text_of(node.expr)
                    warn_of_run(
                        f"'{shown}', which depends on a dynamic size or on data, was converted to the text '{result}'"
                    )
            return result

        return text

    def formatted(original: Callable[[Any, str], str]) -> Callable[[Any, str], str]:
        def text(number: Any, form: str) -> str:
            node = number.node
            if not form or not node.has_hint() or not asked_by_model(sys._getframe(1)):
                return original(number, form)
            repr(number)  # warns
            return format(node.hint, form)

        return text

    with contextlib.ExitStack() as until_the_end:
        for point in (points.INT_TEXT, points.FLOAT_TEXT, points.BOOL_TEXT):
            until_the_end.enter_context(patch(point, telling(point.original)))
        for point in (points.INT_FORMAT, points.FLOAT_FORMAT):
            until_the_end.enter_context(patch(point, formatted(point.original)))
        yield
