"""onnxscript functions as functions of the exported model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnxscript

# Indexed by onnx.AttributeProto.AttributeType; a single value and a list have the same suffix.
_KINDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "f", 7: "i", 8: "s", 9: "t", 10: "g", 11: "t", 12: "t"}
_KINDS |= {13: "tp", 14: "tp"}


def function_protos(function: onnxscript.OnnxFunction[Any, Any]) -> list[tuple[str, str, int, bytes]]:
    """The function and the functions it calls: domain, name, version of the domain, serialized FunctionProto."""
    called = [function, *function.function_ir.get_called_functions().values()]
    return [
        (each.opset.domain, each.name, int(each.opset.version), each.to_function_proto().SerializeToString())
        for each in called
    ]


def attribute_kinds(function: onnxscript.OnnxFunction[Any, Any]) -> dict[str, str | None]:
    """The attributes of the function, each with its kind as a torch.onnx suffix, if the body determines it."""
    proto = function.to_function_proto()
    kinds: dict[str, str | None] = {attribute.name: _KINDS[attribute.type] for attribute in proto.attribute_proto}
    # The proto lists attributes without a default by name only; the nodes that refer to them determine the kind.
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
    """The torch.onnx suffix for an attribute that no node of the function refers to."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(first, (bool, int)):
        return "i"
    return "f" if isinstance(first, float) else "s" if isinstance(first, str) else "t"
