"""The branches of a model by its dynamic sizes, and sizes for which it goes the other way."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import sympy
import torch

from opbridge.capture.memory_layout import with_sizes
from opbridge.capture.run_warnings import Location, warn_of_run_at
from opbridge.capture.source import line_text
from opbridge.capture.symbolic_sizes.bounds import answer_in_step
from opbridge.capture.symbolic_sizes.decided import are_impossible, is_decided, truth_of_elements
from opbridge.torch_compat.symbols import finite_bound, free_unbacked_symbols

if TYPE_CHECKING:
    from opbridge.capture.inputs import Inputs
    from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes

_MOST_TRIED = 3000  # combinations of sizes
_MOST_EVALUATED = 200_000  # parts of conditions, in all of these combinations
_MOST_DRAWN = 200  # combinations of sizes
_MOST_ELEMENTS = 2**26  # of an input that is made
Axis = tuple[int, int]  # the index of a leaf, and an axis of it


def _answer(condition: Any, values: Mapping[Any, Any]) -> Any:
    """The answer of a condition for given sizes; NaN where it divides by 0, as in ``n % (m // 2) == 0`` for m = 1, or
    is a remainder of a negative number, as ``(n - 3) % 2`` for n = 2, where torch knows that there is no result."""
    try:
        return condition.xreplace(values)
    except (ZeroDivisionError, AssertionError):
        return sympy.nan


def _factors_by_symbol(product: Any) -> dict[Any, Any]:
    """The factors of a product, multiplied for each symbol in them; none if one has several symbols."""
    factors: dict[Any, Any] = {}
    for factor in sympy.Mul.make_args(product):
        symbol = next(iter(factor.free_symbols), None)
        if len(factor.free_symbols) > 1:
            return {}
        factors[symbol] = factors.get(symbol, 1) * factor
    return factors


@dataclasses.dataclass(frozen=True)
class Branch:
    """A condition on sizes that the model asked. ``asked`` is its sympy expression, ``text`` the same with the user's
    names, and ``truth`` the answer for the sizes of the capture. ``is_known`` is whether torch knew the answer before.

    ``keeps_way`` is whether the other way must not be captured: the size depends on data, or the model also uses the
    answer itself. ``refusal`` is what to say if the program has this answer alone, where the example, one size of
    which is 1, has the other one.
    """

    asked: Any
    text: str
    truth: bool
    is_known: bool
    keeps_way: bool
    location: Location
    refusal: str = ""

    @property
    def answer(self) -> tuple[str, bool]:
        return self.text, self.truth

    @property
    def is_open(self) -> bool:
        """Whether the other way may be captured."""
        return not (self.keeps_way or self.is_known)

    @property
    def line(self) -> str:
        return line_text(*self.location)

    def warn(self) -> None:
        what = f"a branch by a dynamic size: whether '{self.text}' was read as {self.truth}"
        warn_of_run_at(what, self.location)


@dataclasses.dataclass(frozen=True)
class OtherSizes:
    """Inputs for which the model goes the other way of a branch. ``constant`` are the axes of each leaf whose sizes
    that way fixes, and ``symbols`` torch's symbols of these; ``zeros`` are the symbols that are 0. ``equal`` names the
    axes that have one size in that way, and ``merged`` is the symbol that is replaced by the symbol of an equal size.
    """

    inputs: Inputs
    constant: list[set[int]]
    symbols: set[Any]
    zeros: set[Any]
    equal: dict[Axis, str]
    merged: dict[Any, Any]

    def text_of(self, branch: Branch, sizes: DynamicSizes) -> str | None:
        """The text of the condition in that way; None if torch knows its answer there."""
        if branch.is_known or branch.asked.free_symbols <= self.symbols:
            return None
        asked = branch.asked.xreplace(self.merged)
        if not asked.free_symbols & self.zeros and truth_of_elements(asked) is not None:
            return None
        if asked in (sympy.true, sympy.false):
            return None
        return branch.text if asked == branch.asked else sizes.text_of(asked)


class Branches:
    """What the attempts to capture a model asked about its dynamic sizes.

    After the last attempt, which succeeded, ``sizes`` are those dynamic sizes, ``shapes`` the shapes of the leaves in
    it, and ``names`` the user's names of its symbols.
    """

    sizes: DynamicSizes
    shapes: Sequence[Sequence[int | torch.SymInt] | None] = ()  # none if no size is dynamic
    names: dict[str, str]

    def __init__(self) -> None:
        self._attempts: list[list[Branch]] = [[]]
        self._ranges: dict[Any, Any] = {}
        self._axes: dict[Any, list[Axis]] = {}
        self._equal: list[tuple[list[Axis], int | None]] = []  # axes as long as others, and the greatest size

    def begin(self) -> None:
        """Begins an attempt."""
        self._attempts.append([])

    def begin_with(self, sizes: DynamicSizes, names: dict[str, str], leaves: Sequence[Any]) -> None:
        """Notes the ranges that the sizes of ``leaves``, the inputs of the capture, have before the model asks."""
        self.sizes, self.names = sizes, names
        self._ranges = {
            symbol: env.var_to_range[symbol]
            for size, env in _symbolic([leaf.shape for leaf in leaves if isinstance(leaf, torch.Tensor)])
            for symbol in size.free_symbols
            if symbol in env.var_to_range
        }
        self._axes = _axes_by_symbol([leaf.shape if isinstance(leaf, torch.Tensor) else None for leaf in leaves])

    def note(self, branch: Branch) -> None:
        self._attempts[-1].append(branch)
        pair = _equated(branch.asked, branch.truth)
        if pair is not None and not branch.keeps_way and self._axes.keys() >= {*pair}:
            self._equal.append((self._axes[pair[1]], finite_bound(self.range_of(pair[1]).upper)))

    def unequal(self, inputs: Inputs) -> Inputs | None:
        """``inputs`` in which sizes differ that are equal there, and of which the model asked whether they are equal: a
        capture takes equal sizes for one. None if it did not ask."""
        sizes: dict[int, dict[int, int]] = {}
        for more, (axes, most) in enumerate(self._equal, 1):
            for i, axis in axes:
                size = max(inputs.leaves[i].shape[axis], 2)  # a capture takes 2 for 1
                sizes.setdefault(i, {})[axis] = size + more if most is None or size + more <= most else size - more
        made = {id(inputs.leaves[i]): with_sizes(inputs.leaves[i], axes) for i, axes in sizes.items()}
        return inputs.map_leaves(lambda leaf: made.get(id(leaf), leaf)) if made else None

    def answer_to(self, asked: Any) -> bool | None:
        """The answer that the condition had earlier in this attempt; None if it was not asked."""
        return next((branch.truth for branch in self.asked if branch.asked == asked), None)

    def is_decided(self, asked: Any, truth: bool) -> bool:
        """Whether the condition has this answer for all sizes that the inputs may have."""
        if len(asked.free_symbols) != 1:
            is_equation = truth and isinstance(asked, sympy.Eq)
            return bool(asked == sympy.sympify(truth)) or (is_equation and self._have_equal_factors(*asked.args))
        limits = self._limits_of(asked.free_symbols)
        return limits is not None and is_decided(asked, truth, *limits)

    def is_natural(self, expr: Any, env: Any) -> bool:
        """Whether an expression of the ShapeEnv is certainly never negative, in each step of a loop if it is of one."""
        asked = sympy.Ge(expr, 0)
        return self.is_decided(asked, True) or answer_in_step(asked, env) is True

    def _have_equal_factors(self, size: Any, other: Any) -> bool:
        """Whether two products have equal factors for each of the sizes in them. False if unknown."""
        factors, others = _factors_by_symbol(size), _factors_by_symbol(other)
        return (
            bool(factors)
            and factors.keys() == others.keys()
            and all(self.is_decided(sympy.Eq(factor, others[symbol]), True) for symbol, factor in factors.items())
        )

    def follows(self, fact: Any, given: Sequence[Any]) -> bool:
        """Whether ``fact`` holds for all sizes that fulfil the conditions ``given``. False if unknown."""
        if fact in (sympy.true, sympy.false) or sympy.And(*given, ~fact) == sympy.false:
            return fact is not sympy.false
        symbols = fact.free_symbols
        return self._are_never(*(each for each in given if each.free_symbols == symbols), ~fact)

    def is_never_one_below(self, size: Any, other: Any) -> bool:
        """Whether ``size`` is never 1 while ``other`` is greater. False if unknown."""
        if (multiple := size.primitive()[0]).is_Integer and multiple > 1:
            return True
        if self._are_never(sympy.Eq(size, 1), sympy.Gt(other, 1)):
            return True
        # A product of integers is 1 only if all of them are 1 or -1, and 0 if one of them is.
        pairs = itertools.product(sympy.Mul.make_args(size), sympy.Mul.make_args(other))
        return any(all(self._are_never(sympy.Eq(one, unit), sympy.Ne(by, 0)) for unit in (1, -1)) for one, by in pairs)

    def _are_never(self, *conditions: Any) -> bool:
        """Whether no size of the inputs fulfils all conditions on it. False if unknown."""
        if sympy.false in conditions:
            return True
        limits = self._limits_of(set().union(*(condition.free_symbols for condition in conditions)))
        return limits is not None and are_impossible([(condition, True) for condition in conditions], *limits)

    def are_impossible(self, wanted: Sequence[tuple[Branch, bool]]) -> bool:
        """Whether no sizes give the last condition the wanted answer, and those on the same size theirs; or whether
        the answers contradict each other."""
        if sympy.And(*(branch.asked if truth else ~branch.asked for branch, truth in wanted)) == sympy.false:
            return True
        symbols = wanted[-1][0].asked.free_symbols
        limits = self._limits_of(symbols)
        conditions = [(branch.asked, truth) for branch, truth in wanted if branch.asked.free_symbols == symbols]
        return limits is not None and are_impossible(conditions, *limits)

    def _limits_of(self, symbols: set[Any]) -> tuple[int, int | None] | None:
        """The bounds of the only one of the symbols; None if there are several, or if it is no size of the inputs."""
        known = self._ranges.get(next(iter(symbols))) if len(symbols) == 1 else None
        return None if known is None else (self._least(*symbols), finite_bound(known.upper))

    def count_ways(self, most: int) -> int:
        """How many combinations of answers the open branches have for drawn sizes: all of them, or ``most + 1``."""
        env = self.env
        conditions = [env.replace(branch.asked) for branch in self.asked if branch.is_open]
        symbols = sorted({symbol for condition in conditions for symbol in condition.free_symbols}, key=str)
        sizes = [self._sizes_near(symbol, int(env.backed_var_to_val[symbol]), set()) for symbol in symbols]
        draw, ways = random.Random(0), set()
        for _ in range(_MOST_DRAWN):
            values = {symbol: sympy.Integer(draw.choice(near)) for symbol, near in zip(symbols, sizes, strict=True)}
            ways.add(tuple(_answer(condition, values) for condition in conditions))
            if len(ways) > most:
                break
        return len(ways)

    @property
    def asked(self) -> list[Branch]:
        """The branches of the last attempt, in order."""
        return self._attempts[-1]

    def warn_of_failed_attempts(self) -> None:
        """Warns of branches that the last attempt did not ask: an earlier one may have fixed the answer, unless it
        depends on data, whose symbols are new in each attempt."""
        known = {branch.answer for branch in self.asked}
        for branch in itertools.chain.from_iterable(self._attempts[:-1]):
            if branch.answer not in known and not free_unbacked_symbols(branch.asked):
                branch.warn()

    @property
    def env(self) -> Any:
        """The ShapeEnv of the symbols; None if no size is symbolic."""
        return next((env for _, env in _symbolic(self.shapes)), None)

    def range_of(self, symbol: Any) -> Any:
        """The range that the symbol had before the model asked anything."""
        return self._ranges.get(symbol) or self.env.var_to_range[symbol]

    def fixes_more_than(self, other: Branches, constant: Sequence[set[int]], equal: Mapping[Axis, str]) -> bool:
        """Whether sizes are constants here that are dynamic in ``other``, besides those of the axes ``constant`` of
        each leaf, or one size here that are several in ``other``, besides those of the axes ``equal``. Dim.AUTO allows
        that."""
        there = {axis: symbol for symbol, axes in _axes_by_symbol(other.shapes).items() for axis in axes}
        for axes in _axes_by_symbol(self.shapes).values():
            if len({there.get(axis) for axis in axes}) > 1 and not {*axes} <= equal.keys():
                return True
        return any(
            isinstance(size, int) and isinstance(size_there, torch.SymInt) and axis not in axes
            for shape, shape_there, axes in zip(self.shapes, other.shapes, constant, strict=False)
            for axis, (size, size_there) in enumerate(zip(shape or (), shape_there or (), strict=True))
        )

    def other_sizes(self, inputs: Inputs, wanted: Sequence[tuple[Branch, bool]]) -> OtherSizes | None:
        """``inputs`` with other sizes, for which all conditions have the wanted truth; None if none are found."""
        values = self._values_for(wanted)
        if values is None:
            return None
        symbols = _fixed_by(*wanted[-1], values)
        constant: list[set[int]] = []
        made: dict[int, torch.Tensor] = {}
        for leaf, shape in zip(inputs.leaves, self.shapes, strict=True):
            symbolic = {axis: size.node.expr for axis, size in enumerate(shape or ()) if isinstance(size, torch.SymInt)}
            constant.append({axis for axis, size in symbolic.items() if size.free_symbols <= symbols})
            if not symbolic:
                continue
            sizes = {axis: int(size.xreplace(values)) for axis, size in symbolic.items()}
            if math.prod({**dict(enumerate(leaf.shape)), **sizes}.values()) > _MOST_ELEMENTS:
                return None
            made[id(leaf)] = with_sizes(leaf, sizes)
        pair = _equated(wanted[-1][0].asked, wanted[-1][1])
        axes_of = _axes_by_symbol(self.shapes)
        equal = {axis: self.names[str(pair[0])] for symbol in pair for axis in axes_of[symbol]} if pair else {}
        merged = {pair[1]: pair[0]} if pair else {}
        zeros = {symbol for symbol, size in values.items() if size == 0}
        others = inputs.map_leaves(lambda leaf: made.get(id(leaf), leaf))
        return OtherSizes(others, constant, symbols, zeros, equal, merged)

    def _values_for(self, wanted: Sequence[tuple[Branch, bool]]) -> dict[Any, Any] | None:
        env = self.env
        example = {
            symbol: env.backed_var_to_val[symbol] for size, _ in _symbolic(self.shapes) for symbol in size.free_symbols
        }
        conditions = [(env.replace(branch.asked), truth) for branch, truth in wanted]
        asked, (branch, truth) = conditions[-1][0], wanted[-1]
        symbols = sorted(asked.free_symbols, key=str)
        if not symbols or not example.keys() >= asked.free_symbols:
            return None
        # The last condition decides most often, so it is evaluated first.
        conditions.reverse()
        numbers = {int(number) for condition, _ in conditions for number in condition.atoms(sympy.Integer)}
        may_be_one = is_linear(asked) and self._least(symbols[0]) == 1
        makes_equal = _equated(branch.asked, truth) is not None
        found: dict[Any, Any] | None = None
        parts = sum(1 for condition, _ in conditions for _ in sympy.preorder_traversal(condition))
        most = min(_MOST_TRIED, _MOST_EVALUATED // parts)

        def hold(values: Mapping[Any, Any]) -> bool:
            return all(_answer(condition, values) == sympy.sympify(truth) for condition, truth in conditions)

        for changed in itertools.islice(self._candidates(symbols, example, numbers, may_be_one), most):
            if found is not None and 1 in changed.values():
                break  # a size of 1 would be a constant, but the way is also that of a greater one
            values = {symbol: sympy.Integer(value) for symbol, value in {**example, **changed}.items()}
            if not hold(values):
                continue
            if not makes_equal:
                values = self._kept_apart(values, example, example.keys() - {*symbols}, numbers, hold)
            if makes_equal or len({*values.values()}) >= len({*example.values()}):
                return values
            found = found or values
        return found

    def _kept_apart(
        self,
        values: dict[Any, Any],
        example: Mapping[Any, Any],
        others: Set[Any],
        numbers: set[int],
        hold: Callable[[Mapping[Any, Any]], bool],
    ) -> dict[Any, Any]:
        """``values``, if possible with such sizes of the symbols ``others`` that no sizes become equal by chance, which
        would be one size in the capture."""
        for symbol in sorted(others, key=str):
            if len({*values.values()}) >= len({*example.values()}):
                break
            near = self._sizes_near(symbol, int(example[symbol]), numbers)
            tried = [{**values, symbol: sympy.Integer(size)} for size in near if size not in values.values()]
            values = next(filter(hold, tried), values)
        return values

    def _candidates(
        self, symbols: Sequence[Any], example: Mapping[Any, Any], numbers: set[int], may_be_one: bool
    ) -> Iterator[dict[Any, int]]:
        """Sizes to try, the likely ones first: one symbol at a time, then all of them."""
        choices = {symbol: self._sizes_near(symbol, int(example[symbol]), numbers) for symbol in symbols}
        if may_be_one:
            choices[symbols[0]].append(1)
        for symbol in symbols:
            for size in choices[symbol]:
                yield {symbol: size}
        if len(symbols) > 1:
            for chosen in itertools.product(*(choices[symbol][:40] for symbol in symbols)):
                yield dict(zip(symbols, chosen, strict=True))

    def _sizes_near(self, symbol: Any, size: int, numbers: set[int]) -> list[int]:
        """Sizes from 2 on in the range of the symbol."""
        least, most = self._least(symbol), finite_bound(self.range_of(symbol).upper) or 2**31
        near = sorted(range(2, 2 * size + 66), key=lambda other: abs(other - size))
        special = [number + more for number in sorted(numbers) for more in (-1, 0, 1)]
        powers = [2**exponent for exponent in range(6, 17)]
        return [each for each in dict.fromkeys([*near, *special, *powers]) if max(least, 2) <= each <= most]

    def _least(self, symbol: Any) -> int:
        least = finite_bound(self.range_of(symbol).lower) or 1
        # torch's own lower bound 2 only means that it treats 0 and 1 like any other size.
        return 1 if least == 2 != self.sizes.bounds_of(self.names.get(str(symbol), ""))[0] else least


def _fixed_by(branch: Branch, truth: bool, values: Mapping[Any, Any]) -> set[Any]:
    """The symbols that a program for the wanted truth must take as constants: one that equals a number, or is 1, which
    torch does not keep symbolic."""
    symbols: set[Any] = branch.asked.free_symbols
    is_equality = isinstance(branch.asked, sympy.Eq if truth else sympy.Ne) and is_linear(branch.asked)
    return symbols if is_equality else {symbol for symbol in symbols if values.get(symbol) == 1}


def _equated(asked: Any, truth: bool) -> tuple[Any, Any] | None:
    """The symbols of the two sizes that are equal if the condition has this truth, as in ``4 * n == 4 * m``."""
    if not isinstance(asked, sympy.Eq if truth else sympy.Ne):
        return None
    (factor, one), (other_factor, other) = (side.as_coeff_Mul() for side in asked.args)
    return (one, other) if factor == other_factor and one.is_Symbol and other.is_Symbol else None


def _axes_by_symbol(shapes: Sequence[Sequence[int | torch.SymInt] | None]) -> dict[Any, list[Axis]]:
    """The axes whose sizes are symbols."""
    axes: dict[Any, list[Axis]] = {}
    for i, shape in enumerate(shapes):
        for axis, size in enumerate(shape or ()):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                axes.setdefault(size.node.expr, []).append((i, axis))
    return axes


def is_linear(condition: Any) -> bool:
    """Whether the condition compares one size with numbers, so that it holds for an interval of sizes, or for all but
    one. If that interval has 1 but not 2, the condition means that the size is 1."""
    if not isinstance(condition, sympy.core.relational.Relational) or len(condition.free_symbols) != 1:
        return False
    difference = condition.lhs - condition.rhs
    return bool(difference.is_polynomial() and sympy.degree(difference) == 1)


def _symbolic(shapes: Sequence[Sequence[int | torch.SymInt] | None]) -> Iterator[tuple[Any, Any]]:
    """The expression of each symbolic size in the shapes, and its ShapeEnv."""
    for shape in shapes:
        for size in shape or ():
            if isinstance(size, torch.SymInt):
                yield size.node.expr, size.node.shape_env
