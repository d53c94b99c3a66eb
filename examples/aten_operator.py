"""Scenario 1: an ATen operator without a mapping, `asinh`: registered in three ways, bundled, or wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from scenario import Row, check, table

import opbridge


# --8<-- [start:model]
class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.asinh(x)


# --8<-- [end:model]


# --8<-- [start:symbolic]
def asinh_symbolic(g: Any, input: Any, *, out: Any = None) -> Any:
    return g.op("Asinh", input)


# --8<-- [end:symbolic]


def rows() -> list[Row]:
    x = (torch.rand(1, 3, 10, 10),)
    result = [check("asinh, bundled", "none missing", Model(), x)]

    opbridge.register_op("asinh", asinh_symbolic, "", 9)
    result.append(check("asinh by register_op", "mapping", Model(), x, opset_version=9))
    opbridge.unregister_custom_op_symbolic("aten::asinh", 9)

    opbridge.register_custom_op_symbolic("aten::asinh", asinh_symbolic, 9)
    result.append(check("asinh by register_custom_op_symbolic", "mapping", Model(), x, opset_version=9))
    opbridge.unregister_custom_op_symbolic("aten::asinh", 9)

    opbridge.symbolic("aten::asinh", opset=9)(asinh_symbolic)
    result.append(check("asinh by @symbolic", "mapping", Model(), x, opset_version=9))
    opbridge.unregister_custom_op_symbolic("aten::asinh", 9)
    return result


def wrong_functions() -> dict[str, Callable[..., Any]]:
    """Symbolic functions that ONNX does not allow, keyed by their mistake."""

    def misspelled(g: Any, input: Any) -> Any:
        return g.op("Asinhh", input)

    def two_inputs(g: Any, input: Any) -> Any:
        return g.op("Asinh", input, input)

    def unknown_attribute(g: Any, input: Any) -> Any:
        return g.op("Asinh", input, base_i=2)

    def too_new(g: Any, input: Any) -> Any:
        return g.op("Mish", input)

    return {
        "a misspelled name": misspelled,
        "two inputs": two_inputs,
        "an unknown attribute": unknown_attribute,
        "an opset too low": too_new,
    }


def error_of(function: Callable[..., Any]) -> str:
    """The error message of an export with a wrong symbolic function."""
    opbridge.register_custom_op_symbolic("aten::asinh", function, 9)
    try:
        check("wrong", "mapping", Model(), (torch.rand(2, 3),), opset_version=9)
    except opbridge.InvalidNodeError as error:
        return str(error)
    finally:
        opbridge.unregister_custom_op_symbolic("aten::asinh", 9)
    raise AssertionError(f"{function.__name__} was accepted")


if __name__ == "__main__":
    print(table(rows()))
    for what, function in wrong_functions().items():
        print(f"\nwith {what}:\n{error_of(function)}")
