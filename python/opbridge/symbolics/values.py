"""The values of the ONNX graph that symbolic functions written in Python use, and their types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.dtypes import DTYPES, ELEMENT_TYPES, SCALAR_TYPES


class ValueType:
    """The element type and the sizes of a value.

    Args:
        element_type: The number in ONNX's TensorProto.DataType; 0 if unknown.
        dims: Ints, or texts of symbolic sizes; None if the rank is unknown.
    """

    def __init__(self, element_type: int, dims: Sequence[int | str] | None) -> None:
        self.element_type = element_type
        self.dims = None if dims is None else list(dims)

    def dtype(self) -> torch.dtype | None:
        """PyTorch's dtype; None if unknown."""
        return DTYPES.get(self.element_type)

    def scalarType(self) -> str | None:
        """TorchScript's name of the dtype, such as "Float" for float32; None if unknown."""
        dtype = self.dtype()
        return None if dtype is None else SCALAR_TYPES[dtype][0]

    def dim(self) -> int | None:
        """The rank; None if unknown."""
        return None if self.dims is None else len(self.dims)

    def sizes(self) -> list[int | None] | None:
        """The sizes; None for a size known only at run time."""
        return None if self.dims is None else [size if isinstance(size, int) else None for size in self.dims]

    varyingSizes = sizes

    def with_dtype(self, dtype: torch.dtype) -> ValueType:
        """The same sizes with another element type.

        Args:
            dtype: The element type.
        """
        return ValueType(ELEMENT_TYPES[dtype], self.dims)

    def with_sizes(self, sizes: Sequence[int | str]) -> ValueType:
        """The same element type with other sizes.

        Args:
            sizes: Ints, or texts of symbolic sizes.
        """
        return ValueType(self.element_type, sizes)


class SequenceType:
    """The type of a sequence of tensors, for attributes.

    Args:
        element: The type of its tensors.
    """

    def __init__(self, element: ValueType) -> None:
        self.element = element


class Value:
    """A value of the ONNX graph. It is valid only during the call of the symbolic function."""

    __slots__ = ("core",)

    def __init__(self, core: _core.Value) -> None:
        self.core = core

    def type(self) -> ValueType:
        """The element type and the sizes."""
        return ValueType(self.core.element_type, self.core.dims)

    def setType(self, type: ValueType) -> Value:
        """Declares the type of the value, where it does not follow from the node.

        Args:
            type: The element type and the sizes.

        Returns:
            The value itself.
        """
        self.core._set_type(type.element_type, type.dims)
        return self

    def debugName(self) -> str:
        """The name in the graph."""
        return self.core.name

    def __repr__(self) -> str:
        return f"Value({self.core.name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.core == other.core

    def __hash__(self) -> int:
        return hash(self.core)


def wrapped(argument: Any) -> Any:
    """The Python form of an argument that the core passes to a symbolic function."""
    if isinstance(argument, _core.Value):
        return Value(argument)
    if type(argument) in (list, tuple):
        return type(argument)(wrapped(item) for item in argument)
    return argument
