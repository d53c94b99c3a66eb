"""Recognizes symbolic functions that are written for torch.onnx."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.torch_compat.torchscript_exporter import BINDINGS

_PACKAGE = "torch.onnx"
_EMPTY = types.CellType()


def uses_torch_onnx(function: Callable[..., Any]) -> bool:
    """Whether the function is defined in torch.onnx, is decorated by it, or uses a name of it or of TorchScript's
    graphs.

    The same is asked of the functions around it, those that it decorates, and those of its module that it calls.
    """
    return any(
        _is_of_torch_onnx(each.__module__) or any(_names_torch_onnx(code, each.__globals__) for code in _codes(each))
        for each in _functions_of(function)
    )


def _functions_of(function: Any) -> Iterator[types.FunctionType]:
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, functools.partial):
            waiting.append(each.func)
        elif isinstance(each, types.MethodType):
            waiting.append(each.__func__)
        elif isinstance(each, types.FunctionType):
            yield each
            waiting += [cell.cell_contents for cell in each.__closure__ or () if cell != _EMPTY]
            called = (each.__globals__.get(name) for code in _codes(each) for name in code.co_names)
            waiting += [other for other in called if getattr(other, "__module__", None) == each.__module__]
        elif callable(each) and not isinstance(each, type):
            waiting.append(type(each).__call__)


def _codes(function: types.FunctionType) -> Iterator[types.CodeType]:
    """The code of the function and of those that are defined in it."""
    waiting = [function.__code__]
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]


def _names_torch_onnx(code: types.CodeType, names: dict[str, Any]) -> bool:
    for name in code.co_names:
        meant = names.get(name)
        if isinstance(meant, types.ModuleType):
            home: Any = meant.__name__
        else:
            home = getattr(meant, "__module__", None) if callable(meant) else None
        if _is_of_torch_onnx(home) or _is_of_torch_onnx(name):  # an import inside of the function names the module
            return True
    of_torch = any(names.get(name) is torch for name in code.co_names)
    return of_torch and not {"onnx", BINDINGS}.isdisjoint(code.co_names)


def _is_of_torch_onnx(module: str | None) -> bool:
    return module is not None and (module == f"torch.{BINDINGS}" or f"{module}.".startswith(f"{_PACKAGE}."))
