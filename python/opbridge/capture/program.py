"""The program that both captures build, and how torch's tensors and sizes enter it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import torch

from opbridge import _core
from opbridge.errors import UnsupportedError

# The numbers of opbridge::ElementType, which are those of onnx.TensorProto.DataType.
_ELEMENT_TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "complex64": 14,
    "complex128": 15,
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "float8_e8m0fnu": 24,
}

_core.set_torch_types(
    torch.dtype,
    {getattr(torch, name): number for name, number in _ELEMENT_TYPES.items() if hasattr(torch, name)},
    (torch.device, torch.layout, torch.memory_format, torch.Generator),
)

Shape = Sequence["int | _core.Dim"]


@dataclasses.dataclass
class Program:
    """A captured model: its graph, and the calls of Python functions in it.

    ``calls`` holds what the integer attribute ``call`` of the nodes ``autograd_function::NAME`` counts.
    """

    graph: _core.Graph
    calls: list[Any] = dataclasses.field(default_factory=list)


class Sizes:
    """Sizes of torch as sizes of the graph, with symbols renamed to the names that the user gave them."""

    def __init__(self, names: dict[str, str] | None = None) -> None:
        self._names = names or {}
        self._dims: dict[Any, _core.Dim] = {}

    def dim(self, size: torch.SymInt | torch.SymFloat | torch.SymBool) -> _core.Dim:
        expr = size.node.expr
        dim = self._dims.get(expr)
        if dim is None:
            dim = self._dims[expr] = _core.Dim.parse(str(expr), self._names)
        return dim

    def shape(self, shape: Sequence[int | torch.SymInt]) -> Shape:
        for size in shape:
            if not isinstance(size, int):
                return [size if isinstance(size, int) else self.dim(size) for size in shape]
        return cast(Shape, shape)


def add_weight(builder: _core.ProgramBuilder, name: str, tensor: torch.Tensor) -> _core.ProgramValue:
    """Adds an initializer that borrows the tensor's memory; a copy's, where it is not plain CPU memory."""
    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        raise UnsupportedError(
            f"the weight '{name}' is a {tensor.layout} tensor on {tensor.device} of {tensor.dtype}; "
            "only plain dense tensors with data can be written"
        )
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    try:
        address = plain.data_ptr()
    except RuntimeError as error:
        raise UnsupportedError(
            f"the weight '{name}' is a {type(tensor).__name__} without memory of its own"
        ) from error
    return builder.weight(
        name, plain.dtype, tuple(plain.shape), address, plain.numel() * plain.element_size(), plain
    )
