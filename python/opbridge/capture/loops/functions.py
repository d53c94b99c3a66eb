"""Finds functions by their code, which is all of a function that its frame shows."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Collection
from types import CodeType, FunctionType
from typing import Any

_DECORATORS = 16  # around a function, at most


def functions_with(codes: Collection[CodeType]) -> set[FunctionType]:
    """The functions that have one of the codes. Those that a module defines, or a class of it, are found by their
    names: to look through all objects takes a tenth of a second."""
    named = {code: _named(code) for code in codes}
    others = [code for code, function in named.items() if function is None]
    found = {function for function in named.values() if function is not None}
    return found | {each for each in (gc.get_referrers(*others) if others else ()) if isinstance(each, FunctionType)}


def _named(code: CodeType) -> FunctionType | None:
    path: str = getattr(code, "co_qualname", "<unknown>")  # none in Python 3.10
    if "<" in path:  # made within another function, perhaps several times
        return None
    for module in [*sys.modules.values()]:
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == code.co_filename:
            value = names.get(path.partition(".")[0])
            for name in path.split(".")[1:]:
                value = vars(value).get(name) if isinstance(value, type) else None
            function = _unwrapped(value, code)
            if function is not None:
                return function
    return None


def _unwrapped(value: Any, code: CodeType) -> FunctionType | None:
    """The function with the code that a method or a property, or a decorated function, stands for."""
    for _ in range(_DECORATORS):
        if isinstance(value, FunctionType) and value.__code__ is code:
            return value
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif isinstance(value, functools.cached_property):
            value = value.func
        else:
            value = getattr(value, "__dict__", {}).get("__wrapped__")
    return None
