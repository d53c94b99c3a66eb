"""``int`` and functions of ``math`` that keep sizes symbolic. Python's own convert their argument to a number."""

from __future__ import annotations

import builtins
import contextlib
import math
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType
from typing import Any

import torch

from opbridge.torch_compat.symbols import free_unbacked_symbols, sym_log2

_SYMBOLS = (torch.SymInt, torch.SymFloat)


def _is_size(value: Any) -> bool:
    return type(value) in _SYMBOLS and not free_unbacked_symbols(value.node.expr)


class _Int(type):
    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return math.trunc(args[0]) if len(args) == 1 and _is_size(args[0]) else int(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (int, torch.SymInt))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, int)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is int

    def __hash__(cls) -> int:
        return hash(int)


class _int(int, metaclass=_Int):
    pass


def _of_size(function: Callable[..., Any], symbolic: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        return symbolic(args[0]) if len(args) == 1 and _is_size(args[0]) else function(*args)

    return call


OF_MATH = {
    "sqrt": _of_size(math.sqrt, torch.sym_sqrt),
    "log2": _of_size(math.log2, sym_log2),
    "log": _of_size(math.log, lambda size: sym_log2(size) * math.log(2)),
    "log10": _of_size(math.log10, lambda size: sym_log2(size) * math.log10(2)),
}
_NAMES_OF_MATH = {getattr(math, name): name for name in OF_MATH}


def asks_here(names: dict[str, Any], code_names: tuple[str, ...]) -> bool:
    """Whether code that uses ``code_names``, with the globals ``names``, may call a function that is replaced there."""
    return any(_replacement(name, names.get(name, builtins.__dict__.get(name))) is not None for name in code_names)


def _replacement(name: str, value: Any) -> Any:
    if name == "int" and value is int:
        return _int
    replaced = _NAMES_OF_MATH.get(value) if isinstance(value, BuiltinFunctionType) else None
    return None if replaced is None else OF_MATH[replaced]


@contextlib.contextmanager
def replace_in(modules: list[dict[str, Any]]) -> Iterator[None]:
    """Replaces ``int``, and functions imported from ``math``, in modules, which are given by their globals."""
    added: list[tuple[dict[str, Any], str]] = []
    replaced: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for names in modules:
            if "int" not in names:
                names["int"] = _int
                added.append((names, "int"))
            for name, value in list(names.items()):
                if (replacement := _replacement(name, value)) is not None:
                    replaced.append((names, name, value))
                    names[name] = replacement
        yield
    finally:
        for names, name in added:
            del names[name]
        for names, name, value in replaced:
            names[name] = value
