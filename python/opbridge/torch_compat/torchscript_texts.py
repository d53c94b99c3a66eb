"""The texts of TorchScript that opbridge reads. ``tests/python/test_torch_texts.py`` provokes each text."""

from __future__ import annotations

import re
from typing import Any

from opbridge.torch_compat.torchscript import Node, Value

_TRACED = re.compile(r"^(.+)\((\d+)\): (.+)$", re.MULTILINE)  # a stack, the innermost frame first
_SCRIPTED = re.compile(r'^ *File "(.+)", line (\d+)$', re.MULTILINE)  # a file, then that of a loaded model
_FROM_TEXT = "<string>"  # torch compiles properties of tensors from texts
_NO_SCHEMA = "(no schema)"
_NAMED_TUPLE = "NamedTuple("


def lines_of(node: Node, function: str) -> list[tuple[str, int, str]]:
    """File, line and function of each frame from which the node was compiled, the innermost first. TorchScript does not
    note the function unless it was traced; then it is ``function``."""
    given: Any = node
    text = str(given.sourceRange())
    traced = [(file, int(line), name) for file, line, name in _TRACED.findall(text)]
    lines = traced or [(file, int(line), function) for file, line in _SCRIPTED.findall(text)]
    return [line for line in lines if line[0] != _FROM_TEXT]


def schema_line(node: Node) -> str:
    """The schema of the node's operator; empty if the node has none."""
    line = node.schema()
    return "" if line == _NO_SCHEMA else line


def returns_container(schema: str) -> bool:
    return bool(re.search(r"\[\]|Dict\(", schema.rpartition("->")[2]))


def is_container(value: Value) -> bool:
    """Whether a list or a dict is the value or a part of it."""
    return bool(re.search(r"\b(List|Dict)\[", _type_of(value)))


def function_in(value: Value) -> str:
    """The name of the compiled function that the value is."""
    return _type_of(value)


def is_no_grad(value: Value) -> bool:
    """Whether the value is a ``torch.no_grad()``."""
    return _type_of(value).endswith("torch.autograd.grad_mode.no_grad")


def named_tuple_of(node: Node) -> tuple[str, tuple[str, ...]] | None:
    """The class and the fields of the named tuple that the node makes; None for a tuple without names."""
    kind = str(node).partition(" : ")[2].rpartition(" = prim::TupleConstruct")[0]
    if not kind.startswith(_NAMED_TUPLE):
        return None
    return _type_of(node.output()).rpartition(".")[2], _fields(kind.removeprefix(_NAMED_TUPLE))


def _fields(fields: str) -> tuple[str, ...]:
    """The names in ``a : Tensor, b : (int, int))``."""
    while (flat := re.sub(r"[(\[][^()\[\]]*[)\]]", "", fields)) != fields:
        fields = flat
    return tuple(re.findall(r"(\w+) : ", fields))


def _type_of(value: Value) -> str:
    kind: Any = value.type()
    text: str = kind.annotation_str
    return text


__all__ = [
    "function_in",
    "is_container",
    "is_no_grad",
    "lines_of",
    "named_tuple_of",
    "returns_container",
    "schema_line",
]
