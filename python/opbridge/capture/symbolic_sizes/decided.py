"""Conditions on one dynamic size that have the same answer for all sizes.

"Same" padding, for example, asks whether it has to pad: ``max((ceil(n / 2) - 1) * 2 + 3 - n, 0) > 0``.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import sympy

from opbridge.torch_compat.symbols import FloorDiv, Max, Min, Mod, PowByNatural, PythonMod

_MOST_TRIED = 100_000
_MOST_DIVIDED = 2**10  # of a float, the product of which with a size must be exact
_RELATIONS: dict[type, Callable[[int, int], bool]] = {
    sympy.Eq: operator.eq,
    sympy.Ne: operator.ne,
    sympy.Gt: operator.gt,
    sympy.Ge: operator.ge,
    sympy.Lt: operator.lt,
    sympy.Le: operator.le,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: math.prod(factors),
    "Max": max,
    "Min": min,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "ToFloat": float,
    "Identity": lambda number: number,
}
# Functions that do not fall as the size grows.
_RISING: dict[str, Callable[..., Any]] = {
    "OpaqueUnaryFn_log": math.log,
    "OpaqueUnaryFn_log2": math.log2,
    "OpaqueUnaryFn_sqrt": math.sqrt,
}
_ROUNDING: dict[str, Callable[..., Any]] = {
    "CeilToInt": math.ceil,
    "FloorToInt": math.floor,
    "TruncToInt": math.trunc,
    "RoundToInt": round,
}
_FUNCTIONS.update(_ROUNDING)
_FUNCTIONS.update(_RISING)


_QUOTIENT = sympy.Dummy(integer=True)  # one for all, by which answers are found again
Wanted = tuple[Any, bool]  # a condition, and the answer that it is to have


def is_decided(asked: Any, truth: bool, least: int, most: int | None) -> bool:
    """Whether the condition ``asked`` on one size from ``least`` to ``most`` is always ``truth``. False if unknown."""
    return are_impossible(((asked, not truth),), least, most)


def are_impossible(wanted: Sequence[Wanted], least: int, most: int | None) -> bool:
    """Whether no size from ``least`` to ``most`` gives all conditions on it the wanted answers. False if unknown."""
    if any(type(asked) not in _RELATIONS or len(asked.free_symbols) != 1 for asked, _ in wanted):
        return False
    wanted, least, most = _of_quotient_alone(wanted, least, most)
    count = _count_to_try([asked.lhs - asked.rhs for asked, _ in wanted])
    if count is None:
        return any(_is_above(asked, truth, least, most) for asked, truth in wanted)
    last = least + count if most is None else min(least + count, most)
    return last - least < _MOST_TRIED and _are_never(tuple(wanted), least, last)


def _of_quotient_alone(
    wanted: Sequence[Wanted], least: int, most: int | None
) -> tuple[Sequence[Wanted], int, int | None]:
    """The same conditions and limits of ``k`` where a size ``n`` is in the conditions only as ``k = (n - 1) // 32``:
    fewer sizes need to be tried."""
    quotients = {each for asked, _ in wanted for each in asked.atoms(FloorDiv) if _is_simple(each)}
    if len(quotients) == 1:
        quotient = quotients.pop()
        replaced = [(asked.xreplace({quotient: _QUOTIENT}), truth) for asked, truth in wanted]
        if all(type(asked) in _RELATIONS and asked.free_symbols == {_QUOTIENT} for asked, _ in replaced):
            value = _function_of(quotient)
            return replaced, value(least), None if most is None else value(most)
    return wanted, least, most


def _is_simple(quotient: Any) -> bool:
    """Whether it is the quotient of a size, or of a size and a number, and a number."""
    dividend, divisor = quotient.args
    rest = dividend - next(iter(dividend.free_symbols), 0)
    return bool(divisor.is_Integer and divisor > 0 and rest.is_Integer)


# For which answers of a relation the difference of its sides is below 0, or at most 0.
_BELOW = {(sympy.Ge, False), (sympy.Lt, True), (sympy.Gt, False), (sympy.Le, True)}


def _is_above(asked: Any, truth: bool, least: int, most: int | None) -> bool:
    """Whether ``asked`` has another answer than ``truth`` from the size ``least`` on, as ``ceil(log2(n)) < 0`` and
    ``2 ** ceil(log2(n)) < n``."""
    difference = asked.lhs - asked.rhs
    if (type(asked), truth) not in _BELOW or least < 1:
        return False
    if _is_rising(difference):
        return _answers(asked)(least) != truth
    bound = sympy.Add(*map(_without_power, sympy.Add.make_args(difference)))
    return bound != difference and are_impossible(((type(asked)(bound, 0, evaluate=False), truth),), least, most)


def _without_power(term: Any) -> Any:
    """The number ``n`` for the next power of 2, ``2 ** ceil(log2(n))``, which is at least that; others as they are."""
    is_next = isinstance(term, PowByNatural) and term.args[0] == 2 and type(term.args[1]).__name__ == "CeilToInt"
    size = size_of_log2(term.args[1]) if is_next else None
    return term if size is None else size


def size_of_log2(rounded: Any) -> Any:
    """The number ``n`` for ``log2(n)`` that is rounded up or down; None for others."""
    size = rounded if type(rounded).__name__ in ("CeilToInt", "FloorToInt", "TruncToInt") else None
    for name in ("OpaqueUnaryFn_log2", "ToFloat"):
        size = size.args[0] if size is not None and type(size.args[0]).__name__ == name else None
    return None if size is None else size.args[0]


def _is_rising(expr: Any) -> bool:
    """Whether the expression is a number, or a function of one size that does not fall as the size grows."""
    if expr.is_Mul and len(expr.args) == 2:
        return bool(expr.args[0].is_Integer and expr.args[0] > 0 and _is_rising(expr.args[1]))
    name = type(expr).__name__
    known = name in _ROUNDING or name in _RISING or name == "ToFloat" or expr.is_Add
    return bool(expr.is_Symbol or expr.is_Integer or (known and all(map(_is_rising, expr.args))))


@functools.lru_cache(maxsize=1024)
def _are_never(wanted: tuple[Wanted, ...], first: int, last: int) -> bool:
    conditions = [(_answers(asked), truth) for asked, truth in wanted]
    return not any(all(answer(size) == truth for answer, truth in conditions) for size in range(first, last + 1))


def _answers(asked: Any) -> Callable[[int], bool]:
    """The answer of a condition for a size."""
    difference, compare = _function_of(asked.lhs - asked.rhs), _RELATIONS[type(asked)]
    return lambda size: compare(difference(size), 0)


def _function_of(expr: Any) -> Callable[[int], Any]:
    """The value of an expression that has a form, as Python computes it."""
    if expr.is_Symbol:
        return lambda size: size
    if expr.is_number:
        number = int(expr) if expr.is_Integer else float(expr)
        return lambda size: number
    operands, function = list(map(_function_of, expr.args)), _FUNCTIONS[type(expr).__name__]
    return lambda size: function(*[operand(size) for operand in operands])


@dataclass(frozen=True)
class _Form:
    """The period of an expression, how far it may be from a linear function, and whether that has a slope: an
    expression without one only repeats itself from some size on."""

    period: int
    reach: int
    slopes: bool


def _count_to_try(differences: Sequence[Any]) -> int | None:
    """After how many sizes the signs of the differences only repeat; None if it is not known.

    Along the residues of a period, the product of all divisors, a difference is linear from some size on. Its slope
    is a multiple of 1 / period, and it stays within ``reach`` of that line, so two lines that cross do so below
    2 * reach * period. Each Max or Min in it has such a size too.
    """
    forms = [(_form_of(difference), difference) for difference in differences]
    known = [form for form, _ in forms if form is not None]
    until_one_sign = [_count_to_one_sign(difference) for form, difference in forms if form is None]
    counts = [count for count in until_one_sign if count is not None]
    if len(counts) < len(until_one_sign):
        return None
    repeated = 4 * math.lcm(*(form.period for form in known)) * (max((form.reach for form in known), default=0) + 2)
    return repeated + max(counts, default=0)


def _count_to_one_sign(difference: Any) -> int | None:
    """After how many sizes a difference keeps its sign, as that of ``int(0.6 * n)`` and ``n`` does; None if unknown."""
    line = _line_of(difference)
    slope = 0 if line is None else abs(line.slope) - _ROUNDED
    return None if line is None or slope <= 0 else math.ceil(line.reach / slope) + 1


_ROUNDED = Fraction(1, 2**30)  # more than what the rounding of doubles changes a slope by


@dataclass(frozen=True)
class _Line:
    """A linear function of the size, and how far an expression may be from it."""

    slope: Fraction
    reach: Fraction

    def times(self, factor: Fraction) -> _Line:
        return _Line(self.slope * factor, self.reach * abs(factor))


def _line_of(expr: Any) -> _Line | None:
    """The line of an expression; None if it has none."""
    name = type(expr).__name__
    if expr.is_Rational or expr.is_Float:
        return _Line(Fraction(0), abs(Fraction(float(expr))))
    if expr.is_Symbol:
        return _Line(Fraction(1), Fraction(0))
    if name in ("ToFloat", "Identity"):
        return _line_of(expr.args[0])
    if name in _ROUNDING:
        line = _line_of(expr.args[0])
        return line and replace(line, reach=line.reach + 1)
    if name in ("IntTrueDiv", "FloatTrueDiv", "FloorDiv"):
        line, divisor = _line_of(expr.args[0]), expr.args[1]
        quotient = line.times(1 / Fraction(float(divisor))) if line and divisor.is_number and divisor != 0 else None
        return quotient and replace(quotient, reach=quotient.reach + 1)
    if expr.is_Mul and len(expr.args) == 2 and expr.args[0].is_number:
        line = _line_of(expr.args[1])
        return line and line.times(Fraction(float(expr.args[0])))
    if not expr.is_Add:
        return None
    lines = [line for line in map(_line_of, expr.args) if line is not None]
    if len(lines) < len(expr.args):
        return None
    return _Line(sum((line.slope for line in lines), Fraction(0)), sum((line.reach for line in lines), Fraction(0)))


def _form_of(expr: Any) -> _Form | None:
    """The form of an expression; None if it has none."""
    if expr.is_Integer:
        return _Form(1, abs(int(expr)), False)
    if expr.is_Symbol:
        return _Form(1, 0, True)
    kind = type(expr)
    if kind.__name__ in _ROUNDING:
        quotient = _exact_quotient(expr.args[0])
        form = _of_quotient(*quotient) if quotient else None
        # Half of an odd number is rounded to an even one: up or down in turn.
        return form and replace(form, period=form.period * (2 if kind.__name__ == "RoundToInt" else 1))
    if kind in (FloorDiv, Mod, PythonMod):
        form = _of_quotient(*expr.args)
        return form and replace(form, slopes=form.slopes and kind is FloorDiv)
    if expr.is_Mul and len(expr.args) == 2 and expr.args[0].is_Integer:
        form = _form_of(expr.args[1])
        return form and replace(form, reach=abs(int(expr.args[0])) * form.reach)
    if not expr.is_Add and kind not in (Max, Min):
        return None
    forms = list(map(_form_of, expr.args))
    known = [form for form in forms if form is not None]
    if len(known) < len(forms):
        return None
    period, reach = math.lcm(*(form.period for form in known)), sum(form.reach for form in known)
    return _Form(period, reach, any(form.slopes for form in known))


def _of_quotient(dividend: Any, divisor: Any) -> _Form | None:
    form = _form_of(dividend)
    if form is None or not divisor.is_Integer or divisor < 1:
        return None
    return _Form(form.period * (int(divisor) if form.slopes else 1), form.reach + int(divisor), form.slopes)


def _exact_quotient(expr: Any) -> tuple[Any, Any] | None:
    """The dividend and the divisor of a floating-point number that rounding does not move across an integer or the
    middle between two: ``n / 3``, ``n / 3.0``, ``0.75 * n``."""
    kind, args = type(expr).__name__, expr.args
    if kind == "IntTrueDiv":
        return args[0], args[1]
    if kind == "FloatTrueDiv" and _is_float_of_size(args[0]) and args[1].is_number and float(args[1]).is_integer():
        return args[0].args[0], sympy.Integer(int(args[1]))
    if kind == "Mul" and len(args) == 2 and args[0].is_number and _is_float_of_size(args[1]):
        factor = Fraction(float(args[0]))
        if max(abs(factor.numerator), factor.denominator) <= _MOST_DIVIDED:
            return factor.numerator * args[1].args[0], sympy.Integer(factor.denominator)
    return (expr.args[0], sympy.Integer(1)) if _is_float_of_size(expr) else None


def _is_float_of_size(expr: Any) -> bool:
    return type(expr).__name__ == "ToFloat"


def truth_of_elements(asked: Any) -> bool | None:
    """The answer of a condition for all tensors that have elements, as False for ``6 * n == 0``; None if it depends.

    torch has a way of its own for tensors without elements, where its operators often need none: the other way has the
    same results.
    """
    positive = {symbol: sympy.Dummy(integer=True, positive=True) for symbol in asked.free_symbols}
    truth = asked.xreplace(positive)
    return bool(truth) if truth in (sympy.true, sympy.false) else None
