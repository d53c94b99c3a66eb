"""The functions and methods of torch that take quantized tensors, on their levels."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from opbridge.capture.rewrites.quantized.levels import Levels, quantized
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree


def _moving(name: str) -> Callable[..., Any]:
    """Functions that only move elements: they are applied to the levels."""
    function = getattr(torch.Tensor, name, None) or getattr(functional, name)

    def call(x: Levels, *args: Any, **kwargs: Any) -> Any:
        moved = function(x.per_tensor(name).integers, *args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, x.moved, moved)

    return call


def _selecting(name: str) -> Callable[..., Any]:
    """Functions that return elements and their indices."""

    def call(x: Levels, *args: Any, **kwargs: Any) -> Any:
        result = getattr(x.per_tensor(name).integers, name)(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            return x.moved(result)
        return type(result)((x.moved(result[0]), result[1]))

    return call


def keeping_scheme(function: Callable[..., torch.Tensor], name: str) -> Callable[..., Levels]:
    """Functions that compute with the values, and whose result has the scheme of the input."""

    def call(x: Levels, *args: Any, **kwargs: Any) -> Levels:
        return x.quantized_alike(function(x.per_tensor(name).dequantize(), *args, **kwargs))

    return call


def _averaging(function: Callable[..., torch.Tensor], name: str) -> Callable[..., Levels]:
    """Functions that average the integers. Ties between two levels are exact, and are rounded as PyTorch rounds them
    for channels_last tensors, which its convolutions return."""

    def call(x: Levels, *args: Any, **kwargs: Any) -> Levels:
        if isinstance(x.per_tensor(name).zero_point, int) and x.zero_point % 2 == 0:
            steps = x.in_steps()
            return x.moved(steps.quantized_alike(function(steps.dequantize(), *args, **kwargs)).integers)
        # ONNX Runtime would fuse the code above into an operator that adds the zero point before it rounds to even.
        averages = function(x.integers.to(torch.float32) - x.zero_point, *args, **kwargs)
        return x.moved((torch.round(averages) + x.zero_point).to(x.integers.dtype))

    return call


def _with_own_scheme(function: Callable[..., torch.Tensor], name: str, step: float, lowest: bool) -> Callable[..., Any]:
    """Functions whose results have a ``step`` that does not depend on the input, from the lowest level or around 0."""

    def call(x: Levels) -> Levels:
        if x.dtype == torch.qint32:
            raise UnsupportedError(f"{name}() of a tensor of torch.qint32 is not supported; dequantize it before")
        least, most = x.range
        zero_point = least if lowest else (least + most + 1) // 2
        return quantized(function(x.per_tensor(name).dequantize()), step, zero_point, x.dtype)

    return call


def _interpolate(x: Levels, *args: Any, **kwargs: Any) -> Levels:
    mode = args[2] if len(args) > 2 else kwargs.get("mode", "nearest")
    if mode.startswith("nearest"):
        return x.moved(functional.interpolate(x.per_tensor("interpolate").integers, *args, **kwargs))
    return _averaging(functional.interpolate, "interpolate")(x, *args, **kwargs)


def _dropout(x: Levels, p: float = 0.5, training: bool = True) -> Levels:
    if training:
        raise UnsupportedError("dropout() of a quantized tensor in training is not supported; call eval() of the model")
    return x


def _compared(function: Callable[[Any, Any], torch.Tensor]) -> Callable[[Any, Any], torch.Tensor]:
    def call(a: Any, b: Any) -> torch.Tensor:
        return function(*(each.dequantize() if isinstance(each, Levels) else each for each in (a, b)))

    return call


def concatenated(
    tensors: Sequence[Levels], dim: int = 0, scale: Any = None, zero_point: Any = None, relu: bool = False
) -> Levels:
    """The result has the scheme that is given, or else that of the first input."""
    values = torch.cat([each.per_tensor("cat").dequantize() for each in tensors], dim)
    of = tensors[0]
    scale, zero_point = of.scale if scale is None else scale, of.zero_point if zero_point is None else zero_point
    return quantized(values.relu() if relu else values, scale, zero_point, of.dtype)


def _stack(tensors: Sequence[Levels], dim: int = 0) -> Levels:
    return concatenated([each.moved(each.per_tensor("stack").integers.unsqueeze(dim)) for each in tensors], dim)


def _parameter(what: str, per_channel: bool) -> Callable[[Levels], Any]:
    def read(x: Levels) -> Any:
        if per_channel != (x.axis is not None):
            raise UnsupportedError(f"{what} of a tensor that is{' not' * per_channel} quantized per channel")
        if what == "axis":
            return x.axis
        value, kind = (x.scale, torch.float64) if what == "scale" else (x.zero_point, torch.int64)
        return value.to(kind) if per_channel else value

    return read


def _shape_of(x: Levels | torch.Tensor) -> torch.Size:
    return (x.integers if isinstance(x, Levels) else x).shape


IN_PLACE = {"relu_", "hardtanh_", "leaky_relu_"}
VIEWS = {
    *(
        "chunk",
        "contiguous",
        "cpu",
        "detach",
        "dropout",
        "expand",
        "expand_as",
        "flatten",
        "getitem",
        "movedim",
        "narrow",
        "permute",
    ),
    *("reshape", "select", "split", "squeeze", "swapaxes", "t", "transpose", "unbind", "unflatten", "unsqueeze"),
    *("view", "view_as"),
}
_OTHER_VIEWS = {"getitem", "detach", "dropout", "expand_as", "view_as"}
_COPIES = ("clone", "flip", "index_select", "repeat", "tile", "channel_shuffle", "pixel_shuffle", "pixel_unshuffle")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# The keys are names of functions, methods or attributes, without the underscores around them.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _moving(name) for name in (*(VIEWS - _OTHER_VIEWS), *_COPIES)},
    "getitem": _moving("__getitem__"),
    "expand_as": lambda x, other: FUNCTIONS["expand"](x, _shape_of(other)),
    "view_as": lambda x, other: FUNCTIONS["view"](x, _shape_of(other)),
    **{name: _selecting(name) for name in ("max", "min", "sort", "topk")},
    **{name: _compared(getattr(operator, name)) for name in _COMPARISONS},
    **{name: keeping_scheme(getattr(torch, name), name) for name in ("relu", "clamp", "masked_fill")},
    **{name: keeping_scheme(getattr(functional, name), name) for name in ("relu6", "hardtanh", "leaky_relu", "gelu")},
    **{name: keeping_scheme(getattr(functional, name), name) for name in ("pad", "threshold")},
    **{name: keeping_scheme(getattr(functional, name), name) for name in ("max_pool1d", "max_pool2d", "max_pool3d")},
    **{name: _averaging(getattr(functional, name), name) for name in ("avg_pool1d", "avg_pool2d", "avg_pool3d")},
    **{
        name: _averaging(getattr(functional, name), name)
        for name in (f"adaptive_avg_pool{rank}d" for rank in (1, 2, 3))
    },
    "mean": _averaging(torch.mean, "mean"),
    "sigmoid": _with_own_scheme(torch.sigmoid, "sigmoid", 1 / 256, lowest=True),
    "hardsigmoid": _with_own_scheme(functional.hardsigmoid, "hardsigmoid", 1 / 256, lowest=True),
    "tanh": _with_own_scheme(torch.tanh, "tanh", 2 / 256, lowest=False),
    "cat": concatenated,
    "concat": concatenated,
    "stack": _stack,
    "interpolate": _interpolate,
    "dropout": _dropout,
    "dequantize": Levels.dequantize,
    "detach": lambda x: x,
    "dtype": lambda x: x.dtype,
    "int_repr": lambda x: x.integers,
    "is_quantized": lambda x: True,
    "q_scale": _parameter("scale", False),
    "q_zero_point": _parameter("zero_point", False),
    "q_per_channel_axis": _parameter("axis", True),
    "q_per_channel_scales": _parameter("scale", True),
    "q_per_channel_zero_points": _parameter("zero_point", True),
    "qscheme": lambda x: torch.per_tensor_affine if x.axis is None else torch.per_channel_affine,
}
