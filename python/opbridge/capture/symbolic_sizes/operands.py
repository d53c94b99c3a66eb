"""Operands of symbolic numbers that torch does not expect: numbers of classes of their own, and booleans."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from opbridge.capture.patching import patch
from opbridge.torch_compat import symbols as points


@contextlib.contextmanager
def take_any_operand() -> Iterator[None]:
    """Computes with members of an ``IntEnum``, with NumPy's ``float64`` and with other instances of subclasses of int
    and float as with their values, and compares booleans as Python does.

    torch takes numbers of its own classes and of int, float and bool alone. For Python a size would not be equal to
    any other number, and ``(size > 5) == 1`` would be false.
    """
    node_of, equal = points.NODE_OF_OPERAND.original, points.EQUALITY.original

    def node_of_operand(node: Any, operand: Any) -> Any:
        found = node_of(node, operand)
        if found is NotImplemented:
            for kind in (int, float):
                if isinstance(operand, kind):
                    return node_of(node, kind(operand))
        return found

    def equality(node: Any, other: Any) -> Any:
        if not (node.is_bool() or other.is_bool()):
            return equal(node, other)
        value = other.maybe_as_bool() if other.is_bool() else other.maybe_as_int()
        if not node.is_bool():
            return equal(node, other if value is None else node.wrap_int(int(value)))
        if value is not None:
            return node if value == 1 else node.sym_not() if value == 0 else node.wrap_bool(False)
        return node.and_(other).or_(node.sym_not().and_(other.sym_not()))

    with (
        patch(points.NODE_OF_OPERAND, node_of_operand),
        patch(points.EQUALITY, equality),
        patch(points.INEQUALITY, lambda node, other: equality(node, other).sym_not()),
    ):
        yield
