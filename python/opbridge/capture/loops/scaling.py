"""Numbers that the steps of a loop multiply or divide, as ``d *= 2`` while ``d < n``.

How many steps there are is read from a table of the powers that a size can be compared with, which is exact where a
logarithm would be rounded. A step knows that its number is between the first one and the bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.symbolic_sizes.bounds import note_greatest
from opbridge.capture.torchscript.branches import size_in
from opbridge.capture.torchscript.loops import fixed
from opbridge.torch_compat import check

_MOST = 2**62  # of a bound
_GROWING = frozenset({"Mult", "LShift"})
_SHIFTS = frozenset({"LShift", "RShift"})


class ScaledNumbers:
    """``count`` numbers, a symbol: ``start`` times the powers of ``factor`` up to the size ``bound``."""

    def __init__(self, start: int, factor: int, bound: torch.SymInt) -> None:
        self._bound = bound
        numbers = (start * factor**i for i in itertools.count())
        self._numbers = [*itertools.takewhile(lambda number: number < _MOST, numbers)]
        self._table = torch.tensor([*self._numbers, 2 * _MOST - 1])
        self.count: torch.SymInt = size_in((self._table <= _tensor(bound)).sum())

    def get(self, index: Any) -> Any:
        return self._numbers[index] if type(index) is int else self._within(self.at(index))

    def end(self) -> Any:
        """The first that is above the bound."""
        above = self._bound + 1
        number = above + size_in(self.at(self.count) - _tensor(above))
        check(number >= self._numbers[0])
        return number

    def at(self, index: Any) -> torch.Tensor:
        return self._table.take(_tensor(index))

    def _within(self, value: torch.Tensor) -> Any:
        number: Any = value.item()
        check(number >= self._numbers[0])
        note_greatest(number, self._bound)
        return number


class Quotients(ScaledNumbers):
    """The size ``bound`` divided by the powers of ``factor``, down to ``least``."""

    def __init__(self, least: int, factor: int, bound: torch.SymInt) -> None:
        super().__init__(least, factor, bound)
        self._least = least

    def get(self, index: Any) -> Any:
        return self._bound if type(index) is int and index == 0 else self._within(self._quotient(index))

    def end(self) -> Any:
        return self._quotient(self.count).item()

    def _quotient(self, index: Any) -> torch.Tensor:
        return _tensor(self._bound) // (self.at(index) // self._least)


def scaled_numbers(operation: str, by: int, start: Any, distance: Callable[[Any], Any]) -> ScaledNumbers | None:
    """The values of a number that is ``start`` first, and that the operation changes ``by`` as much in each step while
    its ``distance``, which is linear, is above 0. None if their number is no symbol."""
    if operation in _SHIFTS:
        by = 1 << by if 0 < by < 62 else 0
    falls = fixed(distance(start) - distance(start + 1))
    if by < 2 or type(falls) is not int:
        return None
    if operation in _GROWING:
        if type(start) is not int or start < 1 or falls < 1:
            return None
        bound = fixed((distance(start) - 1) // falls + start)
        return ScaledNumbers(start, by, bound) if type(bound) is torch.SymInt else None
    least = fixed(start - distance(start) + 1)
    if type(start) is not torch.SymInt or type(least) is not int or least < 1 or falls != -1:
        return None
    return Quotients(least, by, start)


def _tensor(number: Any) -> torch.Tensor:
    return torch.scalar_tensor(number, dtype=torch.int64)
