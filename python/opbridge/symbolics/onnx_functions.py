"""onnxscript functions as functions of the exported model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnxscript

# By onnx.AttributeProto.AttributeType: a single value and a list have the same suffix.
_KINDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "f", 7: "i", 8: "s", 9: "t", 10: "g", 11: "t", 12: "t"}
_KINDS |= {13: "tp", 14: "tp"}


def function_protos(function: onnxscript.OnnxFunction[Any, Any]) -> list[tuple[str, str, int, bytes]]:
    """The function and those that it calls: domain, name, version of the domain, serialized FunctionProto."""
    called = [function, *function.function_ir.get_called_functions().values()]
    return [
        (each.opset.domain, each.name, int(each.opset.version), each.to_function_proto().SerializeToString())
        for each in called
    ]


def attribute_kinds(function: onnxscript.OnnxFunction[Any, Any]) -> dict[str, str | None]:
    """The attributes that the function takes, each with its kind as a suffix of torch.onnx, if the body tells it."""
    proto = function.to_function_proto()
    kinds: dict[str, str | None] = {attribute.name: _KINDS[attribute.type] for attribute in proto.attribute_proto}
    # Attributes without default are named without their kind: the body that refers to them knows it.
    referred = dict(_references(proto.node))
    return kinds | {name: referred.get(name) for name in proto.attribute}


def _references(nodes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                yield attribute.ref_attr_name, _KINDS[attribute.type]
            for body in (attribute.g, *attribute.graphs):
                yield from _references(body.node)


def kind_of(value: Any) -> str:
    """The suffix of torch.onnx for an attribute that no node of the function refers to."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(first, (bool, int)):
        return "i"
    return "f" if isinstance(first, float) else "s" if isinstance(first, str) else "t"
