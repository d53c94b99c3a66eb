"""The helpers that symbolic functions for torch.onnx use, under their own names: ``parse_args`` and others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from opbridge.dtypes import SCALAR_TYPES
from opbridge.errors import InvalidArgumentError
from opbridge.symbolics.builder import GraphContext, Value

F = TypeVar("F", bound=Callable[..., Any])


def parse_args(*descriptors: str) -> Callable[[F], F]:
    """Decodes the arguments of a symbolic function, with one descriptor for each parameter after ``g``.

    Descriptors: ``v`` a value (a number becomes a constant), ``i`` an int, ``f`` a float, ``b`` a bool, ``s`` a string,
    ``t`` a tensor, ``is`` and ``fs`` lists, ``none`` unchanged. None stays None.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapper(g: GraphContext, *arguments: Any, **named: Any) -> Any:
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


def _is_value(x: Any) -> bool:
    return isinstance(x, Value)


def _is_none(x: Any) -> bool:
    return x is None


def _is_constant(x: Any) -> bool:
    return not isinstance(x, Value) or x.core.constant is not None


def _maybe_get_const(value: Any, descriptor: str) -> Any:
    """The constant behind ``value``, decoded as by parse_args; ``value`` itself if it is not a constant."""
    if isinstance(value, Value):
        constant = _constant_of(value)
        if constant is None:
            return value
        return constant if descriptor == "t" else _DECODERS[descriptor](constant.tolist())
    return value if value is None or descriptor == "none" else _DECODERS[descriptor](value)


def _get_const(value: Any, descriptor: str, name: str) -> Any:
    if not _is_constant(value):
        raise InvalidArgumentError(f"the argument {name} must be a constant, but is known only at run time")
    return _maybe_get_const(value, descriptor)


def _maybe_get_scalar(value: Any) -> Any:
    constant = _constant_of(value) if isinstance(value, Value) else None
    return constant if constant is not None and constant.dim() == 0 else value


def _get_tensor_rank(x: Value) -> int | None:
    return x.type().dim()


def _get_tensor_sizes(x: Value, allow_nonstatic: bool = True) -> list[int | None] | None:
    sizes = x.type().sizes()
    return sizes if allow_nonstatic or sizes is None or None not in sizes else None


def _get_tensor_dim_size(x: Value, dim: int) -> int | None:
    sizes = x.type().sizes()
    return None if sizes is None else sizes[dim]


def _is_fp(value: Value) -> bool:
    dtype = value.type().dtype()
    return dtype is not None and dtype.is_floating_point


def _unimplemented(op: str, message: str, value: Any = None) -> None:
    raise InvalidArgumentError(f"{op}: {message}")


def _axes(g: GraphContext, axes: Sequence[int]) -> Value:
    return g.op("Constant", value_t=torch.tensor(list(axes), dtype=torch.int64))  # type: ignore[no-any-return]


def _unsqueeze_helper(g: GraphContext, input: Value, axes_i: Sequence[int]) -> Value:
    if g.opset >= 13:
        return g.op("Unsqueeze", input, _axes(g, axes_i))  # type: ignore[no-any-return]
    return g.op("Unsqueeze", input, axes_i=list(axes_i))  # type: ignore[no-any-return]


def _squeeze_helper(g: GraphContext, input: Value, axes_i: Sequence[int]) -> Value:
    if g.opset >= 13:
        return g.op("Squeeze", input, _axes(g, axes_i))  # type: ignore[no-any-return]
    return g.op("Squeeze", input, axes_i=list(axes_i))  # type: ignore[no-any-return]


def _reducesum_helper(
    g: GraphContext,
    input: Value,
    axes_i: Sequence[int] | None = None,
    keepdims_i: int = 1,
    noop_with_empty_axes_i: int = 0,
) -> Value:
    if g.opset >= 13:
        axes = None if axes_i is None else _axes(g, axes_i)
        return g.op(  # type: ignore[no-any-return]
            "ReduceSum", input, axes, keepdims_i=keepdims_i, noop_with_empty_axes_i=noop_with_empty_axes_i
        )
    return g.op("ReduceSum", input, axes_i=axes_i, keepdims_i=keepdims_i)  # type: ignore[no-any-return]


def _reshape_helper(g: GraphContext, input: Value, shape: Any, allowzero: int = 0) -> Value:
    shape = shape if isinstance(shape, Value) else _axes(g, shape)
    if g.opset >= 14:
        return g.op("Reshape", input, shape, allowzero_i=allowzero)  # type: ignore[no-any-return]
    return g.op("Reshape", input, shape)  # type: ignore[no-any-return]


def _slice_helper(
    g: GraphContext,
    input: Value,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    steps: Sequence[int] | None = None,
) -> Value:
    if g.opset >= 10:
        return g.op(  # type: ignore[no-any-return]
            "Slice",
            input,
            _axes(g, starts),
            _axes(g, ends),
            _axes(g, axes),
            None if steps is None else _axes(g, steps),
        )
    return g.op("Slice", input, axes_i=list(axes), starts_i=list(starts), ends_i=list(ends))  # type: ignore[no-any-return]
