"""Nodes that make or take apart lists, tuples and dicts, read and write attributes, refine types, or call Python."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.capture.torchscript import scalars
from opbridge.capture.torchscript.branches import UNINITIALIZED
from opbridge.capture.torchscript.sizes import SizeTensor, with_tensors
from opbridge.torch_compat.torchscript import Node, function_named
from opbridge.torch_compat.torchscript_texts import (
    function_in,
    is_container,
    is_no_grad,
    named_tuple_of,
    returns_container,
    schema_line,
)

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Part:
    """A module of TorchScript or an object in one of its attributes, with its path in the module that was called."""

    owner: Any
    path: str

    def get(self, name: str) -> Any:
        value = self.owner.getattr(name)
        if isinstance(value, (torch.ScriptModule, torch.ScriptObject)) and hasattr(value, "getattr"):
            return Part(value, f"{self.path}.{name}" if self.path else name)
        return value

    def set(self, name: str, value: Any) -> None:
        self.owner.setattr(name, with_tensors(value))


def function_of(node: Node) -> Function | None:
    """The function for a node that has no schema; None if it is unknown."""
    make = _MAKERS.get(node.kind())
    return None if make is None else make(node)


def _tuple(node: Node) -> Function | None:
    named = named_tuple_of(node)
    if named is None:
        return lambda *items: items
    kind = _named_tuple(*named)
    return lambda *items: kind(*items)


@functools.lru_cache(maxsize=256)
def _named_tuple(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields)


def _get(node: Node) -> Function | None:
    name = _untyped(node).s("name")
    if is_container(node.output()) and not all(map(_only_reads, _untyped(node).output().uses())):
        return None  # Python gets a copy
    return lambda part: part.get(name)


def _set(node: Node) -> Function | None:
    name, value = _untyped(node).s("name"), [*node.inputs()][1]
    return None if is_container(value) else lambda part, value: part.set(name, value)


def _only_reads(use: Any) -> bool:
    """Whether the use neither changes a container of plain values nor creates an alias of it."""
    user: Node = use.user
    if user.kind() == "prim::ListUnpack":
        return True
    if user.kind() == "prim::CallFunction":
        first, *_ = user.inputs()
        called: Any = function_named(function_in(first))
        parameters = [] if called is None else [*called.graph.inputs()]
        return called is not None and all(map(_only_reads, parameters[use.offset - 1].uses()))
    schema = schema_line(user)
    if not schema or scalars.changes_its_argument(schema):
        return False
    return not returns_container(schema) or "Tensor" in schema or scalars.makes_a_copy(schema)


def _is_instance(node: Node) -> Function:
    kinds = _untyped(node).tys("types")
    return lambda value: any(_fits(value, kind) for kind in kinds)


_KINDS: dict[str, Any] = {
    "TensorType": (torch.Tensor, SizeTensor),
    "IntType": (int, torch.SymInt),
    "FloatType": (float, torch.SymFloat),
    "BoolType": (bool, torch.SymBool),
    "StringType": str,
    "NoneType": type(None),
    "ListType": list,
    "AnyListType": list,
    "TupleType": tuple,
    "AnyTupleType": tuple,
    "DictType": dict,
}


def _fits(value: Any, kind: Any) -> bool:
    name = kind.kind()
    if name == "ListType":
        return isinstance(value, list) and all(_fits(each, kind.getElementType()) for each in value)
    if name == "OptionalType":
        return value is None or _fits(value, kind.getElementType())
    if name == "AnyType":
        return True
    if name == "IntType" and isinstance(value, bool):
        return False
    return isinstance(value, _KINDS[name]) if name in _KINDS else False


def _python(node: Node) -> Function | None:
    given: Any = node
    function, convention, constants = given.pyobj(), given.cconv(), given.scalar_args()
    if len([*node.outputs()]) > 1:
        return None

    def call(*tensors: Any) -> Any:
        dynamic, static = iter(tensors), iter(constants)
        return function(*(_for_python(next(dynamic if kind == "d" else static)) for kind in convention))

    return call


def _for_python(value: Any) -> Any:
    return value.owner if isinstance(value, Part) else with_tensors(value)


def _raise(message: str, kind: Any = None) -> None:
    raise torch.jit.Error(message)


def _present(value: Any) -> Any:
    if value is None:
        raise torch.jit.Error("Unwrapping null optional")
    return value


def _chunk(node: Node) -> Function:
    chunks, dim = _untyped(node).i("chunks"), _untyped(node).i("dim")
    return lambda tensor: torch.ops.aten.chunk.default(tensor, chunks, dim)


def _item(node: Node) -> Function:
    return lambda values, index: values[index]


def _part(node: Node) -> Function:
    first, last = _untyped(node).i("beg"), _untyped(node).i("end")
    return lambda values: values[first:last]


def _same(function: Function) -> Callable[[Node], Function]:
    return lambda node: function


def _created(node: Node) -> Function | None:
    return torch.no_grad if is_no_grad(node.output()) else None


_MAKERS: dict[str, Callable[[Node], Function | None]] = {
    "prim::ListConstruct": _same(lambda *items: list(items)),
    "prim::ListUnpack": _same(tuple),
    "prim::TupleConstruct": _tuple,
    "prim::TupleUnpack": _same(tuple),
    "prim::TupleIndex": _item,
    "prim::TupleSlice": _part,
    "prim::DictConstruct": _same(lambda *items: dict(zip(items[::2], items[1::2], strict=True))),
    "prim::GetAttr": _get,
    "prim::SetAttr": _set,
    "prim::unchecked_cast": _same(lambda value: value),
    "prim::unchecked_unwrap_optional": _same(lambda value: value),
    "aten::_unwrap_optional": _same(_present),
    "prim::Uninitialized": _same(lambda: UNINITIALIZED),
    "prim::CreateObject": _created,
    "prim::Enter": _same(lambda mode: mode.__enter__()),
    "prim::Exit": _same(lambda mode: mode.__exit__(None, None, None)),
    "prim::isinstance": _is_instance,
    "prim::RaiseException": _same(_raise),
    "prim::Print": _same(print),
    "prim::PythonOp": _python,
    "prim::ConstantChunk": _chunk,
}
UNPACKING = frozenset({"prim::ListUnpack", "prim::TupleUnpack", "prim::ConstantChunk"})


def _untyped(torch_object: Any) -> Any:
    """torch's annotations lack some of its methods."""
    return torch_object


def copied(value: Any, kind: Any) -> Any:
    """Converts an argument as TorchScript does: copies containers, and makes floats of integers where it declares a
    float."""
    name = kind.kind()
    if name == "OptionalType":
        return None if value is None else copied(value, kind.getElementType())
    if name == "FloatType":
        return scalars.to_float(value)
    if name == "ListType" and isinstance(value, Sequence):
        return [copied(each, kind.getElementType()) for each in value]
    if name == "DictType":
        return {key: copied(each, kind.getValueType()) for key, each in value.items()}
    if name == "TupleType":
        items = [copied(each, part) for each, part in zip(value, kind.elements(), strict=True)]
        is_named = isinstance(value, tuple) and type(value) not in (tuple, torch.Size)  # a list may be given too
        return type(value)(*items) if is_named else tuple(items)
    return value
