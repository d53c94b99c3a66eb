"""Bounds of sizes that are linear in others, in their quotients, minima and maxima.

In a quotient, ``n`` is known up to its remainder. The number of a loop's step is below the number of steps, by which
``x[:, t : t + 1]`` has one column; torch does not know that.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

import sympy
import torch

from opbridge.capture.symbolic_sizes.decided import size_of_log2
from opbridge.capture.symbolic_sizes.multiples import REMAINDERS, with_least_dividends
from opbridge.torch_compat.symbols import FloorDiv, Max, Min, PowByNatural, always

_MOST_BOUNDS = 32
# The greatest values of symbols, as expressions of others.
_greatest: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def note_step(number: torch.SymInt, count: torch.SymInt) -> None:
    """Notes that ``number`` is that of a step of a loop with ``count`` steps. Where there is a step, a count of
    ``Max(0, n)`` is ``n``. torch cannot be told: it would infer that there is a step."""
    expr = count.node.expr
    if isinstance(expr, Max):
        possible = [each for each in expr.args if not (each.is_Integer and each <= 0)]
        expr = Max(*possible)
    _greatest.setdefault(number.node.shape_env, {})[number.node.expr] = expr - 1


def note_greatest(number: torch.SymInt, greatest: torch.SymInt) -> None:
    """Notes that ``number``, of a step of a loop, is never more than ``greatest``."""
    _greatest.setdefault(number.node.shape_env, {})[number.node.expr] = greatest.node.expr


def is_never_negative(number: Any) -> bool:
    """Whether a number that is linear in sizes, their quotients, minima and maxima is certainly at least 0."""
    if not isinstance(number, torch.SymInt):
        return bool(number >= 0)
    return never_negative(number.node.expr, number.node.shape_env)


def never_negative(expr: Any, env: Any) -> bool:
    """The same of an expression of ``env``."""
    return _is_never_negative(expr, env) or (
        expr.has(*REMAINDERS) and _is_never_negative(with_least_dividends(expr), env)
    )


def is_positive(size: Any) -> bool:
    """Whether a size is certainly at least 1, as one that is padded and never less than another that is."""
    if type(size) is int:
        return True
    env, expr = size.node.shape_env, size.node.expr
    if always(env, expr >= 1) is not None:
        return True
    return any(always(env, each >= 1) is not None and never_negative(expr - each, env) for each in expr.free_symbols)


def is_bounded_by_zero(expr: Any, env: Any) -> bool:
    """The same of one that has no minima or maxima outside of quotients."""
    return any(
        _least(bound, env) > -1  # the number is an integer
        for form in (expr, _in_last_steps(expr, env))
        if form is not None
        for bound in itertools.islice(_bounds(form, env, below=True), _MOST_BOUNDS)
    )


def _in_last_steps(expr: Any, env: Any) -> Any:
    """The expression, not above ``expr``, with the greatest numbers of steps where it falls with them; None if it does
    not."""
    fallen = None
    numbers, symbols = _greatest.get(env, {}), expr.free_symbols
    for number, greatest in reversed(numbers.items()):  # from the innermost loop to those around it
        if number in symbols:
            expr = sympy.expand(expr)
            factor = expr.coeff(number)
            rest = expr - factor * number
            if factor != 0 and number not in rest.free_symbols and is_bounded_by_zero(-factor, env):
                fallen = expr = sympy.expand(rest + factor * greatest)
                symbols = expr.free_symbols
    return fallen


def answer_in_step(relation: Any, env: Any) -> bool | None:
    """The answer to a relation of integers that holds in each step of a loop, as that its part of an axis is not empty;
    None if there is none, or the relation is not of the number of a step."""
    numbers = _greatest.get(env, {})
    if not isinstance(relation, sympy.core.relational.Relational) or relation.free_symbols.isdisjoint(numbers):
        return None
    if not all(side.is_integer for side in relation.args):
        return None
    difference = relation.lhs - relation.rhs
    at_least, at_most = _is_never_negative(difference, env), _is_never_negative(-difference, env)
    above, below = _is_never_negative(difference - 1, env), _is_never_negative(-difference - 1, env)
    match relation:
        case sympy.Eq() | sympy.Ne():
            return isinstance(relation, sympy.Ne) if above or below else None
        case sympy.Gt() | sympy.Le():
            return isinstance(relation, sympy.Gt) == above if above or at_most else None
        case sympy.Ge() | sympy.Lt():
            return isinstance(relation, sympy.Ge) == at_least if at_least or below else None
    return None


def are_equal_if(size: Any, other: Any, asked: Any, answer: bool, env: Any) -> bool:
    """Whether two sizes are equal wherever the relation ``asked`` has this answer, as that of what is padded to ``k``
    if it is less than ``k``, and never more."""
    natural = [sympy.Integer(0), *_natural_numbers(asked if answer else sympy.Not(asked))]
    differences = sympy.sympify(size - other), sympy.sympify(other - size)
    return all(any(_is_never_negative(each - known, env) for known in natural) for each in differences)


def _natural_numbers(relation: Any) -> list[Any]:
    """What is never negative where the relation of integers holds."""
    match relation:
        case sympy.Eq(args=(left, right)):
            return [left - right, right - left]
        case sympy.Ge(args=(left, right)) | sympy.Le(args=(right, left)):
            return [left - right]
        case sympy.Gt(args=(left, right)) | sympy.Lt(args=(right, left)):
            return [left - right - 1]
    return []


def _is_never_negative(expr: Any, env: Any) -> bool:
    """The same of a sum with minima and maxima, of which each operand is taken."""
    for term in sympy.Add.make_args(expr):
        sign, extremum = (1, term) if isinstance(term, (Min, Max)) else (-1, -term)
        if isinstance(extremum, (Min, Max)):
            of_all = all if isinstance(extremum, Min) == (sign > 0) else any
            return of_all(_is_never_negative(expr - term + sign * each, env) for each in extremum.args)
    return is_bounded_by_zero(sympy.expand(expr), env)


def _bounds(expr: Any, env: Any, below: bool) -> Iterator[Any]:
    """Linear expressions, as far as possible, that are not more than ``expr``, or not less unless ``below``."""
    factor, rest = expr.as_coeff_Mul()
    if expr.is_Integer or expr.is_Symbol:
        yield expr
        if not below and (greatest := _greatest.get(env, {}).get(expr)) is not None:
            yield from _bounds(greatest, env, below)
    elif expr.is_Add:
        of_terms = (itertools.islice(_bounds(term, env, below), _MOST_BOUNDS) for term in expr.args)
        for terms in itertools.product(*of_terms):
            yield sympy.Add(*terms)
    elif factor != 1:
        yield from (factor * bound for bound in _bounds(rest, env, below == (factor > 0)))
    elif isinstance(expr, FloorDiv):
        above, divisor = expr.args
        if divisor.is_Integer and divisor > 0:
            for bound in _bounds(above, env, below):
                yield ((bound - divisor + 1) if below else bound) / divisor
        else:
            yield expr
        if below and _are_natural(above, divisor, env):
            yield sympy.Integer(0)
    elif isinstance(expr, PowByNatural) and expr.args[0] == 2:
        yield expr
        if below:
            yield sympy.Integer(1)
        else:
            for bound in _bounds(expr.args[1], env, below):
                yield from _bounds_of_power(bound)
    elif (multiple := _as_multiple(expr, env)) is not None:
        above, divisor = multiple
        yield from _bounds(above - divisor + 1 if below else above, env, below)
    elif isinstance(expr, Max if below else Min):
        for operand in expr.args:
            yield from _bounds(operand, env, below)
    elif isinstance(expr, Min) and below:
        yield min(
            max((_least(bound, env) for bound in _bounds(each, env, below)), default=-sympy.oo) for each in expr.args
        )
    else:
        yield expr  # which may cancel
        if below and expr.is_Mul and all(is_bounded_by_zero(each, env) for each in expr.args):
            yield sympy.Integer(0)


def _bounds_of_power(exponent: Any) -> Iterator[Any]:
    """What ``2 ** exponent`` is not above, where the exponent is not negative: ``n - 1`` for ``ceil(log2(n)) - 1`` and
    ``n`` for ``floor(log2(n))``."""
    offset, rounded = exponent.as_coeff_Add()
    size = size_of_log2(rounded)
    if size is not None and type(rounded).__name__ != "CeilToInt":
        yield size * sympy.Integer(2) ** offset
    elif size is not None and offset < 0:
        yield (size - 1) * sympy.Integer(2) ** (offset + 1)


def _are_natural(dividend: Any, divisor: Any, env: Any) -> bool:
    """Whether neither is negative; the divisor is not 0."""
    return is_bounded_by_zero(divisor, env) and any(
        is_bounded_by_zero(each, env) for each in (dividend, dividend - divisor + 1)
    )


def _as_multiple(expr: Any, env: Any) -> tuple[Any, Any] | None:
    """``n`` and ``k`` of ``k * (n // k)``, if ``k`` is certainly not negative; it cannot be 0."""
    if not expr.is_Mul:
        return None
    for quotient in expr.args:
        if isinstance(quotient, FloorDiv) and expr == quotient * quotient.args[1]:
            return quotient.args if is_bounded_by_zero(quotient.args[1], env) else None
    return None


def _least(linear: Any, env: Any) -> Any:
    """The least value of a linear expression of symbols in their ``ranges``."""
    ranges, least = env.var_to_range, sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand(linear)):
        factor, symbol = term.as_coeff_Mul()
        if symbol == 1:
            least += factor
        elif factor < 0 or symbol not in ranges or not ranges[symbol].lower.is_Integer:
            return -sympy.oo
        else:
            least += factor * ranges[symbol].lower
    return least
