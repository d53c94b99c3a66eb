"""Functions for a custom_translation_table, as torch's tutorials write them."""

from __future__ import annotations

from typing import Any

import onnxscript
from onnxscript import opset11, opset18
from onnxscript import opset18 as op

domain = onnxscript.values.Opset("of.the.table", 1)


def add(self: Any, other: Any, alpha: float = 1.0) -> Any:
    if alpha != 1.0:
        other = op.Mul(other, op.CastLike(alpha, other))
    return op.Add(self, other)


@onnxscript.script(domain)
def HardSwishOfTable(x):
    return op.Mul(x, op.HardSigmoid(x, alpha=0.16666667, beta=0.5))


hard_swish = HardSwishOfTable


def softmax(self: Any, dim: int, dtype: Any = None) -> Any:
    shifted = self - op.ReduceMax(self, op.Constant(value_ints=[dim]), keepdims=1)
    exponential = op.Exp(shifted)
    return exponential / opset18.ReduceSum(exponential, [dim])


def softmax_of_opset_11(self: Any, dim: int, dtype: Any = None) -> Any:
    return opset11.Softmax(self, axis=dim)


def halves(self: Any, chunks: int, dim: int = 0) -> Any:
    return op.Split(self, axis=dim, num_outputs=chunks)
