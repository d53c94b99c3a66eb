"""How much longer the steps of a loop make a tensor.

Each adds as much, or a part of an axis of ``n``: what is left of it before the step, ``Max(0, n - 3 * t)``, less what
is left after it. The sum of all steps is then known, by which the parts of an axis have its size again when they are
concatenated.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch

from opbridge.capture.symbolic_sizes.bounds import is_bounded_by_zero, never_negative
from opbridge.torch_compat.symbols import Max, Min, expression_of

_STEP = sympy.Symbol("step", integer=True, nonnegative=True)


class Growth:
    """By how much the step with the ``number`` makes a tensor longer along an axis. Equal growths are equal in each
    step."""

    def __init__(self, by: Any, number: torch.SymInt, known: frozenset[Any]) -> None:
        """Raises ValueError if the sum of such steps is not known, in terms of the symbols ``known``."""
        self._env: Any = number.node.shape_env
        self.by = sympy.sympify(expression_of(by)).xreplace({number.node.expr: _STEP})
        if not self.by.free_symbols - {_STEP} <= known:
            raise ValueError
        self._same, self._parts = _parted(self.by, self._env, number.node.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Growth) and self.by == other.by

    def __hash__(self) -> int:
        return hash(self.by)

    def after(self, steps: torch.SymInt) -> Any:
        """The sum of the first ``steps``."""
        total = self._made(self._same * steps.node.expr)
        for factor, left in self._parts:
            first, last = (left.xreplace({_STEP: number}) for number in (sympy.Integer(0), steps.node.expr))
            total = total + self._made(factor) * (self._none_below(first) - self._none_below(last))
        return total

    def _none_below(self, expr: Any) -> Any:
        """``Max(0, expr)``."""
        if is_bounded_by_zero(-expr, self._env):
            return 0
        return self._made(expr if is_bounded_by_zero(expr, self._env) else Max(0, expr))

    def _made(self, expr: Any) -> Any:
        return self._env.create_symintnode(expr, hint=None)


def _parted(size: Any, env: Any, number: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """What is the same in each step, the ``number`` of which is known to be in range, and the parts of axes with their
    factors, which add up to ``size``. Raises ValueError if there are others."""
    if not size.has(_STEP):
        return size, []
    left = _left_before_step(size, env, number)
    if left is not None:
        return sympy.Integer(0), [(sympy.Integer(1), left)]
    factor, rest = size.primitive()
    if factor == 1 and size.is_Add:
        terms = _parts_in(size)
        if size in terms:
            raise ValueError
        parted = [_parted(term, env, number) for term in terms]
        return sum(same for same, _ in parted), [part for _, parts in parted for part in parts]
    if factor == 1:
        factor, rest = size.as_independent(_STEP, as_Add=False)
    if factor == 1:
        raise ValueError
    same, parts = _parted(rest, env, number)
    return factor * same, [(factor * other, left) for other, left in parts]


def _parts_in(size: Any) -> list[Any]:
    """The terms of a sum, those of ``Min(n, 2 * t + 2) - 2 * t``, the size of a part that is not empty, as one."""
    terms, rest = [], size
    for term in size.args:
        factor, least = term.as_independent(_STEP, as_Add=False)
        slopes = [slope for each in least.args if (slope := each.coeff(_STEP)) != 0] if isinstance(least, Min) else []
        if len(slopes) == 1:
            terms.append(factor * (least - slopes[0] * _STEP))
            rest = rest - terms[-1]
    return [*terms, *sympy.Add.make_args(sympy.expand(rest))]


def _left_before_step(size: Any, env: Any, number: Any) -> Any:
    """What is left of an axis, an expression that may be negative, if ``size`` is that of its part; otherwise None. It
    is not if ``size`` may be negative."""
    if isinstance(size, Max) and size.args[0] == 0 and len(size.args) == 2:
        size, is_natural = size.args[1], True
    else:
        is_natural = never_negative(size.xreplace({_STEP: number}), env)
    least = next((term for term in sympy.Add.make_args(size) if isinstance(term, Min)), None)
    if least is None:
        return None
    rest = size - least
    if isinstance(-rest, Min):  # an end less a start, both within the axis
        within = set(least.args) & set((-rest).args)
        ends, starts = set(least.args) - within, set((-rest).args) - within
        if len(ends) != 1 or len(starts) != 1 or any(each.has(_STEP) for each in within):
            return None
        end, start = *ends, *starts
        follow = sympy.expand(_in_next_step(start) - end) == 0 and is_bounded_by_zero(sympy.expand(end - start), env)
        return Min(*within) - start if follow else None
    if not is_natural:
        return None
    # the least of what is left and of a number by which that becomes less with each step
    operands = [sympy.expand(rest + each) for each in least.args]
    numbers = [each for each in operands if not each.has(_STEP)]
    left = [each for each in operands if each.has(_STEP)]
    if len(numbers) != 1 or not is_bounded_by_zero(numbers[0], env):
        return None
    follow = all(sympy.expand(_in_next_step(each) - each + numbers[0]) == 0 for each in left)
    return Min(*left) if follow else None


def _in_next_step(expr: Any) -> Any:
    return expr.xreplace({_STEP: _STEP + 1})
