"""``parse_args`` for functions that are written for opbridge's ``g``. Those for torch.onnx use torch.onnx's helpers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from opbridge.dtypes import SCALAR_TYPES
from opbridge.errors import InvalidArgumentError
from opbridge.symbolics.builder import GraphContext
from opbridge.symbolics.torchscript import OwnFormNeeded
from opbridge.symbolics.values import Value

F = TypeVar("F", bound=Callable[..., Any])


def parse_args(*descriptors: str) -> Callable[[F], F]:
    """Decodes the arguments of a symbolic function; torch.onnx.symbolic_helper has a function of this name.

    Args:
        *descriptors: One for each parameter after ``g``: ``"v"`` a value (a number becomes a constant), ``"i"`` an int,
            ``"f"`` a float, ``"b"`` a bool, ``"s"`` a string, ``"t"`` a tensor, ``"is"`` and ``"fs"`` lists of ints and
            floats, ``"none"`` unchanged. None stays None.

    Returns:
        A decorator. The decorated function raises InvalidArgumentError for an argument that is not of its kind, or
        whose value is known only at run time.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(g: GraphContext, *arguments: Any, **named: Any) -> Any:
            if not isinstance(g, GraphContext):  # the function was registered with torch.onnx
                raise OwnFormNeeded("opbridge.parse_args")
            if len(arguments) > len(descriptors):
                raise InvalidArgumentError(
                    f"{function.__name__} takes {len(descriptors)} arguments by parse_args, but is called with "
                    f"{len(arguments)}"
                )
            parsed = [_parse(g, value, kind, function) for value, kind in zip(arguments, descriptors, strict=False)]
            return function(g, *parsed, **named)

        return wrapper  # type: ignore[return-value]

    return decorate


def _parse(g: GraphContext, value: Any, kind: str, function: Callable[..., Any]) -> Any:
    if kind == "none" or value is None:
        return value
    if kind == "v":
        if isinstance(value, (Value, list, tuple)):
            return value
        core = g.input(value)
        return None if core is None else Value(core)
    if isinstance(value, Value):
        constant = _constant_of(value)
        if constant is None:
            raise InvalidArgumentError(
                f"{function.__name__}: parse_args expects {kind!r}, but the argument is known only at run time"
            )
        value = constant.tolist() if kind != "t" else constant
    try:
        return _DECODERS[kind](value)
    except KeyError:
        raise InvalidArgumentError(
            f"parse_args does not know {kind!r}; it knows v, none, {', '.join(_DECODERS)}"
        ) from None
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{function.__name__}: {value!r} is not {kind!r}") from error


def _int(value: Any) -> int:
    return SCALAR_TYPES[value][1] if isinstance(value, torch.dtype) else int(value)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "i": _int,
    "f": float,
    "b": bool,
    "s": str,
    "t": torch.as_tensor,
    "is": lambda values: [_int(value) for value in (values if isinstance(values, (list, tuple)) else [values])],
    "fs": lambda values: [float(value) for value in (values if isinstance(values, (list, tuple)) else [values])],
}


def _constant_of(value: Value) -> torch.Tensor | None:
    content = value.core.constant
    dtype = value.type().dtype()
    if content is None or dtype is None:
        return None
    sizes = [int(size) for size in value.core.dims or ()]
    if not content:
        return torch.empty(sizes, dtype=dtype)
    return torch.frombuffer(bytearray(content), dtype=dtype).reshape(sizes)
