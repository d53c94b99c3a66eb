"""The attributes of ONNX nodes, from Python's values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from opbridge import _core
from opbridge.dtypes import ELEMENT_TYPES
from opbridge.symbolics.values import SequenceType, Value, ValueType

_STRING = 8  # onnx.TensorProto.STRING

# `alpha_f=1.0`: the attribute's name, and its ONNX kind in torch.onnx's notation.
SUFFIXED = re.compile(r"^(?P<name>.+)_(?P<kind>[ifstg]|tp)$")


def attribute(key: str, value: Any) -> tuple[str, str, Any]:
    """The name, the kind and the value of an attribute, as the core takes them."""
    match = SUFFIXED.match(key)
    name, kind = (match["name"], match["kind"]) if match else (key, _kind_of(value))
    if kind == "t":
        return name, *_tensors(value)
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    convert = _CONVERSIONS[kind]
    return name, kind, [convert(item) for item in value] if isinstance(value, (list, tuple)) else convert(value)


def _number(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return ELEMENT_TYPES[value]
    return value if isinstance(value, Value) else int(value)


def _type(value: ValueType | SequenceType) -> tuple[int, list[int | str] | None, bool]:
    if isinstance(value, SequenceType):
        return value.element.element_type, value.element.dims, True
    if isinstance(value, ValueType):
        return value.element_type, value.dims, False
    raise TypeError(f"an attribute of kind tp takes a ValueType or a SequenceType, not {type(value).__name__}")


def _subgraph(value: Any) -> _core.Subgraph:
    if isinstance(value, _core.Subgraph):
        return value
    raise TypeError(f"an attribute of kind g takes the result of g.subgraph, not {type(value).__name__}")


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "i": _number,
    "f": float,
    "s": lambda value: value,
    "g": _subgraph,
    "tp": _type,
}


def _kind_of(value: Any) -> str:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if isinstance(first, float):
        return "f"
    if isinstance(first, str):
        return "s"
    if isinstance(first, torch.Tensor):
        return "t"
    if isinstance(first, _core.Subgraph):
        return "g"
    if isinstance(first, (ValueType, SequenceType)):
        return "tp"
    return "i"


def _tensors(value: Any) -> tuple[str, Any]:
    """The kind and value of an attribute that is a tensor or a list of tensors."""
    tensors = list(value) if isinstance(value, (list, tuple)) else [value]
    if not tensors or not all(isinstance(each, torch.Tensor) for each in tensors):
        return "t", tensor_of(value)
    sparse = [each.layout != torch.strided for each in tensors]
    if any(sparse) and not all(sparse):
        raise TypeError("an attribute takes dense or sparse tensors, not both")
    convert = _sparse_tensor if all(sparse) else tensor_of
    converted = [convert(each) for each in tensors]
    return "st" if all(sparse) else "t", converted[0] if isinstance(value, torch.Tensor) else converted


def _sparse_tensor(tensor: torch.Tensor) -> tuple[_core.Tensor, _core.Tensor, list[int]]:
    if tensor.layout != torch.sparse_coo or tensor.dense_dim() != 0:
        raise TypeError("a sparse attribute takes a COO tensor without dense dimensions")
    tensor = tensor.coalesce()
    return tensor_of(tensor.values()), tensor_of(tensor.indices().t()), list(tensor.shape)


def tensor_of(value: Any) -> _core.Tensor:
    if not isinstance(value, torch.Tensor):
        array = np.asarray(value)
        if array.dtype.kind == "U":
            return _STRING, list(array.shape), array.reshape(-1).tolist()
        value = torch.as_tensor(value)
    tensor = value.detach().cpu().contiguous()
    flat = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.new_empty(0, dtype=torch.uint8)
    return ELEMENT_TYPES[tensor.dtype], list(tensor.shape), flat.numpy().tobytes()
