"""Finds functions by their code, which is all of a function that its frame shows."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Collection
from types import CodeType, FrameType, FunctionType
from typing import Any

from opbridge.capture.symbolic_sizes.syntax import codes_in

_DECORATORS = 16  # around a function, at most


def functions_with(codes: Collection[CodeType]) -> set[FunctionType]:
    """The functions that have one of the codes, or define a function that has it. Those that a module defines, or a
    class of it, are found by their names: to look through all objects takes a tenth of a second."""
    named = {code: _named(code) for code in codes}
    found = {function for function in named.values() if function is not None}
    others = [code for code, function in named.items() if function is None or function.__code__ is not code]
    return found | {each for each in (gc.get_referrers(*others) if others else ()) if isinstance(each, FunctionType)}


def _named(code: CodeType) -> FunctionType | None:
    """The function that a module or a class defines."""
    path, *within = getattr(code, "co_qualname", "<unknown>").split(".<locals>")  # none in Python 3.10
    if "<" in path:
        return None
    for module in [*sys.modules.values()]:
        names = getattr(module, "__dict__", {})
        if names.get("__file__") == code.co_filename:
            value = names.get(path.partition(".")[0])
            for name in path.split(".")[1:]:
                value = vars(value).get(name) if isinstance(value, type) else None
            function = _unwrapped(value, code)
            if function is not None:
                return None if within and _runs(function.__code__) else function
    return None


def _runs(code: CodeType) -> bool:
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _unwrapped(value: Any, code: CodeType) -> FunctionType | None:
    """The function with the code, or with one that it defines, that a method or a property, or a decorated function,
    stands for."""
    for _ in range(_DECORATORS):
        if isinstance(value, FunctionType) and any(each is code for each in codes_in(value.__code__)):
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
