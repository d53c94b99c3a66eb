"""Scenario 5: an onnxscript function in its own domain, kept as a function in the model."""

from __future__ import annotations

from typing import Any

import onnxscript
import torch
from onnxscript import opset18 as op
from scenario import Row, check, table

import opbridge

# --8<-- [start:function]
custom_opset = onnxscript.values.Opset(domain="custom-onnx-script", version=1)


@onnxscript.script(custom_opset, default_opset=op)
def Selu(X, alpha: float = 1.67326, gamma: float = 1.0507):
    alpha_x = op.CastLike(alpha, X)
    gamma_x = op.CastLike(gamma, X)
    neg = gamma_x * (alpha_x * op.Exp(X) - alpha_x)
    pos = gamma_x * X
    zero = op.CastLike(0, X)
    return op.Where(zero >= X, neg, pos)


# --8<-- [end:function]


# --8<-- [start:symbolic]
def selu_symbolic(g: Any, x: Any) -> Any:
    return g.onnxscript_op(Selu, x, alpha=1.6732632423543772, gamma=1.0507009873554805).setType(x.type())


# --8<-- [end:symbolic]


def rows() -> list[Row]:
    opbridge.register_custom_op_symbolic("aten::selu", selu_symbolic, 18)
    try:
        return [
            check(
                "Selu as an ONNX function",
                "mapping, runtime",
                torch.nn.SELU(),
                (torch.randn(2, 3),),
                custom_opsets={"custom-onnx-script": 1},
            )
        ]
    finally:
        opbridge.unregister_custom_op_symbolic("aten::selu", 18)


if __name__ == "__main__":
    print(table(rows()))
