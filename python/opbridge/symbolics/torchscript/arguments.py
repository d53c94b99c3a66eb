"""The arguments of a call as values of its TorchScript graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.dtypes import DTYPES, SCALAR_TYPES
from opbridge.symbolics.torchscript.context import TorchScriptContext
from opbridge.torch_compat.torchscript_exporter import (
    IntType,
    ListType,
    OptionalType,
    TensorType,
    Value,
    insert_constant,
    tensor_type,
)

# A constant of the model of at most this many bytes is a constant of the graph too, since the function may read its
# value. A larger one is an input of the graph, as a parameter is under torch.onnx.
_LARGEST_CONSTANT = 4096

# The enumerators of c10::Layout and c10::MemoryFormat.
_ENUMERATORS = {
    "strided": 0,
    "sparse_coo": 1,
    "sparse_csr": 2,
    "contiguous_format": 0,
    "preserve_format": 1,
    "channels_last": 2,
    "channels_last_3d": 3,
}


class Arguments:
    """Makes the values. ``tensors`` maps the id of each value that stands for a tensor to the value of the ONNX graph.

    Inputs of the TorchScript graph are made first, since the inference of types begins with these.
    """

    def __init__(self, g: TorchScriptContext, arguments: Sequence[Any]) -> None:
        self._g = g
        self.tensors: dict[int, _core.Value] = {}
        self._values: dict[_core.Value, Value] = {}
        for core in _tensors_in(arguments):
            if core not in self._values and not _is_small_constant(core):
                self._keep(core, g.graph.addInput().setType(type_of(core.element_type, core.dims)))

    def value(self, argument: Any, type_name: str = "") -> Value:
        """The value for an argument. ``type_name`` is its type in PyTorch's schema, if known."""
        if isinstance(argument, _core.Value):
            return self._tensor(argument)
        if isinstance(argument, (list, tuple)):
            return self._list(argument, type_name)
        if isinstance(argument, torch.dtype):
            return self._g.constant(SCALAR_TYPES[argument][1])
        if isinstance(argument, str) and "Device" in type_name:
            return insert_constant(self._g.graph, torch.device(argument))
        if isinstance(argument, str) and ("Layout" in type_name or "MemoryFormat" in type_name):
            return self._g.constant(_ENUMERATORS[argument.removeprefix("torch.")])
        return insert_constant(self._g.graph, None) if argument is None else self._g.input(argument)

    def with_values(self, argument: Any) -> Any:
        """``argument``, a Python object, with values for its tensors."""
        if isinstance(argument, _core.Value):
            return self._tensor(argument)
        if type(argument) in (list, tuple):
            return type(argument)(self.with_values(item) for item in argument)
        return argument

    def _tensor(self, core: _core.Value) -> Value:
        if core not in self._values:
            content = torch.frombuffer(bytearray(core.constant or b""), dtype=DTYPES[core.element_type])
            self._keep(core, self._g.constant(content.reshape([int(size) for size in core.dims or ()])))
        return self._values[core]

    def _keep(self, core: _core.Value, value: Value) -> None:
        self._values[core] = value
        self.tensors[value.unique()] = core

    def _list(self, items: Sequence[Any], type_name: str) -> Value:
        if "Tensor" not in type_name and all(isinstance(item, (bool, int, float)) for item in items):
            return self._g.constant(list(items))
        element: Any = TensorType.get()
        if any(isinstance(item, int) for item in items) or "int" in type_name.lower():
            element = IntType.get()
        elif any(item is None for item in items):
            element = OptionalType.ofTensor()
        node = self._g.graph.create("prim::ListConstruct", [self.value(item) for item in items], 1)
        made = self._g.graph.insertNode(node).output()
        made.setType(ListType(element))
        return made


def _tensors_in(arguments: Sequence[Any]) -> Iterator[_core.Value]:
    for argument in arguments:
        if isinstance(argument, _core.Value):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors_in(argument)


def _is_small_constant(core: _core.Value) -> bool:
    dtype, dims = DTYPES.get(core.element_type), core.dims
    if dtype is None or dims is None or not all(isinstance(size, int) for size in dims):
        return False
    size = math.prod(map(int, dims))
    return 0 < size * dtype.itemsize <= _LARGEST_CONSTANT and core.constant is not None


def type_of(element_type: int, dims: Sequence[int | str] | None) -> TensorType:
    """The type in TorchScript, in which symbolic sizes are unknown."""
    sizes = None if dims is None else [size if isinstance(size, int) else None for size in dims]
    return tensor_type(DTYPES.get(element_type), sizes)
