"""The tensor that a model sees in place of a quantized one, and the functions that make it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.rewrites.quantized.embeddings import EMBEDDINGS
from opbridge.capture.rewrites.quantized.functions import FUNCTIONS, IN_PLACE, VIEWS
from opbridge.capture.rewrites.quantized.levels import QUANTIZED, Levels, quantized
from opbridge.capture.rewrites.quantized.operators import OPERATORS
from opbridge.capture.rewrites.quantized.recurrent import CELLS, quantized_gru, quantized_lstm
from opbridge.capture.rewrites.quantized.unpacking import unpacked
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import IS_ZERO, OpOverload, OpOverloadPacket, pytree, wrapper_of_no_memory
from opbridge.torch_compat import patch_points as points

_OPERATORS = {**OPERATORS, **EMBEDDINGS, **CELLS}


class QuantizedTensor(torch.Tensor):
    """Stands for a quantized tensor, or for packed weights; functions of torch get its levels."""

    levels: Any  # Levels, or packed weights
    shares_memory: bool = False  # if it does, an in-place function would change another tensor too

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _OF_NO_DATA:
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        name, known = _known(func)
        if name in ("is_sparse", IS_ZERO):  # a capture reads these attributes of results
            raise UnsupportedError(
                "the model returns a quantized tensor, which ONNX does not have; return its dequantize() or int_repr()"
            )
        if known is None:
            raise UnsupportedError(
                f"{name}() of a quantized tensor is not supported; call dequantize() before it, and quantize its result"
            )
        kwargs = dict(kwargs or {})
        in_place = bool(kwargs.pop("inplace", False)) or name in IN_PLACE
        if func in _OF_RELU6 and len(args) > 1:
            args, in_place = args[:1], args[1]
        levels, options = pytree.tree_map(_levels_of, (args, kwargs))
        result = pytree.tree_map_only(Levels, wrapped, known(*levels, **options))
        if name.strip("_") in VIEWS:
            for tensor in pytree.tree_leaves((args, result)):
                if isinstance(tensor, QuantizedTensor):
                    tensor.shares_memory = True
        if not in_place:
            return result
        if args[0].shares_memory:
            raise UnsupportedError(
                f"in-place {name}() of a view of a quantized tensor is not supported; use the function that copies"
            )
        args[0].levels = result.levels
        return args[0]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise UnsupportedError(f"{func} of a quantized tensor is not supported; call dequantize() before")


def _known(func: Any) -> tuple[str, Callable[..., Any] | None]:
    """The name of a function in messages, and the function that computes it on levels."""
    if isinstance(func, OpOverload | OpOverloadPacket):
        _, name = str(func).split(".")[:2]
        return f"torch.ops.{func}", _OPERATORS.get(name) if str(func).startswith("quantized.") else None
    name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__  # an attribute, or a function
    if name in IN_PLACE:
        return name, FUNCTIONS[name.rstrip("_")]
    return name, FUNCTIONS.get(name.removeprefix("__").removesuffix("__"))


def _levels_of(argument: Any) -> Any:
    if isinstance(argument, QuantizedTensor):
        return argument.levels
    if isinstance(argument, torch.Tensor | torch.ScriptObject):
        made = unpacked(argument)
        return argument if made is None else made
    return argument


def wrapped(levels: Levels) -> QuantizedTensor:
    return stands_for(levels, levels.integers)


def stands_for(levels: Any, like: torch.Tensor) -> QuantizedTensor:
    """A tensor of the sizes of ``like``."""
    tensor: QuantizedTensor = wrapper_of_no_memory(QuantizedTensor, like.shape, like)
    tensor.levels = levels
    return tensor


_OF_RELU6 = (torch.ops.quantized.relu6, torch.ops.quantized.relu6.default)  # they take ``inplace`` by position
# Attributes that even a tensor without memory has.
_OF_NO_DATA = {
    *(torch.Tensor.dim, torch.Tensor.size, torch.Tensor.is_floating_point, torch.Tensor.is_complex, torch.Tensor.numel),
    torch.Tensor.__len__,
    *(
        getattr(torch.Tensor, name).__get__
        for name in ("shape", "ndim", "device", "requires_grad", "is_cuda", "is_meta", "is_nested", "layout")
    ),
}


def _quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: torch.dtype) -> QuantizedTensor:
    if not isinstance(input, torch.Tensor):
        raise UnsupportedError("quantize_per_tensor() of a list of tensors is not supported; quantize them one by one")
    tensors = isinstance(scale, torch.Tensor), isinstance(zero_point, torch.Tensor)
    if tensors[0] != tensors[1]:
        raise UnsupportedError("quantize_per_tensor() needs two numbers or two tensors as scale and zero point")
    return wrapped(quantized(input, scale, _wide(zero_point) if tensors[1] else zero_point, dtype))


def _quantize_per_channel(
    input: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, dtype: torch.dtype
) -> QuantizedTensor:
    return wrapped(quantized(input, scales, _wide(zero_points), dtype, axis % input.dim()))


def _of_integers(input: torch.Tensor, scale: float, zero_point: int) -> QuantizedTensor:
    _require_levels(input)
    return wrapped(Levels(input, scale, zero_point))


def _channels_of_integers(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int
) -> QuantizedTensor:
    _require_levels(input)
    return wrapped(Levels(input, scale, _wide(zero_point), axis))


def _wide(zero_points: torch.Tensor) -> torch.Tensor:
    """The zero points as a quantized tensor holds them: differences from integers of fewer bits would wrap around."""
    if zero_points.is_floating_point():
        raise UnsupportedError("zero points that are floating-point numbers are not supported; use integers")
    return zero_points.to(torch.int64)


def _require_levels(input: torch.Tensor) -> None:
    if input.dtype not in QUANTIZED:
        raise UnsupportedError(f"a tensor of {input.dtype} cannot hold the levels; use torch.uint8 or torch.int8")


def _dequantize(input: Any = None, *, tensor: Any = None, tensors: Any = None) -> Any:
    """Also accepts tensors that are not quantized; converts them to float32."""
    given = next(each for each in (input, tensor, tensors) if each is not None)
    if isinstance(given, list | tuple):
        return [_dequantize(each) for each in given]
    if isinstance(given, QuantizedTensor):
        return given.levels.dequantize()
    return points.DEQUANTIZE.original(given) if given.is_quantized else given.to(torch.float32)


MAKERS = {
    points.QUANTIZE_PER_TENSOR: _quantize_per_tensor,
    points.QUANTIZE_PER_CHANNEL: _quantize_per_channel,
    points.QUANTIZED_OF_INTEGERS: _of_integers,
    points.QUANTIZED_CHANNELS_OF_INTEGERS: _channels_of_integers,
    points.DEQUANTIZE: _dequantize,
    points.DEQUANTIZE_METHOD: _dequantize,
    points.QUANTIZED_LSTM: quantized_lstm,
    points.QUANTIZED_GRU: quantized_gru,
}
