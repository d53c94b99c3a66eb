"""Operands of symbolic numbers that torch does not expect: numbers of classes of their own, and booleans."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from opbridge.capture.patching import patch
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import refused
from opbridge.capture.torchscript.branches import Truth
from opbridge.torch_compat import symbols as points

_Operation = Callable[[Any, Any], Any]  # of two symbolic numbers, or constants beside one


@contextlib.contextmanager
def take_any_operand(caught: Caught) -> Iterator[None]:
    """Computes with members of an ``IntEnum``, with NumPy's ``float64`` and with other instances of subclasses of int
    and float as with their values, and compares booleans as Python does.

    torch takes numbers of its own classes and of int, float and bool alone. For Python a size would not be equal to
    any other number, and ``(size > 5) == 1`` would be false.
    """
    node_of = points.NODE_OF_OPERAND.original
    equal, unequal = points.EQUALITY.original, points.INEQUALITY.original

    def node_of_operand(node: Any, operand: Any) -> Any:
        found = node_of(node, operand.number() if type(operand) is Truth else operand)
        if found is NotImplemented:
            for kind in (int, float):
                if isinstance(operand, kind):
                    return node_of(node, kind(operand))
        return found

    def of_one_kind(operation: _Operation) -> _Operation:
        def call(node: Any, other: Any) -> Any:
            if node.is_bool() != other.is_bool():
                what = "a comparison that depends on a dynamic size is combined with a number; convert it with int()"
                raise refused(caught, what)
            return operation(node, other)

        return call

    def are_numbers(node: Any, other: Any) -> bool:
        return not (node.is_bool() or other.is_bool())

    def inequality(node: Any, other: Any) -> Any:
        return unequal(node, other) if are_numbers(node, other) else equality(node, other).sym_not()

    def equality(node: Any, other: Any) -> Any:
        if are_numbers(node, other):
            return equal(node, other)
        value = other.maybe_as_bool() if other.is_bool() else other.maybe_as_int()
        if value is None:
            return equal_booleans(node, other)
        if not node.is_bool():
            return equal(node, node.wrap_int(int(value)))
        return node if value == 1 else node.sym_not() if value == 0 else node.wrap_bool(False)

    @of_one_kind
    def equal_booleans(node: Any, other: Any) -> Any:
        return node.and_(other).or_(node.sym_not().and_(other.sym_not()))

    with contextlib.ExitStack() as until_the_end:
        until_the_end.enter_context(patch(points.NODE_OF_OPERAND, node_of_operand))
        until_the_end.enter_context(patch(points.EQUALITY, equality))
        until_the_end.enter_context(patch(points.INEQUALITY, inequality))
        for point in points.OPERATIONS_ON_BITS:
            until_the_end.enter_context(patch(point, of_one_kind(point.original)))
        yield
