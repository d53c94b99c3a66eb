"""The operators of ``torch.ops.quantized``, on levels: they compute with the values, and quantize the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch.nn import functional

from opbridge.capture.rewrites.quantized.functions import FUNCTIONS, concatenated
from opbridge.capture.rewrites.quantized.levels import Levels, quantized
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import quantized_decomposed


@dataclasses.dataclass(frozen=True)
class Packed:
    """Stands for the packed weights of a linear layer or of a convolution; ``options`` are the convolution's.

    Weights of half precision are a float tensor.
    """

    weight: Levels | torch.Tensor
    bias: torch.Tensor | None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def values(self) -> torch.Tensor:
        return self.weight.dequantize() if isinstance(self.weight, Levels) else self.weight.to(torch.float32)


def _linear(x: torch.Tensor, packed: Packed) -> torch.Tensor:
    return functional.linear(x, packed.values, packed.bias)


def _linear_relu(x: torch.Tensor, packed: Packed) -> torch.Tensor:
    return _linear(x, packed).relu()


def _convolution(rank: int, transposed: bool = False) -> Callable[[torch.Tensor, Packed], torch.Tensor]:
    function = getattr(functional, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")

    def convolve(x: torch.Tensor, packed: Packed) -> torch.Tensor:
        weight, options = packed.values, packed.options
        if weight.dim() == rank + 3:  # PyTorch packs one dim as two
            weight = weight.squeeze(2)
            options = {name: value[1:] if isinstance(value, list) else value for name, value in options.items()}
        result: torch.Tensor = function(x, weight, packed.bias, **options)
        return result

    return convolve


def _packing(weight: Levels, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Packed:
    return Packed(weight, bias, {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups})


def rounding_by_extrema(reduce_range: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function that rounds to the quantization grid derived from the input's extrema. A reduced range halves
    the number of grid points."""
    choose, rounded = _of_extrema(reduce_range)
    return lambda x: rounded(x, choose(x))


def _of_extrema(reduce_range: bool) -> tuple[Callable[..., Any], Callable[..., torch.Tensor]]:
    """Returns two functions, which torch can capture in a loop: one chooses the scheme, one rounds by it."""
    reduces = reduce_range and torch.backends.quantized.engine != "qnnpack"  # kernels of qnnpack ignore reduce_range
    operators, most = quantized_decomposed(), 127 if reduces else 255
    choose, quantize = operators.choose_qparams.tensor, operators.quantize_per_tensor.tensor
    dequantize = operators.dequantize_per_tensor.tensor

    def rounded(x: torch.Tensor, scheme: Any) -> torch.Tensor:
        values: torch.Tensor = dequantize(quantize(x, *scheme, 0, 255, torch.uint8), *scheme, 0, 255, torch.uint8)
        return values

    return lambda x: choose(x, 0, most, _SMALLEST_SCALE, torch.uint8), rounded


_SMALLEST_SCALE = 6.1e-5


def _dynamic(
    compute: Callable[[torch.Tensor, Packed], torch.Tensor], rounds_results: bool = False
) -> Callable[..., torch.Tensor]:
    """Applies ``compute`` to a float input that is rounded first. PyTorch also rounds results of convolutions, by the
    same scheme."""

    def call(x: torch.Tensor, packed: Packed, reduce_range: bool = False) -> torch.Tensor:
        choose, rounded = _of_extrema(reduce_range)
        scheme = choose(x)
        result = compute(rounded(x, scheme), packed)
        return rounded(result, scheme) if rounds_results else result

    return call


def _batch_norm(x: Levels, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> torch.Tensor:
    return functional.batch_norm(_values(x), mean, var, weight, bias, eps=eps)


def _instance_norm(x: Levels, weight: Any, bias: Any, eps: float) -> torch.Tensor:
    return functional.instance_norm(_values(x), weight=weight, bias=bias, eps=eps)


def _values(x: Levels) -> torch.Tensor:
    return x.per_tensor("it").dequantize()


def _of_values(compute: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Applies ``compute`` to the values of the first input. The other inputs are numbers or float tensors."""
    return lambda x, *args, **kwargs: compute(_values(x), *args, **kwargs)


def _of_two(function: Callable[..., torch.Tensor]) -> Callable[[Levels, Levels], torch.Tensor]:
    def compute(a: Any, b: Any) -> torch.Tensor:
        if not isinstance(a, Levels) or not isinstance(b, Levels):
            raise UnsupportedError("a quantized operator of a tensor and a number needs add_scalar or mul_scalar")
        return function(_values(a), _values(b))

    return compute


def _prelu(x: Levels, weight: Levels) -> torch.Tensor:
    """PyTorch multiplies positive elements by 1, quantized by the scheme of the weights."""
    values, one = _values(x), weight.quantized_alike(torch.ones(())).dequantize()
    return torch.where(values > 0, values * one, functional.prelu(values, _values(weight)))


def _requantized(compute: Callable[..., torch.Tensor], inputs: int, relu: bool = False) -> Callable[..., Levels]:
    """Applies ``compute`` to the inputs; the arguments after them are the scale and the zero point of the result."""

    def call(*args: Any, **kwargs: Any) -> Levels:
        given, scheme = list(args), []
        for name in ("zero_point", "scale"):
            named = [kwargs.pop(key) for key in (name, f"output_{name}") if key in kwargs]
            scheme.append(named[0] if named else given.pop() if given else None)
        zero_point, scale = scheme
        if len(given) + len(kwargs) != inputs or not isinstance(scale, int | float) or not isinstance(zero_point, int):
            raise UnsupportedError("this form of a quantized operator is not supported; use the module of torch.ao")
        if not isinstance(given[0], Levels):
            raise UnsupportedError("a quantized operator has an input that is not quantized; quantize it before")
        result = compute(*given, **kwargs)
        return quantized(result.relu() if relu else result, scale, zero_point, given[0].dtype)

    return call


def _elu(
    x: Levels,
    output_scale: float,
    output_zero_point: int,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
) -> Levels:
    values = _values(x)
    negative = torch.expm1(values * input_scale) * (alpha * scale)
    return quantized(torch.where(values < 0, negative, values * scale), output_scale, output_zero_point, x.dtype)


def _celu(x: Levels, output_scale: float, output_zero_point: int, alpha: float = 1.0) -> Levels:
    return _elu(x, output_scale, output_zero_point, alpha, input_scale=1 / alpha)


def _with_scalar(of_two: Callable[..., Levels], of_number: Callable[[Levels, float], Levels]) -> Callable[..., Levels]:
    """The overloads of two tensors, and of a tensor and a number in either order."""

    def call(a: Any, b: Any, *args: Any, **kwargs: Any) -> Levels:
        if isinstance(a, int | float):
            a, b = b, a
        if args or kwargs or not isinstance(b, int | float):
            return of_two(a, b, *args, **kwargs)
        return of_number(a, b)

    return call


def _scheme_of_numbers(x: Levels, other: Any) -> tuple[float, int]:
    x = x.per_tensor("an operator with a number")
    if not isinstance(other, int | float):
        raise UnsupportedError("a quantized operator with a number needs a Python number, not a tensor")
    if not isinstance(x.scale, int | float):
        raise UnsupportedError("a quantized operator with a number needs a scale that is a number, not a tensor")
    return float(x.scale), int(x.zero_point)


def _rectified(x: Levels, relu: bool) -> Levels:
    return x.quantized_alike(x.dequantize().relu()) if relu else x


def _plus_number(relu: bool) -> Callable[[Levels, float], Levels]:
    """Moves the zero point. If it would leave the range of the integers, increases the scale."""

    def call(x: Levels, other: float) -> Levels:
        (scale, zero_point), (least, most) = _scheme_of_numbers(x, other), x.range
        steps = int(numpy.rint(other / scale))
        moved = zero_point - steps
        if least <= moved <= most:
            return _rectified(dataclasses.replace(x, zero_point=moved), relu)
        grown = (most - moved if moved < least else moved - least) / (most - least)
        values = x.in_steps().dequantize() + steps
        end = least if moved < least else most
        return dataclasses.replace(
            quantized(values.relu() if relu else values, grown, end, x.dtype), scale=grown * scale
        )

    return call


def _times_number(relu: bool) -> Callable[[Levels, float], Levels]:
    """Changes the scale; a negative number mirrors the integers."""

    def call(x: Levels, other: float) -> Levels:
        (scale, zero_point), (least, most) = _scheme_of_numbers(x, other), x.range
        if other > 0:
            result = dataclasses.replace(x, scale=scale * other)
        elif other == 0:
            result = Levels(torch.zeros_like(x.integers), 1.0, 0)
        else:
            mirrored = (most + least - x.integers.to(torch.int64)).to(x.integers.dtype)
            result = Levels(mirrored, scale * -other, most + least - zero_point)
        return _rectified(result, relu)

    return call


def _concatenation(relu: bool) -> Callable[..., Levels]:
    def call(qx: Any, dim: int, scale: float | None = None, zero_point: int | None = None) -> Levels:
        return concatenated(qx, dim, scale, zero_point, relu)

    return call


# The keys are names of operators of torch.ops.quantized; these have a form with a ReLU.
_WITH_RELU: dict[str, tuple[Callable[..., torch.Tensor], int]] = {
    "linear": (_of_values(_linear), 2),
    **{f"conv{rank}d": (_of_values(_convolution(rank)), 2) for rank in (1, 2, 3)},
    **dict.fromkeys(("batch_norm", "batch_norm1d", "batch_norm2d", "batch_norm3d"), (_batch_norm, 6)),
}
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: _requantized(*form) for name, form in _WITH_RELU.items()},
    **{f"{name}_relu": _requantized(*form, relu=True) for name, form in _WITH_RELU.items()},
    **{
        f"conv_transpose{rank}d": _requantized(_of_values(_convolution(rank, transposed=True)), 2) for rank in (1, 2, 3)
    },
    **{f"conv{rank}d_prepack": _packing for rank in (1, 2, 3)},
    "linear_prepack": Packed,
    "linear_dynamic": _dynamic(_linear),
    "linear_relu_dynamic": _dynamic(_linear_relu),
    **{f"conv{rank}d_dynamic": _dynamic(_convolution(rank), True) for rank in (1, 2, 3)},
    **{f"conv_transpose{rank}d_dynamic": _dynamic(_convolution(rank, transposed=True), True) for rank in (1, 2, 3)},
    "linear_dynamic_fp16": _linear,  # the weights alone are rounded
    "linear_relu_dynamic_fp16": _linear_relu,
    "add": _with_scalar(_requantized(_of_two(torch.add), 2), _plus_number(False)),
    "add_relu": _with_scalar(_requantized(_of_two(torch.add), 2, relu=True), _plus_number(True)),
    "mul": _with_scalar(_requantized(_of_two(torch.mul), 2), _times_number(False)),
    "mul_relu": _with_scalar(_requantized(_of_two(torch.mul), 2, relu=True), _times_number(True)),
    "add_scalar": _plus_number(False),
    "add_scalar_relu": _plus_number(True),
    "mul_scalar": _times_number(False),
    "mul_scalar_relu": _times_number(True),
    "matmul": _requantized(_of_two(torch.matmul), 2),
    "prelu": _requantized(_prelu, 2),
    "cat": _concatenation(False),
    "cat_relu": _concatenation(True),
    "sigmoid": _requantized(_of_values(torch.sigmoid), 1),
    "hardswish": _requantized(_of_values(functional.hardswish), 1),
    "softmax": _requantized(_of_values(torch.softmax), 2),
    "leaky_relu": _requantized(_of_values(functional.leaky_relu), 3),
    "layer_norm": _requantized(_of_values(functional.layer_norm), 5),
    "group_norm": _requantized(_of_values(functional.group_norm), 5),
    "instance_norm": _requantized(_instance_norm, 4),
    "elu": _elu,
    "celu": _celu,
    **{name: FUNCTIONS[name] for name in ("relu6", "clamp", "threshold", "max_pool1d", "max_pool2d")},
    "dropout": lambda x, scale, zero_point, p=0.5, training=False: FUNCTIONS["dropout"](x, p, training),
}
