"""Versions of ``int``, ``float`` and ``math`` functions that keep sizes symbolic.

``int`` and ``float`` also keep numbers read from tensors symbolic. Python's own convert them to numbers."""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any

import sympy
import torch

from opbridge.capture.patching import patch
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.capture.torchscript.branches import Truth
from opbridge.torch_compat import is_fake
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.symbols import BIT_LENGTH, free_unbacked_symbols, sym_cos, sym_log2, sym_sin, sym_tanh

_ABSENT = object()
_SYMBOLS = (torch.SymInt, torch.SymFloat)


def _is_size(value: Any) -> bool:
    return type(value) in _SYMBOLS and not free_unbacked_symbols(value.node.expr)


def _is_integer(value: Any) -> bool:
    return type(value) in (int, torch.SymInt)


def _item(tensor: torch.Tensor) -> Any:
    # A bool is converted to an integer first, since it could become a number only by a branch.
    return (tensor.to(torch.int64) if tensor.dtype == torch.bool else tensor).item()


class _Symbolic(type):
    """The metaclass of the versions of ``int`` and ``float``: their calls keep sizes symbolic, and symbolic sizes are
    instances of them."""

    number: type
    symbol: type
    of_size: Callable[[Any], Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            value = args[0].number() if type(args[0]) is Truth else args[0]
            value = _item(value) if is_fake(value) else value
            return (cls.of_size if type(value) in _SYMBOLS else cls.number)(value)
        return cls.number(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls.number, cls.symbol))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.number)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.number

    def __hash__(cls) -> int:
        return hash(cls.number)


# torch takes only Python's own types for element types; its error shows this name.
_Symbolic.__name__ = "int or float replaced to keep sizes symbolic: write torch.int64 or torch.float64"


class _int(int, metaclass=_Symbolic):
    number, symbol = int, torch.SymInt

    @staticmethod
    def of_size(value: Any) -> Any:
        return value if type(value) is torch.SymInt else math.trunc(value)


class _float(float, metaclass=_Symbolic):
    number, symbol, of_size = float, torch.SymFloat, torch.sym_float


_TYPES: dict[str, type] = {"int": _int, "float": _float}


def _of_size(function: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which calls ``symbolic`` if one of the arguments is a size. NotImplemented: it has no formula."""

    def call(*args: Any) -> Any:
        result = symbolic(*args) if any(map(_is_size, args)) else NotImplemented
        return function(*args) if result is NotImplemented else result

    return call


def _of_number(function: Callable[..., Any], symbolic: Callable[..., Any]) -> Callable[..., Any]:
    """``_of_size``, which also calls ``symbolic`` for numbers of data, unless the model catches the error of a number
    that has no result."""

    def call(*args: Any) -> Any:
        numbers = [_item(each) if is_fake(each) else each for each in args]
        of_data = [each for each in numbers if type(each) in _SYMBOLS and not _is_size(each)]
        if of_data and in_try_block(sys._getframe(1), (ValueError, OverflowError)):
            return function(*numbers)
        result = symbolic(*numbers) if of_data or any(map(_is_size, numbers)) else NotImplemented
        return function(*numbers) if result is NotImplemented else result

    return call


def _logarithm(size: Any, base: Any = math.e) -> Any:
    """To other bases than these, another order of rounding can change the floor of the result."""
    if base == math.e:
        return sym_log2(size) * math.log(2)
    if base == 10:
        return _decimal_logarithm(size)
    exponent = math.log2(base) if type(base) in (int, float) and base > 1 else 0.5
    return sym_log2(size) / exponent if exponent.is_integer() else NotImplemented


def _decimal_logarithm(size: Any) -> Any:
    return sym_log2(size) * math.log10(2)


def _hypotenuse(*sides: Any) -> Any:
    return torch.sym_sqrt(sum(side * side for side in sides))


def _with_sign(size: Any, sign: Any) -> Any:
    return NotImplemented if _is_size(sign) else torch.sym_float(abs(size)) * math.copysign(1, sign)


def _fmod(size: Any, by: Any) -> Any:
    """The remainder with the sign of the dividend."""
    if not _is_integer(size) or type(by) is not int or by == 0:
        return NotImplemented
    sign = torch.sym_max(torch.sym_min(size, 1), -1)
    return torch.sym_float(abs(size) % abs(by) * sign)


_MOST_DIVISORS = 32


def _greatest_divisor(*numbers: Any) -> Any:
    """Of a size and a constant: the greatest divisor of the constant that divides the size."""
    if len(numbers) != 2 or not all(map(_is_integer, numbers)) or all(map(_is_size, numbers)):
        return NotImplemented
    size, constant = numbers if _is_size(numbers[0]) else reversed(numbers)
    divisors = [each for each in range(1, min(abs(constant), 4096) + 1) if constant % each == 0]
    if not 0 < abs(constant) <= 4096 or len(divisors) > _MOST_DIVISORS:
        return NotImplemented
    return functools.reduce(torch.sym_max, (each * (1 - torch.sym_min(size % each, 1)) for each in divisors))


def _least_multiple(*numbers: Any) -> Any:
    divisor = _greatest_divisor(*numbers)
    return divisor if divisor is NotImplemented else abs(math.prod(numbers)) // divisor


_MOST_CHOSEN = 4  # products of more sizes may exceed 64 bits


def _permutations(size: Any, chosen: Any = None) -> Any:
    if not _is_integer(size) or type(chosen) is not int or not 0 <= chosen <= _MOST_CHOSEN:
        return NotImplemented
    return math.prod(size - i for i in range(chosen))


def _combinations(size: Any, chosen: Any) -> Any:
    ordered = _permutations(size, chosen)
    return ordered if ordered is NotImplemented else ordered // math.factorial(chosen)


_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "sqrt": torch.sym_sqrt,
    "log": _logarithm,
    "log2": sym_log2,
    "log10": _decimal_logarithm,
    "log1p": lambda number: _logarithm(number + 1),
    "exp": lambda number: math.e**number,
    "pow": lambda number, exponent: torch.sym_float(number) ** torch.sym_float(exponent),
    "sin": sym_sin,
    "cos": sym_cos,
    "tanh": sym_tanh,
}
_OF_SIZES: dict[str, Callable[..., Any]] = {
    "isqrt": lambda size: math.floor(torch.sym_sqrt(size)),
    "hypot": _hypotenuse,
    "fabs": lambda size: torch.sym_float(abs(size)),
    "copysign": _with_sign,
    "fmod": _fmod,
    "gcd": _greatest_divisor,
    "lcm": _least_multiple,
    "comb": _combinations,
    "perm": _permutations,
}
OF_MATH = {name: _of_number(getattr(math, name), symbolic) for name, symbolic in _OF_NUMBERS.items()}
OF_MATH |= {name: _of_size(getattr(math, name), symbolic) for name, symbolic in _OF_SIZES.items()}
METHODS_OF_NUMPY = OF_MATH | {"rint": lambda size: torch.sym_float(round(size))}  # what its functions call


def bit_length(number: Any) -> Any:
    """``bit_length`` of a symbol. Takes the logarithm of an odd number: at a power of two, rounding could change the
    logarithm's floor."""
    return math.floor(sym_log2(2 * abs(number) + 1)) if _is_size(number) else BIT_LENGTH.original(number)


def round_to_digits(number: Any, digits: int | None = None) -> Any:
    """``round`` of a symbol: to a multiple of a power of ten, and halves to an even one."""
    if digits is None or digits >= 0:
        return number
    unit = 10**-digits
    nearest = (2 * number + unit) // (2 * unit)
    is_half = 1 - torch.sym_min((2 * number + unit) % (2 * unit), 1)
    return (nearest - is_half * (nearest % 2)) * unit


@contextlib.contextmanager
def divide_as_python() -> Iterator[None]:
    """Makes ``//`` of floating-point numbers Python's, which is not the floor of the quotient, as torch takes it: the
    quotient may be rounded to an integer. ``1 // 0.1`` is 9."""

    def divided(original: Callable[[Any, Any], Any], reflected: bool) -> Callable[[Any, Any], Any]:
        def divide(symbol: Any, other: Any) -> Any:
            number, divisor = (other, symbol) if reflected else (symbol, other)
            numbers = (int, float, *_SYMBOLS)
            if type(other) not in numbers or (_is_integer(number) and (_is_integer(divisor) or _is_simple(divisor))):
                return original(symbol, other)
            return torch.sym_float(round((number - number % divisor) / divisor))

        return divide

    with contextlib.ExitStack() as until_the_end:
        for point, reflected in (
            (points.FLOOR_DIVISION, False),
            (points.FLOOR_DIVISION_OF_FLOAT, False),
            (points.FLOOR_DIVISION_BY_SYMBOL, True),
            (points.FLOOR_DIVISION_BY_FLOAT, True),
        ):
            until_the_end.enter_context(patch(point, divided(point.original, reflected)))
        yield


def compare_with_infinity() -> contextlib.AbstractContextManager[None]:
    """Leaves ``loss < best`` to the run of the model where ``best`` is infinite: torch fails, since it looks for bounds
    of their difference."""
    original = points.STATIC_VALUE.original

    def static_value(expr: Any, symbols: Any, unbacked_only: bool, *args: Any) -> Any:
        if expr.has(sympy.S.Infinity, sympy.S.NegativeInfinity):
            return expr if unbacked_only else None
        return original(expr, symbols, unbacked_only, *args)

    return patch(points.STATIC_VALUE, static_value)


def _is_simple(divisor: Any) -> bool:
    """Whether no quotient of a size and ``divisor`` is rounded to an integer, as for 2.5."""
    return type(divisor) is float and (1024 * divisor).is_integer()


_NAMES_OF_MATH = {getattr(math, name): name for name in OF_MATH}


def called_here(names: dict[str, Any], code_names: tuple[str, ...]) -> list[str]:
    """The replaceable functions that code may call if it uses ``code_names`` and its globals are ``names``."""
    return [name for name in code_names if _replacement(name, _value(names, name)) is not None]


def _value(names: dict[str, Any], name: str) -> Any:
    return names.get(name, builtins.__dict__.get(name))


def _replacement(name: str, value: Any) -> Any:
    if name in _TYPES and value is getattr(builtins, name):
        return _TYPES[name]
    replaced = _NAMES_OF_MATH.get(value) if isinstance(value, BuiltinFunctionType) else None
    return None if replaced is None else OF_MATH[replaced]


@contextlib.contextmanager
def replace_in(calls: list[tuple[dict[str, Any], str]]) -> Iterator[None]:
    """Replaces functions in modules, which are given by their globals."""
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for names, name in calls:
            value = _value(names, name)
            replaced.append((names, name, names.get(name, _ABSENT)))
            names[name] = _replacement(name, value)
        yield
    finally:
        for names, name, value in replaced:
            if value is _ABSENT:
                del names[name]
            else:
                names[name] = value
