"""Conditions on one dynamic size that have the same answer for all sizes.

"Same" padding, for example, asks whether it has to pad: ``max((ceil(n / 2) - 1) * 2 + 3 - n, 0) > 0``.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import sympy

from opbridge import _core
from opbridge.errors import FileError
from opbridge.torch_compat.symbols import FloorDiv, Max, Min, Mod, PythonMod

_MOST_TRIED = 100_000
_RELATIONS: dict[type, Callable[[int, int], bool]] = {
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
}
_ROUNDING = frozenset({"CeilToInt", "FloorToInt", "TruncToInt"})


def is_decided(asked: Any, truth: bool, least: int, most: int | None) -> bool:
    """Whether the condition ``asked`` on one size from ``least`` to ``most`` is always ``truth``. False if unknown."""
    compare = _RELATIONS.get(type(asked))
    if compare is None or len(asked.free_symbols) != 1:
        return False
    last = _last_to_try(asked.lhs - asked.rhs)
    if last is None:
        return False
    last = last if most is None else min(last, most)
    return last - least < _MOST_TRIED and _has_truth(asked, truth, least, last)


@functools.lru_cache(maxsize=1024)
def _has_truth(asked: Any, truth: bool, first: int, last: int) -> bool:
    [symbol] = map(str, asked.free_symbols)
    known = {symbol: _core.Dim.symbol(symbol)}
    try:
        left, right = (_core.Dim.parse(str(side), known) for side in (asked.lhs, asked.rhs))
    except FileError:
        return False
    compare = _RELATIONS[type(asked)]
    return all(
        compare(left.evaluate({symbol: size}), right.evaluate({symbol: size})) == truth
        for size in range(first, last + 1)
    )


def _last_to_try(difference: Any) -> int | None:
    """The size from which on the sign of ``difference`` only repeats; None if it is not known.

    Along the residues of a period, the product of all divisors, the difference is linear from some size on. Its slope
    is a multiple of 1 / period, and it stays within ``reach`` of that line, so two lines that cross do so below
    2 * reach * period. Each Max or Min in it has such a size too.
    """
    form = _form_of(difference)
    if form is None:
        return None
    period, reach = form
    return 4 * period * (reach + 2)


def _form_of(expr: Any) -> tuple[int, int] | None:
    """The period of an expression, and how far it may be from a linear function; None if it has another form."""
    if expr.is_Integer:
        return 1, abs(int(expr))
    if expr.is_Symbol:
        return 1, 0
    kind = type(expr)
    if kind.__name__ in _ROUNDING and type(expr.args[0]).__name__ == "IntTrueDiv":
        return _of_quotient(*expr.args[0].args)
    if kind in (FloorDiv, Mod, PythonMod):
        return _of_quotient(*expr.args)
    if expr.is_Mul and len(expr.args) == 2 and expr.args[0].is_Integer:
        form = _form_of(expr.args[1])
        return None if form is None else (form[0], abs(int(expr.args[0])) * form[1])
    if not expr.is_Add and kind not in (Max, Min):
        return None
    period, reach = 1, 0
    for form in map(_form_of, expr.args):
        if form is None:
            return None
        period, reach = math.lcm(period, form[0]), reach + form[1]
    return period, reach


def _of_quotient(dividend: Any, divisor: Any) -> tuple[int, int] | None:
    form = _form_of(dividend)
    if form is None or not divisor.is_Integer or divisor < 1:
        return None
    return form[0] * int(divisor), form[1] + int(divisor)
