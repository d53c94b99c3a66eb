"""Operators of numbers, lists, dicts and strings, computed by Python's own, which accept symbols as numbers."""

from __future__ import annotations

import functools
import math
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.symbolic_sizes.python_functions import OF_MATH
from opbridge.operator_names import name_in, without_overload

Function = Callable[..., Any]
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def function_of(schema: str) -> Function | None:
    """The function for an operator that takes and returns no tensors; None if it is unknown."""
    function = _FUNCTIONS.get(without_overload(name_in(schema)))
    if function is None or re.search(r"\bTensor\b", schema):
        return None
    return _as_float(function) if schema.endswith("-> float") else function


def changes_its_argument(schema: str) -> bool:
    return without_overload(name_in(schema)) in _CHANGING


def makes_a_copy(schema: str) -> bool:
    return without_overload(name_in(schema)) in _COPYING


def to_int(value: Any) -> Any:
    if type(value) is torch.SymFloat:
        return math.trunc(value)
    return value if type(value) is torch.SymInt else int(value)


def to_float(value: Any) -> Any:
    return torch.sym_float(value) if isinstance(value, _SYMBOLS) else float(value)


def to_bool(value: Any) -> Any:
    return value if type(value) is torch.SymBool else value != 0


def _as_float(function: Function) -> Function:
    return lambda *arguments: to_float(function(*arguments))


def _extremum(of_two: Function) -> Function:
    def call(*arguments: Any) -> Any:
        values = arguments[0] if isinstance(arguments[0], list) else arguments
        return functools.reduce(of_two, values)

    return call


def _of_math(name: str) -> Function:
    return OF_MATH.get(name) or getattr(math, name)


def _of_value(name: str) -> Function:
    return lambda value, *arguments: getattr(value, name)(*arguments)


def _list_of(name: str) -> Function:
    return lambda value: list(getattr(value, name)())


def _changed_by(name: str) -> Function:
    def call(value: Any, *arguments: Any) -> Any:
        getattr(value, name)(*arguments)
        return value

    return call


def _set_item(values: Any, key: Any, value: Any) -> Any:
    values[key] = value
    return values


def _extended(values: list[Any], others: list[Any]) -> list[Any]:
    values += others
    return values


def _slice(values: Any, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return values[start:end:step]


def _range_length(start: Any, end: Any, step: Any) -> Any:
    count = (end - start + step + (-1 if step > 0 else 1)) // step
    return torch.sym_max(count, 0) if type(count) is torch.SymInt else max(count, 0)


def _warn(message: str, stacklevel: int = 2) -> None:
    warnings.warn(message, stacklevel=stacklevel)


_OF_NUMBERS: dict[str, Function] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "remainder": operator.mod,
    "neg": operator.neg,
    "pow": operator.pow,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "__and__": operator.and_,
    "__or__": operator.or_,
    "__xor__": operator.xor,
    "__lshift__": operator.lshift,
    "__rshift__": operator.rshift,
    "__not__": lambda value: torch.sym_not(value) if type(value) is torch.SymBool else not value,
    "__is__": operator.is_,
    "__isnot__": operator.is_not,
    "Int": to_int,
    "Float": to_float,
    "Bool": to_bool,
    "round": lambda value: to_float(round(value)),
    "__range_length": _range_length,
    "__derive_index": lambda index, start, step: start + index * step,
    **{name: _of_math(name) for name in ("floor", "ceil", "sqrt", "log", "log2", "log10")},
    **{
        name: _of_math(name)
        for name in ("exp", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "expm1")
    },
    **{name: _of_math(name) for name in ("log1p", "fabs", "fmod", "isnan", "isinf", "isfinite", "gcd", "erf")},
}
_OF_LISTS: dict[str, Function] = {
    "append": _changed_by("append"),
    "extend": _of_value("extend"),
    "insert": _of_value("insert"),
    "remove": _of_value("remove"),
    "reverse": _of_value("reverse"),
    "index": _of_value("index"),
    "count": _of_value("count"),
    "add_": _extended,
    "list": list,
    "sort": lambda values, reverse=False: values.sort(reverse=reverse),
    "sorted": sorted,
    "sum": sum,
    "any": any,
    "all": all,
}
_OF_VALUES: dict[str, Function] = {
    "len": len,
    "__getitem__": operator.getitem,
    "__contains__": operator.contains,
    "slice": _slice,
    "_set_item": _set_item,
    "Delete": operator.delitem,
    "pop": _of_value("pop"),
    "clear": _of_value("clear"),
    "copy": _of_value("copy"),
    "keys": _list_of("keys"),
    "values": _list_of("values"),
    "items": _list_of("items"),
    "get": _of_value("get"),
    "setdefault": _of_value("setdefault"),
    "update": _of_value("update"),
    "str": str,
    "format": _of_value("format"),
    "percentFormat": operator.mod,
    **{name: _of_value(name) for name in ("lower", "upper", "join", "startswith", "endswith", "replace", "split")},
    "ord": ord,
    "device": torch.device,
    "is_grad_enabled": torch.is_grad_enabled,
    "is_autocast_enabled": torch.is_autocast_enabled,
    "_get_tracing_state": lambda: False,
    "warn": _warn,
}
_FUNCTIONS: dict[str, Function] = {
    **{f"aten::{name}": function for name, function in (_OF_NUMBERS | _OF_LISTS | _OF_VALUES).items()},
    "prim::min": _extremum(torch.sym_min),
    "prim::max": _extremum(torch.sym_max),
    "prim::abs": abs,
    "prim::rangelist": lambda stop: list(range(stop)),
    "prim::type": lambda device: device.type,
}
_COPYING = frozenset(f"aten::{name}" for name in ("copy", "list", "slice", "add", "mul", "keys", "values", "items"))
_CHANGING = frozenset(
    f"aten::{name}"
    for name in (
        *("append", "extend", "insert", "remove", "reverse", "sort", "add_", "_set_item", "Delete", "pop", "clear"),
        *("setdefault", "update"),
    )
)
