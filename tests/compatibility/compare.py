"""Exports one call with torch.onnx.export(dynamo=False) and with opbridge, and compares the nodes."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

import opbridge
from checking.errors import first_line

SAME = "same nodes"


class _Model(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


def compare(call: Callable[..., Any], inputs: Sequence[torch.Tensor], opset: int) -> str:
    """SAME, or what differs."""
    model, args = _Model(call).eval(), tuple(inputs)
    file = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, args, file, dynamo=False, opset_version=opset, do_constant_folding=False)
    except Exception as error:
        return f"torch.onnx.export fails: {_without_paths(first_line(error))}"
    try:
        program = opbridge.export(model, args, opset_version=opset, simplify=False)
    except Exception as error:
        return f"opbridge.export fails: {_without_paths(first_line(error))}"
    expected, actual = _nodes(onnx.load_from_string(file.getvalue())), _nodes(program.model_proto)
    if actual == expected:
        return SAME
    return f"{_only(actual, expected)} instead of {_only(expected, actual)}"


def _without_paths(message: str) -> str:
    return re.sub(r" \(/[^)]*\)", "", message)


def _only(some: list[str], others: list[str]) -> list[str]:
    return [node for node in some if node not in others]


def _nodes(model: onnx.ModelProto) -> list[str]:
    """Each node as text, without names; constants are in the place of their use."""
    constants = {node.output[0]: _content(node) for node in model.graph.node if node.op_type == "Constant"}
    constants |= {tensor.name: _text(onnx.numpy_helper.to_array(tensor)) for tensor in model.graph.initializer}
    return sorted(
        f"{node.domain}::{node.op_type}{[constants.get(name, name and 'computed') for name in node.input]} "
        f"{_attributes(node)} {len(node.output)}"
        for node in model.graph.node
        if node.op_type not in ("Constant", "Identity")
    )


def _content(node: onnx.NodeProto) -> str:
    (attribute,) = node.attribute
    return _text(onnx.numpy_helper.to_array(attribute.t)) if attribute.name == "value" else str(attribute)


def _attributes(node: onnx.NodeProto) -> list[str]:
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    return sorted(f"{name}={value}" for name, value in values.items())


def _text(array: Any) -> str:
    return f"{array.dtype}{array.shape}{np.asarray(array).reshape(-1).tolist()}"


@contextlib.contextmanager
def registered(operator: str, function: Callable[..., Any], opset: int) -> Iterator[None]:
    torch.onnx.register_custom_op_symbolic(operator, function, opset)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic(operator, opset)
