"""Quantized tensors that a model makes and consumes itself: as integers, with their scales and zero points.

A product of quantized tensors is computed by its dequantized form: of the float values, then quantized again. PyTorch
adds integers up instead, so a result that is nearly halfway between two levels may be the other one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import torch
from torch.ao.nn.intrinsic.quantized.dynamic import LinearReLU as DynamicLinearReLU
from torch.ao.nn.quantized import Conv1d, Conv2d, Conv3d, Embedding, EmbeddingBag, Quantize
from torch.ao.nn.quantized.dynamic import Conv1d as DynamicConv1d
from torch.ao.nn.quantized.dynamic import Conv2d as DynamicConv2d
from torch.ao.nn.quantized.dynamic import Conv3d as DynamicConv3d
from torch.ao.nn.quantized.dynamic import Linear as DynamicLinear
from torch.ao.nn.quantized.modules.embedding_ops import EmbeddingPackedParams
from torch.ao.nn.quantized.modules.linear import LinearPackedParams
from torch.nn import functional

from opbridge.capture.patching import patch
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import (
    OpOverload,
    OpOverloadPacket,
    buffers_of,
    packed_weights_of,
    pytree,
    quantized_decomposed,
    wrapper_of_no_memory,
)
from opbridge.torch_compat import patch_points as points

_INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
_QUANTIZED = {integers: quantized for quantized, integers in _INTEGERS.items()}
# The modules whose packed weights have stand-ins, and subclasses of them that compute something else.
_HOLDERS = (LinearPackedParams, EmbeddingPackedParams, Conv1d, Conv2d, Conv3d)
_OTHER_HOLDERS = (DynamicConv1d, DynamicConv2d, DynamicConv3d)
_SMALLEST_SCALE = 6.1e-5  # of dynamic quantization


@contextlib.contextmanager
def patch_quantized(model: Any) -> Iterator[None]:
    """Replaces the functions that make quantized tensors, and the quantized weights of the modules."""
    with contextlib.ExitStack() as until_the_end:
        for module in model.modules() if isinstance(model, torch.nn.Module) else ():
            until_the_end.enter_context(_without_quantized_tensors(module))
        for point, function in _MAKERS.items():
            until_the_end.enter_context(patch(point, function))
        yield


@contextlib.contextmanager
def _without_quantized_tensors(module: torch.nn.Module) -> Iterator[None]:
    """Hides the quantized tensors and the packed weights, which no capture can represent, behind their stand-ins."""
    kind, parts = type(module), [buffers_of(module), module.__dict__]
    stand_ins = [
        {name: made for name, value in part.items() if (made := _stand_in_of(value, kind)) is not None}
        for part in parts
    ]
    members: dict[str, Any] = {}
    for name, made in {**stand_ins[0], **stand_ins[1]}.items():
        members[name] = property(functools.partial(lambda value, _: value, made))
    if forward := _forward_of(module):
        members["forward"] = forward
    if not members:
        yield
        return
    before = [dict(part) for part in parts]
    for part, made in zip(parts, stand_ins, strict=True):
        for name in made:
            del part[name]
    members |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    module.__class__ = type(kind.__name__, (kind,), members)
    try:
        yield
    finally:
        module.__class__ = kind
        for part, made, values in zip(parts, stand_ins, before, strict=True):
            part.update({name: values[name] for name in made})
            for name in filter(part.__contains__, values):
                part[name] = part.pop(name)


@dataclasses.dataclass(frozen=True)
class _Levels:
    """``integers``, and the scheme: numbers, or tensors of one element, or tensors with one for each index along
    ``axis``."""

    integers: torch.Tensor
    scale: Any
    zero_point: Any
    axis: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        return _QUANTIZED[self.integers.dtype]

    @property
    def range(self) -> tuple[int, int]:
        info = torch.iinfo(self.integers.dtype)
        return info.min, info.max

    def dequantize(self) -> torch.Tensor:
        values: torch.Tensor
        operators, integers = quantized_decomposed(), self.integers
        if isinstance(self.zero_point, torch.Tensor) and self.zero_point.is_floating_point():
            raise UnsupportedError("zero points that are floating-point numbers are not supported; use integers")
        if integers.dtype == torch.int32:
            values = (integers.to(torch.float32) - self.zero_point) * self.scale
        elif self.axis is not None:
            values = operators.dequantize_per_channel(
                integers, self.scale, self.zero_point, self.axis, *self.range, integers.dtype
            )
        else:
            # The overload follows from the types of the scale and of the zero point.
            form = operators.dequantize_per_tensor
            form = form.tensor if isinstance(self.scale, torch.Tensor) else form.default
            values = form(integers, self.scale, self.zero_point, *self.range, integers.dtype)
        return values

    def per_tensor(self, what: str) -> _Levels:
        if self.axis is not None:
            raise UnsupportedError(f"{what}() of a tensor quantized per channel is not supported; dequantize it before")
        return self

    def moved(self, integers: torch.Tensor) -> _Levels:
        return dataclasses.replace(self, integers=integers)

    def quantized_alike(self, values: torch.Tensor) -> _Levels:
        return _quantized(values, self.scale, self.zero_point, self.dtype)


def _quantized(x: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype, axis: int | None = None) -> _Levels:
    if dtype not in _INTEGERS:
        raise UnsupportedError(f"quantization to {dtype} is not supported; use torch.quint8 or torch.qint8")
    if x.dtype != torch.float32:
        raise UnsupportedError(f"a tensor of {x.dtype} is quantized, which must be of torch.float32; convert it before")
    integers = _INTEGERS[dtype]
    info = torch.iinfo(integers)
    operators = quantized_decomposed()
    if dtype == torch.qint32:
        if axis is not None or isinstance(scale, torch.Tensor) or isinstance(zero_point, torch.Tensor):
            raise UnsupportedError("quantization to torch.qint32 needs a scale and a zero point that are numbers")
        inverse = float(numpy.float32(1) / numpy.float32(scale))
        levels = torch.round(x * inverse).to(torch.int64) + zero_point
        levels = torch.clamp(levels, info.min, info.max).to(torch.int32)
    elif axis is not None:
        levels = operators.quantize_per_channel(x, scale, zero_point, axis, info.min, info.max, integers)
    elif isinstance(scale, torch.Tensor):
        levels = operators.quantize_per_tensor.tensor(x, scale, zero_point, info.min, info.max, integers)
    else:
        levels = operators.quantize_per_tensor.default(x, scale, zero_point, info.min, info.max, integers)
    return _Levels(levels, scale, zero_point, axis)


class QuantizedTensor(torch.Tensor):
    """Stands for a quantized tensor; functions of torch get its levels."""

    levels: _Levels
    shares_memory: bool = False  # with another one, which a function in place would change too

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _OF_NO_DATA:
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        name, known = _known(func)
        if name in ("is_sparse", "_is_zerotensor"):  # a capture asks this of results
            raise UnsupportedError(
                "the model returns a quantized tensor, which ONNX does not have; return its dequantize() or int_repr()"
            )
        if known is None:
            raise UnsupportedError(
                f"{name}() of a quantized tensor is not supported; call dequantize() before it, and quantize its result"
            )
        kwargs = dict(kwargs or {})
        in_place = bool(kwargs.pop("inplace", False)) or name in _IN_PLACE
        levels, options = pytree.tree_map_only(QuantizedTensor, lambda tensor: tensor.levels, (args, kwargs))
        result = pytree.tree_map_only(_Levels, _wrapped, known(*levels, **options))
        if name.strip("_") in _VIEWS:
            for tensor in pytree.tree_leaves((args, result)):
                if isinstance(tensor, QuantizedTensor):
                    tensor.shares_memory = True
        if not in_place:
            return result
        if args[0].shares_memory:
            raise UnsupportedError(f"{name}() in place of a view of a quantized tensor; use the function that copies")
        args[0].levels = result.levels
        return args[0]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise UnsupportedError(f"{func} of a quantized tensor is not supported; call dequantize() before")


def _known(func: Any) -> tuple[str, Callable[..., Any] | None]:
    """The name by which messages call a function, and what computes it."""
    if isinstance(func, OpOverload | OpOverloadPacket):
        _, name = str(func).split(".")[:2]
        return f"torch.ops.{func}", _OPERATORS.get(name) if str(func).startswith("quantized.") else None
    name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__  # an attribute, or a function
    if name in _IN_PLACE:
        return name, _FUNCTIONS[name.rstrip("_")]
    return name, _FUNCTIONS.get(name.removeprefix("__").removesuffix("__"))


def _wrapped(levels: _Levels) -> QuantizedTensor:
    tensor: QuantizedTensor = wrapper_of_no_memory(QuantizedTensor, levels.integers.shape, levels.integers)
    tensor.levels = levels
    return tensor


@dataclasses.dataclass(frozen=True)
class _Packed:
    """Stands for the packed weights of a module."""

    weight: _Levels
    bias: torch.Tensor | None
    convolution: dict[str, Any] = dataclasses.field(default_factory=dict)


def _levels_of(tensor: torch.Tensor) -> _Levels:
    tensor = tensor.detach()
    integers = tensor.int_repr()
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return _Levels(integers, tensor.q_scale(), tensor.q_zero_point())
    return _Levels(
        integers,
        tensor.q_per_channel_scales().to(torch.float32),
        tensor.q_per_channel_zero_points(),
        tensor.q_per_channel_axis(),
    )


def _stand_in_of(value: Any, kind: type[torch.nn.Module]) -> Any:
    """The stand-in for a quantized tensor, or for packed weights of a ``kind`` of modules; None for anything else."""
    if isinstance(value, torch.Tensor):
        return _wrapped(_levels_of(value)) if value.is_quantized and value.dtype in _INTEGERS else None
    if not isinstance(value, torch.ScriptObject) or not issubclass(kind, _HOLDERS) or issubclass(kind, _OTHER_HOLDERS):
        return None
    packed: Any = value
    unpacked = packed.unpack()
    weight, bias = unpacked if isinstance(unpacked, tuple) else (unpacked, None)
    if not weight.is_quantized or weight.dtype not in _INTEGERS:
        return None
    if not hasattr(packed, "stride"):
        return _Packed(_levels_of(weight), bias)
    if packed.transpose():
        return None
    options = {name: getattr(packed, name)() for name in ("stride", "padding", "dilation", "groups")}
    levels = _levels_of(weight)
    if issubclass(kind, Conv1d):  # PyTorch packs the weights of two dims
        levels = levels.moved(levels.integers.squeeze(2))
        options = {name: value[-1:] if isinstance(value, list) else value for name, value in options.items()}
    return _Packed(levels, bias, options)


def _forward_of(module: Any) -> Callable[..., Any] | None:
    """For modules whose inputs are not quantized tensors."""
    if isinstance(module, torch.jit.ScriptModule):
        return None
    forward = type(module).forward
    if forward is Quantize.forward:
        scale, zero_point = float(module.scale), int(module.zero_point)
        return lambda self, X: _wrapped(_quantized(X, scale, zero_point, self.dtype))
    if forward is Embedding.forward:
        return _embedding if module.dtype == torch.quint8 else None
    if forward in (DynamicLinear.forward, DynamicLinearReLU.forward) and module.weight().dtype == torch.qint8:
        relu = forward is DynamicLinearReLU.forward
        reduced = relu or (module.version is not None and module.version >= 4)
        return lambda self, x: _dynamic_linear(self, x, reduced, relu)
    if forward is EmbeddingBag.forward:
        return _refused_bag
    return None


def _refused_bag(self: Any, *_: Any, **__: Any) -> Any:
    raise UnsupportedError("a quantized EmbeddingBag is not supported; quantize nn.Embedding, and add up its rows")


def _embedding(self: Any, indices: torch.Tensor) -> torch.Tensor:
    """The rows of the integers, which the file keeps, at their own scales and zero points."""
    weight = packed_weights_of(self).weight
    scale, zero_point = weight.scale[:, None], weight.zero_point[:, None].to(torch.float32)
    rows = [functional.embedding(indices, table) for table in (weight.integers, scale, -zero_point * scale)]
    return rows[0].to(torch.float32) * rows[1] + rows[2]


def _dynamic_linear(module: Any, x: torch.Tensor, reduced: bool, relu: bool) -> torch.Tensor:
    """With the scale of the whole input, of which reduced ones have half the levels."""
    packed, operators = packed_weights_of(module), quantized_decomposed()
    scale, zero_point = operators.choose_qparams.tensor(x, 0, 127 if reduced else 255, _SMALLEST_SCALE, torch.uint8)
    values = _quantized(x, scale, zero_point, torch.quint8).dequantize()
    result = functional.linear(values, packed.weight.dequantize(), packed.bias)
    return result.relu() if relu else result


def _linear(x: _Levels, packed: _Packed) -> torch.Tensor:
    return functional.linear(x.per_tensor("linear").dequantize(), packed.weight.dequantize(), packed.bias)


def _convolution(rank: int) -> Callable[..., torch.Tensor]:
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]

    def convolve(x: _Levels, packed: _Packed) -> torch.Tensor:
        values, weight = x.per_tensor("convolution").dequantize(), packed.weight.dequantize()
        result: torch.Tensor = function(values, weight, packed.bias, **packed.convolution)
        return result

    return convolve


def _requantized(compute: Callable[..., torch.Tensor], inputs: int, relu: bool = False) -> Callable[..., _Levels]:
    """``compute`` of the inputs; then come the scale and the zero point of the result."""

    def call(*args: Any, **kwargs: Any) -> _Levels:
        values, scheme = args[:inputs], list(args[inputs:])
        scale = kwargs.pop("scale") if "scale" in kwargs else scheme.pop(0) if scheme else None
        zero_point = kwargs.pop("zero_point") if "zero_point" in kwargs else scheme.pop(0) if scheme else None
        if scheme or kwargs or not isinstance(scale, int | float) or not isinstance(zero_point, int):
            raise UnsupportedError("this form of a quantized operator is not supported; use the module of torch.ao")
        if not isinstance(values[0], _Levels):
            raise UnsupportedError("a quantized operator has an input that is not quantized; quantize it before")
        result = compute(*values)
        return _quantized(result.relu() if relu else result, scale, zero_point, values[0].dtype)

    return call


def _of_values(function: Callable[..., torch.Tensor]) -> Callable[[_Levels, _Levels], torch.Tensor]:
    def compute(a: Any, b: Any) -> torch.Tensor:
        if not isinstance(a, _Levels) or not isinstance(b, _Levels):
            raise UnsupportedError("a quantized operator of a tensor and a number is not supported; dequantize before")
        return function(a.per_tensor("it").dequantize(), b.per_tensor("it").dequantize())

    return compute


def _concatenation(relu: bool) -> Callable[..., _Levels]:
    def call(qx: Sequence[_Levels], dim: int, scale: float | None, zero_point: int | None) -> _Levels:
        values = torch.cat([each.per_tensor("cat").dequantize() for each in qx], dim)
        of = qx[0]
        scale, zero_point = of.scale if scale is None else scale, of.zero_point if zero_point is None else zero_point
        return _quantized(values.relu() if relu else values, scale, zero_point, of.dtype)

    return call


def _moving(name: str) -> Callable[..., Any]:
    """Functions that only move elements: they move the levels."""

    def call(x: _Levels, *args: Any, **kwargs: Any) -> Any:
        moved = getattr(x.per_tensor(name).integers, name)(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, x.moved, moved)

    return call


def _keeping_scheme(function: Callable[..., torch.Tensor], name: str) -> Callable[..., _Levels]:
    """Functions that compute with the values, and whose result has the scheme of the input."""

    def call(x: _Levels, *args: Any, **kwargs: Any) -> _Levels:
        return x.quantized_alike(function(x.per_tensor(name).dequantize(), *args, **kwargs))

    return call


def _parameter(what: str, per_channel: bool) -> Callable[[_Levels], Any]:
    def read(x: _Levels) -> Any:
        if per_channel != (x.axis is not None):
            raise UnsupportedError(f"{what} of a tensor that is{' not' * per_channel} quantized per channel")
        if what == "axis":
            return x.axis
        value, kind = (x.scale, torch.float64) if what == "scale" else (x.zero_point, torch.int64)
        return value.to(kind) if per_channel else value

    return read


# The keys are names of operators of torch.ops.quantized; these have a form with a ReLU.
_WITH_RELU: dict[str, Callable[..., torch.Tensor]] = {
    "linear": _linear,
    **{f"conv{rank}d": _convolution(rank) for rank in (1, 2, 3)},
    "add": _of_values(torch.add),
    "mul": _of_values(torch.mul),
}
_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: _requantized(compute, inputs=2) for name, compute in _WITH_RELU.items()},
    **{f"{name}_relu": _requantized(compute, inputs=2, relu=True) for name, compute in _WITH_RELU.items()},
    "matmul": _requantized(_of_values(torch.matmul), inputs=2),
    "cat": _concatenation(False),
    "cat_relu": _concatenation(True),
}
_IN_PLACE = {"relu_", "hardtanh_"}
_VIEWS = {
    *("chunk", "contiguous", "detach", "flatten", "getitem", "narrow", "permute", "reshape", "select", "split"),
    *("squeeze", "t", "transpose", "unbind", "unsqueeze", "view"),
}
# The keys are names of functions, methods or attributes, without the underscores around them.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _moving(name) for name in _VIEWS - {"getitem", "detach"}},
    "clone": _moving("clone"),
    "getitem": _moving("__getitem__"),
    "relu": _keeping_scheme(torch.relu, "relu"),
    "relu6": _keeping_scheme(functional.relu6, "relu6"),
    "hardtanh": _keeping_scheme(functional.hardtanh, "hardtanh"),
    **{name: _keeping_scheme(getattr(functional, name), name) for name in ("max_pool1d", "max_pool2d")},
    **{name: _keeping_scheme(getattr(functional, name), name) for name in ("avg_pool2d", "adaptive_avg_pool2d")},
    "dequantize": _Levels.dequantize,
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
# Attributes that a tensor without memory has itself.
_OF_NO_DATA = {
    *(torch.Tensor.dim, torch.Tensor.size, torch.Tensor.is_floating_point, torch.Tensor.is_complex, torch.Tensor.numel),
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
    return _wrapped(_quantized(input, scale, zero_point, dtype))


def _quantize_per_channel(
    input: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, axis: int, dtype: torch.dtype
) -> QuantizedTensor:
    if zero_points.is_floating_point():
        raise UnsupportedError("zero points that are floating-point numbers are not supported; use integers")
    return _wrapped(_quantized(input, scales, zero_points, dtype, axis % input.dim()))


def _of_integers(input: torch.Tensor, scale: float, zero_point: int) -> QuantizedTensor:
    if input.dtype not in _QUANTIZED:
        raise UnsupportedError(f"a tensor of {input.dtype} cannot be that of the levels; use torch.uint8 or torch.int8")
    return _wrapped(_Levels(input, scale, zero_point))


_MAKERS = {
    points.QUANTIZE_PER_TENSOR: _quantize_per_tensor,
    points.QUANTIZE_PER_CHANNEL: _quantize_per_channel,
    points.QUANTIZED_OF_INTEGERS: _of_integers,
}
