"""The integers that stand for a quantized tensor."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy
import torch

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import quantized_decomposed

INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
QUANTIZED = {integers: quantized for quantized, integers in INTEGERS.items()}


@dataclasses.dataclass(frozen=True)
class Levels:
    """``integers`` and the scheme. Scale and zero point are numbers, tensors of one element, or tensors with an element
    for each index along ``axis``."""

    integers: torch.Tensor
    scale: Any
    zero_point: Any
    axis: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        return QUANTIZED[self.integers.dtype]

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

    def per_tensor(self, what: str) -> Levels:
        if self.axis is not None:
            raise UnsupportedError(f"{what}() of a tensor quantized per channel is not supported; dequantize it before")
        return self

    def moved(self, integers: torch.Tensor) -> Levels:
        return dataclasses.replace(self, integers=integers)

    def quantized_alike(self, values: torch.Tensor) -> Levels:
        return quantized(values, self.scale, self.zero_point, self.dtype)

    def in_steps(self) -> Levels:
        """The same integers with a scale of 1, so that sums and products are exact."""
        one = torch.ones_like(self.scale) if isinstance(self.scale, torch.Tensor) else 1.0
        return dataclasses.replace(self, scale=one)


def quantized(x: torch.Tensor, scale: Any, zero_point: Any, dtype: torch.dtype, axis: int | None = None) -> Levels:
    if dtype not in INTEGERS:
        raise UnsupportedError(f"quantization to {dtype} is not supported; use torch.quint8 or torch.qint8")
    if x.dtype != torch.float32:
        raise UnsupportedError(f"a tensor of {x.dtype} cannot be quantized; convert it to torch.float32 before")
    integers = INTEGERS[dtype]
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
    return Levels(levels, scale, zero_point, axis)
