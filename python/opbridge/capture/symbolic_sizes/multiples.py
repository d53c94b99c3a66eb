"""Sizes that are rounded up to a multiple."""

from __future__ import annotations

from typing import Any

import sympy

from opbridge.torch_compat.symbols import FloorDiv, Mod, PythonMod


def simplify_multiple(size: Any) -> Any:
    """``k * ((x + k - 1) // k)`` for ``x + (k - x % k) % k`` and ``x + -x % k``; other expressions as they are.

    Networks pad images to a multiple in each stage. If ``x`` occurred twice in the result, the expressions of sizes
    would grow by powers of two, and torch's reasoning about them take minutes.
    """
    if not isinstance(size, sympy.Add):
        return size
    for padding in size.args:
        if not isinstance(padding, (Mod, PythonMod)) or not padding.args[1].is_Integer:
            continue
        padded, multiple = size - padding, padding.args[1]
        # The padding is (over - padded) % multiple.
        over = sympy.expand(_without_remainders(padding.args[0], multiple) + padded)
        if multiple > 0 and over.is_Integer:
            over %= multiple
            return multiple * FloorDiv(padded - over + multiple - 1, multiple) + over
    return size


def _without_remainders(expr: Any, divisor: Any) -> Any:
    """An expression with the same remainder, with ``x`` for terms ``x % divisor``."""
    terms = sympy.Add.make_args(expr)
    return sympy.Add(*(_dividend(term, divisor) for term in terms))


def _dividend(term: Any, divisor: Any) -> Any:
    factor, rest = term.as_coeff_Mul()
    if factor.is_Integer and isinstance(rest, (Mod, PythonMod)) and rest.args[1] == divisor:
        return factor * rest.args[0]
    return term
