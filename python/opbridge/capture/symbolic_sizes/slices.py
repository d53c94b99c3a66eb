"""Slices up to an index that is computed from a size.

torch asks whether the index is in range for all sizes, and for the answer it takes the quotients in it apart from the
sizes: whether ``n - n // 2`` may be negative, or more than ``n``. If it cannot tell, the length of the slice becomes
data to it.

If it cannot tell whether ``x[-2:]`` has two rows, it takes the difference of both indices for the length,
``n - Max(0, n - 2)``, in which ``n`` stands twice: the length of slices of slices doubles with each.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import sympy
import torch

from opbridge.capture.patching import patch
from opbridge.capture.symbolic_sizes.bounds import is_never_negative
from opbridge.capture.symbolic_sizes.multiples import with_least_dividends
from opbridge.torch_compat.symbols import (
    DIFFERENCE_OF_SYMBOLS,
    INDEX_OF_SLICE,
    SUM_OF_SYMBOLS,
    Max,
    Min,
    get_proxy_mode,
    with_expression,
)


def find_indices_of_slices() -> contextlib.AbstractContextManager[None]:
    """Finds indices in range where torch cannot tell."""
    original = INDEX_OF_SLICE.original

    def index_of(size: Any, index: Any) -> Any:
        found = original(size, index)
        if found is index or not is_never_negative(index):
            return found
        if is_never_negative(size - index):
            return index
        return torch.sym_min(index, size) if found is None else found

    return patch(INDEX_OF_SLICE, index_of)


@contextlib.contextmanager
def shorten_sums() -> Iterator[None]:
    """Shortens sums and differences of extrema."""
    with _shorten_differences(), _add_extrema():
        yield


def _add_extrema() -> contextlib.AbstractContextManager[None]:
    """Writes 10 for ``Max(0, 10 - n) + Min(n, 10)``, as in ``F.pad(x[:10], (0, 10 - x[:10].shape[0]))``."""
    original = SUM_OF_SYMBOLS.original

    def total(size: Any, other: Any) -> Any:
        result = original(size, other)
        if get_proxy_mode() is not None or result.pytype is not int or not isinstance(result.expr, sympy.Add):
            return result
        terms = result.expr.args
        for greatest, least in itertools.product(terms, terms):
            if isinstance(greatest, Max) and isinstance(least, Min):
                for operand in least.args:
                    both = greatest.args[0] + operand
                    if {both - each for each in greatest.args} == set(least.args):
                        return with_expression(result, result.expr - greatest - least + both)
        return result

    return patch(SUM_OF_SYMBOLS, total)


def _shorten_differences() -> contextlib.AbstractContextManager[None]:
    """Writes ``Min(n, 2)`` for ``n - Max(0, n - 2)``, and so for all extrema where it is not longer."""
    original = DIFFERENCE_OF_SYMBOLS.original

    def difference(size: Any, index: Any) -> Any:
        result = original(size, index)
        if get_proxy_mode() is not None or result.pytype is not int or not isinstance(index.expr, (Max, Min)):
            return result  # differences of floating-point numbers would be rounded otherwise
        extremum = Min if isinstance(index.expr, Max) else Max
        other = extremum(*(size.expr - operand for operand in index.expr.args))
        return with_expression(result, other) if other.count_ops() <= result.expr.count_ops() else result

    return patch(DIFFERENCE_OF_SYMBOLS, difference)


def are_always_equal(size: Any, other: Any) -> bool:
    """Whether two sizes are the same, as those of ``x[2:]`` and ``x[:-2]``: torch writes ``n - Min(2, n)`` for one and
    ``Max(0, n - 2)`` for the other; or those of an image that is padded to a multiple and of its convolution."""
    return any(form(size) == form(other) for form in (_without_differences, with_least_dividends))


def _without_differences(size: Any) -> Any:
    """``Max(n - 2, 0)`` for ``n - Min(2, n)``."""
    if isinstance(size, (Max, Min)):
        return size.func(*map(_without_differences, size.args))
    for term in sympy.Add.make_args(size):
        if isinstance(-term, Min):
            return Max(*(_without_differences(size - term - least) for least in (-term).args))
    return size
