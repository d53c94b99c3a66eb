"""Conditions on one dynamic size that have the same answer for all sizes.

"Same" padding, for example, asks whether it has to pad: ``max((ceil(n / 2) - 1) * 2 + 3 - n, 0) > 0``.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
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


Wanted = tuple[Any, bool]  # a condition, and the answer that it is to have


def is_decided(asked: Any, truth: bool, least: int, most: int | None) -> bool:
    """Whether the condition ``asked`` on one size from ``least`` to ``most`` is always ``truth``. False if unknown."""
    return are_impossible(((asked, not truth),), least, most)


def are_impossible(wanted: Sequence[Wanted], least: int, most: int | None) -> bool:
    """Whether no size from ``least`` to ``most`` gives all conditions on it the wanted answers. False if unknown."""
    if any(type(asked) not in _RELATIONS or len(asked.free_symbols) != 1 for asked, _ in wanted):
        return False
    count = _count_to_try([asked.lhs - asked.rhs for asked, _ in wanted])
    if count is None:
        return False
    last = least + count if most is None else min(least + count, most)
    return last - least < _MOST_TRIED and _are_never(tuple(wanted), least, last)


@functools.lru_cache(maxsize=1024)
def _are_never(wanted: tuple[Wanted, ...], first: int, last: int) -> bool:
    try:
        conditions = [(_answers(asked), truth) for asked, truth in wanted]
    except FileError:
        return False
    return not any(all(answer(size) == truth for answer, truth in conditions) for size in range(first, last + 1))


def _answers(asked: Any) -> Callable[[int], bool]:
    """The answer of a condition for a size."""
    [symbol] = map(str, asked.free_symbols)
    known = {symbol: _core.Dim.symbol(symbol)}
    left, right = (_core.Dim.parse(str(side), known) for side in (asked.lhs, asked.rhs))
    compare = _RELATIONS[type(asked)]
    return lambda size: compare(left.evaluate({symbol: size}), right.evaluate({symbol: size}))


def _count_to_try(differences: Sequence[Any]) -> int | None:
    """After how many sizes the signs of the differences only repeat; None if it is not known.

    Along the residues of a period, the product of all divisors, a difference is linear from some size on. Its slope
    is a multiple of 1 / period, and it stays within ``reach`` of that line, so two lines that cross do so below
    2 * reach * period. Each Max or Min in it has such a size too.
    """
    forms = list(map(_form_of, differences))
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return None
    return 4 * math.lcm(*(period for period, _ in known)) * (max(reach for _, reach in known) + 2)


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
