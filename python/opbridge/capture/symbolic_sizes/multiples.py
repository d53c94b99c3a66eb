"""Quotients of sizes that are rounded, and minima and maxima of which one operand is always the least or greatest.

Networks pad images to a multiple in each stage, and divide by it. In ``(x + (k - x % k) % k) // k`` the size ``x``
occurs twice, so the expressions of sizes would double in each stage, and torch's reasoning about them take minutes.
``(x + k - 1) // k`` is the same. The padded size itself keeps its form, which shows that it is not less than ``x``: a
tensor that is cropped to ``x`` has that size.

The number of images is the number of windows divided by those of an image, ``windows.shape[0] // (h * w // k // k)``
with ``h`` and ``w`` padded, or with ``/`` throughout: where no division leaves a remainder, it is one symbol or number.

"Same" padding does this by ``max((ceil(x / 2) - 1) * 2 + 3 - x, 0)`` before each convolution, in which ``x`` occurs
twice too. ``ceil(x / k)`` is ``(x + k - 1) // k``, and ``floor((x - 3) / k + 1)``, the number of windows, is
``(x - 3 + k) // k``. The maximum of what is always greater is that. So is the minimum of what is always less: torch
takes the minimum of an index and the size of the axis, and could not tell otherwise that ``x[start : start + 8]`` has 8
elements.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import sympy

from opbridge.capture.patching import patch
from opbridge.torch_compat.lookup import PatchPoint
from opbridge.torch_compat.symbols import (
    CEIL_OF_SYMBOL,
    FLOOR_OF_SYMBOL,
    INTEGER_DIVISION,
    MAXIMUM_OF_SYMBOLS,
    MINIMUM_OF_SYMBOLS,
    TRUNC_OF_SYMBOL,
    FloatTrueDiv,
    FloorDiv,
    IntTrueDiv,
    Mod,
    PythonMod,
    ToFloat,
    get_proxy_mode,
    with_expression,
)

REMAINDERS = (Mod, PythonMod)


@contextlib.contextmanager
def shorten_expressions(is_natural: Callable[[Any, Any], bool]) -> Iterator[None]:
    """Divides sizes that are rounded up to a multiple in the form in which ``x`` occurs once; rounds quotients
    without floating-point numbers; leaves out the smaller operand of a maximum and the greater one of a minimum.
    ``is_natural`` tells of an expression of a ShapeEnv whether it is certainly never negative."""
    original = INTEGER_DIVISION.original
    maximum, minimum = MAXIMUM_OF_SYMBOLS.original, MINIMUM_OF_SYMBOLS.original

    def divide(self: Any, other: Any) -> Any:
        if get_proxy_mode() is None:
            self, other = shorten(self), shorten(other)
        return original(self, other)

    def shorten(node: Any) -> Any:
        short = simplify_multiple(node.expr)
        return node if short is node.expr else with_expression(node, short)

    def by_integers(rounding: PatchPoint, sum_of: Callable[[Any, Any, Any], Any]) -> Any:
        """Divides the integers that ``sum_of`` makes of dividend and divisor in a ShapeEnv; None leaves the rounding to
        torch."""
        by_torch = rounding.original

        def rounded(self: Any) -> Any:
            if get_proxy_mode() is None:
                if found := quotient(self.expr):
                    dividend, divisor = found
                    if (whole := sum_of(dividend, divisor, self.shape_env)) is not None:
                        return with_expression(by_torch(self), FloorDiv(whole, divisor))
                elif (whole := without_remainder(self.expr)) is not None:
                    return with_expression(by_torch(self), whole)
            return by_torch(self)

        return patch(rounding, rounded)

    def unless_negative(dividend: Any, _: Any, env: Any) -> Any:
        return dividend if is_natural(dividend, env) else None

    def in_order(one: Any, other: Any) -> tuple[Any, Any] | None:
        """The operand that is never greater than the other one, and that; None if both may be."""
        if get_proxy_mode() is None:
            for less, more in ((one, other), (other, one)):
                if is_natural(more.expr - less.expr, less.shape_env):
                    return less, more
        return None

    def greater(self: Any, other: Any) -> Any:
        ordered = in_order(self, other)
        return maximum(self, other) if ordered is None else ordered[1]

    def lesser(self: Any, other: Any) -> Any:
        ordered = in_order(self, other)
        return minimum(self, other) if ordered is None else ordered[0]

    with (
        patch(INTEGER_DIVISION, divide),
        by_integers(CEIL_OF_SYMBOL, lambda dividend, divisor, _: dividend + divisor - 1),
        by_integers(FLOOR_OF_SYMBOL, lambda dividend, *_: dividend),
        by_integers(TRUNC_OF_SYMBOL, unless_negative),
        patch(MAXIMUM_OF_SYMBOLS, greater),
        patch(MINIMUM_OF_SYMBOLS, lesser),
    ):
        yield


def quotient(expr: Any) -> tuple[Any, Any] | None:
    """The integers whose quotient ``expr`` is, for ``x / k`` and ``x / k + 1``. Sizes are far below 2^51, up to which
    the sum of floating-point numbers is rounded to the same integer."""
    quotients = [term for term in sympy.Add.make_args(expr) if isinstance(term, IntTrueDiv)]
    if len(quotients) != 1:
        return None
    dividend, divisor = quotients[0].args
    offset = expr - quotients[0]
    if not (divisor.is_Integer and divisor > 0 and offset.is_number and float(offset).is_integer()):
        return None
    return dividend + int(offset) * divisor, divisor


def without_remainder(expr: Any) -> Any | None:
    """What divisions give that leave no remainder, such as ``2 * n / (m / 4 / 6)`` where ``m`` is ``24 * n``; None for
    others."""
    if isinstance(expr, ToFloat):
        return without_remainder(expr.args[0])
    if isinstance(expr, (IntTrueDiv, FloatTrueDiv)):
        dividend, divisor = map(without_remainder, expr.args)
        if dividend is None or divisor is None:
            return None
        ratio = sympy.cancel(dividend / divisor)
        return ratio if ratio.is_integer else None
    if expr.is_Float and float(expr).is_integer():
        return sympy.Integer(int(expr))
    return simplify_multiple(expr) if expr.is_integer else None


def simplify_multiple(size: Any) -> Any:
    """``k * ((x + k - 1) // k)`` for ``x + (k - x % k) % k`` and ``x + -x % k``, also for each factor of a product, as
    in the area of a padded image; other expressions as they are."""
    content, product = size.as_content_primitive()
    factors = sympy.Mul.make_args(product)
    short = [_rounded_up(factor) for factor in factors]
    if all(map(operator.is_, short, factors)):
        return size
    # With all integers in front, what they have in common with a divisor is found.
    return sympy.Mul(content, *sympy.Mul(*short).as_content_primitive())


def _rounded_up(size: Any) -> Any:
    """The same of a sum; also ``k * (x // k)`` for ``x - x % k``."""
    for term in size.args if isinstance(size, sympy.Add) else ():
        is_added = isinstance(term, REMAINDERS)
        remainder = term if is_added else -term
        if not isinstance(remainder, REMAINDERS) or not remainder.args[1].is_Integer or remainder.args[1] <= 0:
            continue
        rounded, (dividend, multiple) = size - term, remainder.args
        # Padding is (over - rounded) % multiple, and what is cut is (rounded - over) % multiple.
        without = _without_remainders(dividend, multiple)
        over = sympy.expand(rounded + without if is_added else rounded - without)
        if over.is_Integer:
            least = over % multiple
            up = multiple - 1 if is_added else 0
            return multiple * FloorDiv(rounded - least + up, multiple) + least
    return size


def with_least_dividends(size: Any) -> Any:
    """``(x + k - 1) // k - 1`` for ``(x - 1) // k`` and for ``-1 - -x // k``, and so for all quotients and remainders:
    sizes that are rounded to the same multiple have the same form."""

    def quotient_of(above: Any, divisor: Any) -> Any:
        if not divisor.is_Integer or divisor <= 0:
            return FloorDiv(above, divisor)
        offset, rest = above.as_coeff_Add()
        if not offset.is_Integer:
            return FloorDiv(above, divisor)
        if rest.could_extract_minus_sign():
            return -quotient_of(divisor - 1 - above, divisor)
        return FloorDiv(rest + offset % divisor, divisor) + offset // divisor

    def remainder_of(kind: Any) -> Callable[[Any, Any], Any]:
        def remainder(above: Any, divisor: Any) -> Any:
            is_number = divisor.is_Integer and divisor > 0
            return above - divisor * FloorDiv(above, divisor) if is_number else kind(above, divisor)

        return remainder

    for kind in REMAINDERS:
        size = size.replace(kind, remainder_of(kind))
    return sympy.expand(sympy.expand(size).replace(FloorDiv, quotient_of))


def ratio(size: Any, part: Any) -> int | None:
    """``size / part`` if it is the same natural number for all sizes."""
    number = sympy.cancel(with_least_dividends(size) / with_least_dividends(part))
    return int(number) if number.is_Integer and number > 0 else None


def is_always_quotient(expr: Any, number: int) -> bool:
    """Whether ``expr`` is ``number`` times a size, divided by that size and rounded up, as ``(3 * n - 1) // n`` is for
    2: so many pieces ``chunk(2)`` makes of ``2 * n`` elements."""
    if not isinstance(expr, FloorDiv):
        return False
    above, size = expr.args
    return bool(sympy.expand(above - (number + 1) * size) == -1)


def _without_remainders(expr: Any, divisor: Any) -> Any:
    """An expression with the same remainder, with ``x`` for terms ``x % divisor``."""
    terms = sympy.Add.make_args(expr)
    return sympy.Add(*(_dividend(term, divisor) for term in terms))


def _dividend(term: Any, divisor: Any) -> Any:
    factor, rest = term.as_coeff_Mul()
    if factor.is_Integer and isinstance(rest, (Mod, PythonMod)) and rest.args[1] == divisor:
        return factor * rest.args[0]
    return term
