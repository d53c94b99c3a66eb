"""Versions of ``int``, ``float`` and ``math`` functions that keep sizes symbolic.

``int`` and ``float`` also keep numbers read from tensors symbolic. Python's own convert them to numbers."""

from __future__ import annotations

import builtins
import contextlib
import math
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any

import torch

from opbridge.torch_compat import is_fake
from opbridge.torch_compat.symbols import BIT_LENGTH, free_unbacked_symbols, sym_log2

_ABSENT = object()
_SYMBOLS = (torch.SymInt, torch.SymFloat)


def _is_size(value: Any) -> bool:
    return type(value) in _SYMBOLS and not free_unbacked_symbols(value.node.expr)


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
            value = _item(args[0]) if is_fake(args[0]) else args[0]
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


def _of_size(function: Callable[..., Any], symbolic: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return symbolic(args[0]) if len(args) == 1 and _is_size(args[0]) else function(*args)

    return call


OF_MATH = {
    "sqrt": _of_size(math.sqrt, torch.sym_sqrt),
    "log2": _of_size(math.log2, sym_log2),
    "log": _of_size(math.log, lambda size: sym_log2(size) * math.log(2)),
    "isqrt": _of_size(math.isqrt, lambda size: math.floor(torch.sym_sqrt(size))),
    "log10": _of_size(math.log10, lambda size: sym_log2(size) * math.log10(2)),
}


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
