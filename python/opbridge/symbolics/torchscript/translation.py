"""Makes the nodes of a TorchScript graph again in the ONNX graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.dtypes import ELEMENT_TYPES
from opbridge.symbolics.builder import GraphContext
from opbridge.symbolics.values import SequenceType, ValueType
from opbridge.symbolics.values import Value as OnnxValue
from opbridge.torch_compat.torchscript_exporter import Block, ListType, Node, OptionalType, TensorType, Value

_ONNX = "onnx::"
_BODIES = {"onnx::If": ("then_branch", "else_branch"), "onnx::Loop": ("body",), "onnx::Scan": ("body",)}
_INT64 = ELEMENT_TYPES[torch.int64]
_BOOL = ELEMENT_TYPES[torch.bool]


class Translation:
    """``functions`` are the onnxscript functions that nodes call, by the kind of the nodes."""

    def __init__(self, functions: Mapping[str, Any]) -> None:
        self._functions = functions
        self._values: dict[int, OnnxValue | None] = {}

    def define(self, tensors: Mapping[int, _core.Value]) -> None:
        self._values |= {number: OnnxValue(core) for number, core in tensors.items()}

    def translate(self, g: GraphContext, nodes: Iterable[Node]) -> None:
        for node in nodes:
            outputs = list(node.outputs())
            if all(output.unique() in self._values for output in outputs):
                continue  # a constant of the model
            made = self._made(g, node)
            for output, value in zip(outputs, made, strict=True):
                self._values[output.unique()] = value

    def value(self, value: Value) -> OnnxValue | None:
        return self._values[value.unique()]

    def declared_type(self, value: Value) -> TensorType | None:
        """The type that the function has set, for a result of an operator that ONNX does not know."""
        type = value.type()
        kind = value.node().kind()
        is_custom = not kind.startswith((_ONNX, "prim::"))
        return type if is_custom and isinstance(type, TensorType) and type.dtype() is not None else None

    def _made(self, g: GraphContext, node: Node) -> Sequence[OnnxValue | None]:
        kind = node.kind()
        if node.mustBeNone():
            return [None]
        if kind.startswith(("prim::", "aten::")):
            g.refuse(f"the symbolic function makes a node {kind}, which is not an ONNX operator: {_line_of(node)}")
        inputs = [self.value(value) for value in node.inputs()]
        if kind == "onnx::Constant" and node.attributeNames() == ["value"]:
            return [g.op("Constant", value_t=_kind_and_value(node, "value")[1])]
        attributes = dict(_attribute(node, name) for name in node.attributeNames())
        for name, block in zip(_BODIES.get(kind, ()), node.blocks(), strict=bool(list(node.blocks()))):
            attributes[f"{name}_g"] = self._body(g, name, block, node)
        count = node.outputsSize()
        if function := self._functions.get(kind):
            made = g.onnxscript_op(function, *inputs, outputs=count, **attributes)
        else:
            made = g.op(kind.removeprefix(_ONNX), *inputs, outputs=count, **attributes)
        values = [made] if isinstance(made, OnnxValue) else list(made)
        for value, output in zip(values, node.outputs(), strict=True):
            _declare(value, output)
        return values

    def _body(self, g: GraphContext, name: str, block: Block, node: Node) -> _core.Subgraph:
        taken = list(block.inputs())

        def build(g: GraphContext, *values: OnnxValue) -> Any:
            self._values |= {one.unique(): value for one, value in zip(taken, values, strict=True)}
            self.translate(g, block.nodes())
            return [self.value(output) for output in block.outputs()]

        return g.subgraph(name, [self._type_in_body(node, i, each) for i, each in enumerate(taken)], build)

    def _type_in_body(self, node: Node, index: int, value: Value) -> ValueType:
        """The type of a body's input. A loop may change the sizes of the values that it carries."""
        if node.kind() != "onnx::Loop":
            return ValueType(_element_type(value), None)
        given = list(node.inputs())[index]
        if index < 2:  # iteration and condition; the runtime gives them the rank of the loop's first inputs
            type = given.type()
            is_list = isinstance(type, TensorType) and type.dim() == 1
            return ValueType(_BOOL if index else _INT64, [1] if is_list else [])
        carried = self.value(given)
        return ValueType(0 if carried is None else carried.core.element_type, None)


def _attribute(node: Node, name: str) -> tuple[str, Any]:
    """The attribute as a keyword of ``g.op``: the name with its suffix, and the value."""
    kind, value = _kind_and_value(node, name)
    if kind in ("ty", "tys"):
        return f"{name}_tp", [_onnx_type(each) for each in value] if kind == "tys" else _onnx_type(value)
    return f"{name}_{kind[0]}", value


def _kind_and_value(node: Node, name: str) -> tuple[str, Any]:
    kind = node.kindOf(name)
    if kind == "c":  # what kindOf says for a list of floats
        kind = "fs"
    return kind, getattr(node, kind)(name)


def _onnx_type(type: Any) -> ValueType | SequenceType:
    if isinstance(type, OptionalType):
        type = type.getElementType()
    if isinstance(type, ListType):
        element = _onnx_type(type.getElementType())
        if isinstance(element, ValueType):
            return SequenceType(element)
    dtype = type.dtype() if isinstance(type, TensorType) else None
    if dtype is None:
        raise TypeError(f"the type {type} has no counterpart in ONNX")
    return ValueType(ELEMENT_TYPES[dtype], _static_sizes(type))


def _declare(value: OnnxValue, output: Value) -> None:
    """Sets the type that the function has declared for an output of an operator that ONNX does not know."""
    type = output.type()
    if value.core.element_type or not isinstance(type, TensorType):
        return
    if (dtype := type.dtype()) is not None:
        value.setType(ValueType(ELEMENT_TYPES[dtype], _static_sizes(type)))


def _static_sizes(type: TensorType) -> list[int] | None:
    sizes = type.sizes()  # None if one is unknown
    return None if sizes is None else list(sizes)


def _element_type(value: Value) -> int:
    type = value.type()
    dtype = type.dtype() if isinstance(type, TensorType) else None
    return 0 if dtype is None else ELEMENT_TYPES[dtype]


def _line_of(node: Node) -> str:
    return str(node).strip().split(" = ", 1)[-1]
