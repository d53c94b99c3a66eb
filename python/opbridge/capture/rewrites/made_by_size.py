"""Functions of torch that make a tensor from a size, for sizes that are symbolic.

torch's functions take a Python number, so a dynamic size would be fixed to the example's. These compute the same,
element by element, in the same order of operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from opbridge.capture.rewrites.dynamic_windows import by_sizes
from opbridge.capture.rewrites.replaced_functions import Replacements

Function = Callable[..., Any]


def _for_symbols(original: Function) -> Callable[[Function], tuple[Function, Function]]:
    """Pairs ``original`` with a function that calls the decorated one if one of its arguments is a symbolic size."""

    def pair(symbolic: Function) -> tuple[Function, Function]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            is_symbolic = any(isinstance(value, torch.SymInt) for value in (*args, *kwargs.values()))
            return (symbolic if is_symbolic else original)(*args, **kwargs)

        return original, call

    return pair


def _window(size: Any, periodic: bool, values: Callable[[torch.Tensor, Any], torch.Tensor], options: Any) -> Any:
    """A window with the elements ``values(indices, steps)``; ``steps`` is the last index of a symmetric window. A
    window of one element is 1."""
    dtype = options.pop("dtype", None) or torch.get_default_dtype()
    indices = torch.arange(size, dtype=dtype, device=options.get("device"))
    steps = size if periodic else torch.sym_max(size - 1, 1)
    return torch.where(
        torch.full((), size, dtype=torch.int64) == 1, torch.ones((), dtype=dtype), values(indices, steps)
    )


@_for_symbols(torch.hamming_window)
def HAMMING(size: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any) -> Any:
    def values(indices: torch.Tensor, steps: Any) -> Any:
        return (indices * (math.pi * 2 / steps)).cos() * -beta + alpha

    return _window(size, periodic, values, options)


@_for_symbols(torch.hann_window)
def HANN(size: Any, periodic: bool = True, **options: Any) -> Any:
    return HAMMING[1](size, periodic, 0.5, 0.5, **options)


@_for_symbols(torch.blackman_window)
def BLACKMAN(size: Any, periodic: bool = True, **options: Any) -> Any:
    def values(indices: torch.Tensor, steps: Any) -> Any:
        angles = indices * (math.pi / steps)
        return (angles * 4).cos() * 0.08 - (angles * 2).cos() * 0.5 + 0.42

    return _window(size, periodic, values, options)


@_for_symbols(torch.bartlett_window)
def BARTLETT(size: Any, periodic: bool = True, **options: Any) -> Any:
    def values(indices: torch.Tensor, steps: Any) -> Any:
        rising = indices * (2.0 / steps)
        return torch.where(indices < steps // 2 + 1, rising, rising * -1 + 2)

    return _window(size, periodic, values, options)


@_for_symbols(torch.kaiser_window)
def KAISER(size: Any, periodic: bool = True, beta: float = 12.0, **options: Any) -> Any:
    def values(indices: torch.Tensor, steps: Any) -> Any:
        at_end = torch.special.i0(torch.full((), beta, dtype=indices.dtype))
        return torch.special.i0(beta * (1 - (indices * (2.0 / steps) - 1) ** 2).sqrt()) / at_end

    return _window(size, periodic, values, options)


def _indices(rows: Any, columns: Any, triangle: Function, offset: int, options: Any) -> Any:
    chosen = triangle(torch.ones((rows, columns), dtype=torch.bool, device=options.get("device")), offset)
    return chosen.nonzero().t().to(options.get("dtype") or torch.int64)


@_for_symbols(torch.tril_indices)
def TRIL_INDICES(row: Any, col: Any, offset: int = 0, **options: Any) -> Any:
    return _indices(row, col, torch.tril, offset, options)


@_for_symbols(torch.triu_indices)
def TRIU_INDICES(row: Any, col: Any, offset: int = 0, **options: Any) -> Any:
    return _indices(row, col, torch.triu, offset, options)


@_for_symbols(torch.fft.fftfreq)
def FFTFREQ(n: Any, d: float = 1.0, **options: Any) -> Any:
    indices = torch.arange(n, dtype=options.get("dtype") or torch.get_default_dtype(), device=options.get("device"))
    return torch.where(indices < (n + 1) // 2, indices, indices - n) * (1.0 / (n * d))


@_for_symbols(torch.fft.rfftfreq)
def RFFTFREQ(n: Any, d: float = 1.0, **options: Any) -> Any:
    dtype = options.get("dtype") or torch.get_default_dtype()
    return torch.arange(n // 2 + 1, dtype=dtype, device=options.get("device")) * (1.0 / (n * d))


@_for_symbols(torch.logspace)
def LOGSPACE(
    start: Any, end: Any, steps: Any, base: float = 10.0, *, dtype: torch.dtype | None = None, **options: Any
) -> Any:
    exponents = torch.linspace(start, end, steps, dtype=torch.float64, **options)
    return torch.pow(base, exponents).to(dtype or torch.get_default_dtype())


def one_hot(input: torch.Tensor, num_classes: Any) -> torch.Tensor:
    """``F.one_hot``. A negative number of classes, which is -1 in a run where PyTorch counts the classes, and a class
    that is out of range are errors of the model: the shape, whose last size is ``num_classes``, does not hold then."""
    index = input.unsqueeze(-1)
    zeros = torch.zeros((*input.shape, num_classes), dtype=torch.int64, device=input.device)
    return zeros.scatter(-1, index, 1)


def _vander(x: torch.Tensor, N: int | None = None, increasing: bool = False) -> torch.Tensor:
    columns = x.shape[0] if N is None else N
    ones = torch.ones((x.shape[0], 1), dtype=torch.int64 if not x.dtype.is_floating_point else x.dtype)
    powers = torch.cat([ones, x.unsqueeze(-1).expand(-1, columns - 1)], -1).cumprod(-1)
    return powers if increasing else powers.flip(-1)


SUBSTITUTES: dict[Any, Function] = {
    **dict((HAMMING, HANN, BLACKMAN, BARTLETT, KAISER, TRIL_INDICES, TRIU_INDICES, FFTFREQ, RFFTFREQ, LOGSPACE)),
    torch.vander: _vander,
}
# At once, because a conversion of ``n // 4`` does not fix ``n``, after which the capture would be repeated.
MADE_BY_SIZE: Replacements = {
    function: by_sizes(symbolic) for function, symbolic in {**SUBSTITUTES, F.one_hot: one_hot}.items()
}
