"""``g``, and the values that symbolic functions written in Python use."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from opbridge import _core
from opbridge.dtypes import DTYPES, ELEMENT_TYPES, SCALAR_TYPES

if TYPE_CHECKING:
    import onnxscript

_STRING = 8  # onnx.TensorProto.STRING

# The results of a symbolic function, and the form in which the core calls one: (g, operator, names, arguments).
Results = list[_core.Value | None]
Callback = Callable[[_core.GraphBuilder, str, list[str], list[Any]], Results]

# `alpha_f=1.0`: the attribute's name, and its ONNX kind in torch.onnx's notation.
_SUFFIXED = re.compile(r"^(?P<name>.+)_(?P<kind>[ifstg]|tp)$")


class ValueType:
    """The element type and the sizes of a value."""

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
        return ValueType(ELEMENT_TYPES[dtype], self.dims)

    def with_sizes(self, sizes: Sequence[int | str]) -> ValueType:
        return ValueType(self.element_type, sizes)


class SequenceType:
    """The type of a sequence of tensors, for attributes."""

    def __init__(self, element: ValueType) -> None:
        self.element = element


class Value:
    """A value of the ONNX graph. It is valid only during the call of the symbolic function."""

    __slots__ = ("core",)

    def __init__(self, core: _core.Value) -> None:
        self.core = core

    def type(self) -> ValueType:
        return ValueType(self.core.element_type, self.core.dims)

    def setType(self, type: ValueType) -> Value:
        """Declares the type of the value; returns the value."""
        self.core._set_type(type.element_type, type.dims)
        return self

    def debugName(self) -> str:
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


# A size: an int, the text of a symbolic size as in ValueType.dims, or an int64 value of one element.
Size = int | str | Value


def _size(size: Size) -> int | str | _core.Value:
    return size.core if isinstance(size, Value) else size


def _sizes(sizes: Sequence[Size]) -> list[int | str | _core.Value]:
    return [_size(size) for size in sizes]


class GraphContext:
    """``g``: builds the ONNX nodes of one call."""

    def __init__(self, core: _core.GraphBuilder) -> None:
        self._core = core

    @property
    def opset(self) -> int:
        """The ONNX opset of the exported model."""
        return self._core.opset

    def op(self, name: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Makes a node: ``g.op("Clip", x, low, high)``.

        ``name`` is an ONNX operator, checked against its schema in the target opset, or a custom operator with its
        domain, ``"custom::deform_conv2d"``. Inputs are values, None for an omitted input, and numbers or tensors, which
        become constants. Attributes have torch.onnx's suffixes for their kind; a list has the suffix of its items:

        - ``axis_i``, ``alpha_f``, ``mode_s``: numbers and strings.
        - ``value_t``: a tensor, a string, or nested lists of numbers or strings; a sparse COO tensor is a sparse
        attribute.
        - ``body_g``: the result of ``g.subgraph``.
        - ``type_tp``: a ValueType or a SequenceType.

        Returns a Value, or a tuple of Values if ``outputs`` is not 1.
        """
        given = [self.attribute(key, value) for key, value in attributes.items() if value is not None]
        if name in ("Constant", "onnx::Constant") and len(given) == 1 and given[0][:2] == ("value", "t"):
            return Value(self._core.constant(given[0][2], True))
        made = self._core.op(name, [self.input(item) for item in inputs], given, outputs)
        values = tuple(Value(core) for core in made)
        return values[0] if outputs == 1 else values

    def result(self, index: int = 0) -> ValueType:
        """PyTorch's type of a result of the call, as captured; its sizes are ints or texts of symbolic sizes."""
        return ValueType(*self._core.result(index))

    def scalar(self, value: bool | int | float, dtype: torch.dtype) -> Value:
        """A constant without dimensions. Numbers that are passed to ``op`` take their neighbours' type instead."""
        return Value(self._core.scalar(value, ELEMENT_TYPES[dtype]))

    def scalar_like(self, like: Value, value: bool | int | float) -> Value:
        """A constant without dimensions that has the element type of ``like``."""
        return Value(self._core.scalar(value, like.core.element_type))

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """``value`` as ``dtype``, by Cast; ``value`` itself if it has this type."""
        return Value(self._core.cast(value.core, ELEMENT_TYPES[dtype]))

    def shape_of(self, value: Value) -> Value:
        """The shape, int64 with one dimension: a constant if all sizes are known, else made by Shape."""
        return Value(self._core.shape_of(value.core))

    def dim_of(self, value: Value, axis: int) -> Value:
        """The size along ``axis``, int64 without dimensions: a constant if it is known."""
        return Value(self._core.dim_of(value.core, axis))

    def sizes(self, dims: Sequence[Size]) -> Value:
        """A shape of the given sizes, int64 with one dimension."""
        return Value(self._core.sizes(_sizes(dims)))

    def reshape(self, value: Value, dims: Sequence[Size]) -> Value:
        """``value`` with the shape ``dims``, by Reshape. One size may be -1: what is left of the elements."""
        return Value(self._core.reshape(value.core, _sizes(dims)))

    def expand(self, value: Value, dims: Sequence[Size]) -> Value:
        """``value`` broadcast to the shape ``dims``, by Expand."""
        return Value(self._core.expand(value.core, _sizes(dims)))

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """``value`` with its axes in the order ``permutation``, by Transpose: torch.permute."""
        return Value(self._core.transpose(value.core, permutation))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """``value`` without ``axes``, which have size 1, by Squeeze in the form of the opset."""
        return Value(self._core.squeeze(value.core, axes))

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        """``value`` with new axes of size 1, ``axes`` of the result, by Unsqueeze in the form of the opset."""
        return Value(self._core.unsqueeze(value.core, axes))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """The values one after the other along ``axis``, by Concat."""
        return Value(self._core.concat([value.core for value in values], axis))

    def slice(self, value: Value, axis: int, start: Size, end: Size, step: int = 1) -> Value:
        """``value[start:end:step]`` along ``axis``, by Slice in the form of the opset.

        Negative bounds count from the end, and bounds beyond it stop there.
        """
        return Value(self._core.slice(value.core, axis, _size(start), _size(end), step))

    def gather(self, value: Value, indices: Any, axis: int = 0) -> Value:
        """The elements of ``value`` at ``indices`` (an int64 tensor of any shape) along ``axis``, by Gather."""
        return Value(self._core.op("Gather", [value.core, self.input(indices)], [("axis", "i", axis)], 1)[0])

    def split(self, value: Value, axis: int, sizes: Sequence[Size]) -> tuple[Value, ...]:
        """Parts of ``value`` along ``axis`` with the given sizes, by Split in the form of the opset."""
        return tuple(Value(core) for core in self._core.split(value.core, axis, _sizes(sizes)))

    def reduce(self, name: str, value: Value, axes: Sequence[int] = (), keepdims: bool = False) -> Value:
        """``g.reduce("ReduceMean", x, [-1])``: a reduction in the form of the opset. No axes are all of them."""
        return Value(self._core.reduce(name, value.core, axes, keepdims))

    def subgraph(
        self, name: str, inputs: Sequence[ValueType | Value], build: Callable[..., Value | Sequence[Value]]
    ) -> _core.Subgraph:
        """Builds a body for If, Loop or Scan, to be used as the attribute of one node.

        ``build(g, *values)`` makes the nodes with its own ``g`` and returns the outputs. The values are the body's
        inputs, with the types ``inputs``. The body may use values from outside::

            double = g.subgraph("double", [], lambda g: g.op("Add", x, x))
            same = g.subgraph("same", [], lambda g: g.op("Identity", x))
            g.op("If", condition, then_branch_g=double, else_branch_g=same)
        """

        def build_core(core: _core.GraphBuilder, values: list[_core.Value]) -> list[_core.Value]:
            g = GraphContext(core)
            returned = build(g, *map(Value, values))
            outputs = returned if isinstance(returned, (list, tuple)) else [returned]
            made = [made for made in map(g.input, outputs) if made is not None]
            if len(made) < len(outputs):
                raise TypeError(f"the function of subgraph {name!r} returned None among its outputs")
            return made

        types = [each.type() if isinstance(each, Value) else each for each in inputs]
        return self._core.subgraph(name, [(type.element_type, type.dims) for type in types], build_core)

    def onnxscript_op(
        self, function: onnxscript.OnnxFunction[Any, Any], *inputs: Any, outputs: int = 1, **attributes: Any
    ) -> Any:
        """Calls an onnxscript function, which becomes a function of the model.

        Attributes have the names of the function; a suffix for the kind (``alpha_f``) is accepted too.
        """
        from opbridge.symbolics.onnx_functions import attribute_kinds, function_protos, kind_of

        for domain, name, version, proto in function_protos(function):
            self._core.add_function(domain, name, version, proto)
        kinds = attribute_kinds(function)
        named = {}
        for key, value in attributes.items():
            match = _SUFFIXED.match(key)
            named[key if key in kinds or match is None else match["name"]] = value
        unknown = sorted(set(named) - set(kinds))
        if unknown:
            self.refuse(f"the ONNX function {function.name} has no attribute {unknown[0]!r}; it has {sorted(kinds)}")
        return self.op(
            f"{function.opset.domain}::{function.name}",
            *inputs,
            outputs=outputs,
            **{f"{key}_{kinds[key] or kind_of(value)}": value for key, value in named.items()},
        )

    def refuse(self, reason: str) -> None:
        """Raises UnsupportedError: the call cannot be mapped, for this reason."""
        self._core.refuse(reason)

    def results(self, returned: Any) -> Results:
        """The results of the call, from what its symbolic function returns."""
        items = returned if isinstance(returned, (list, tuple)) else [returned]
        return [self.input(item) for item in items]

    def input(self, item: Any) -> _core.Value | None:
        if item is None:
            return None
        if isinstance(item, Value):
            return item.core
        if isinstance(item, torch.Tensor):
            return self._core.constant(_tensor(item), True)
        if isinstance(item, (bool, int, float)):
            return self._core.number(item)
        if isinstance(item, (list, tuple)):
            return self._core.constant(_tensor(item), True)
        raise TypeError(f"g.op takes values, numbers and tensors as inputs, not {type(item).__name__}")

    @staticmethod
    def attribute(key: str, value: Any) -> tuple[str, str, Any]:
        match = _SUFFIXED.match(key)
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
        return "t", _tensor(value)
    sparse = [each.layout != torch.strided for each in tensors]
    if any(sparse) and not all(sparse):
        raise TypeError("an attribute takes dense or sparse tensors, not both")
    convert = _sparse_tensor if all(sparse) else _tensor
    converted = [convert(each) for each in tensors]
    return "st" if all(sparse) else "t", converted[0] if isinstance(value, torch.Tensor) else converted


def _sparse_tensor(tensor: torch.Tensor) -> tuple[_core.Tensor, _core.Tensor, list[int]]:
    if tensor.layout != torch.sparse_coo or tensor.dense_dim() != 0:
        raise TypeError("a sparse attribute takes a COO tensor without dense dimensions")
    tensor = tensor.coalesce()
    return _tensor(tensor.values()), _tensor(tensor.indices().t()), list(tensor.shape)


def _tensor(value: Any) -> _core.Tensor:
    if not isinstance(value, torch.Tensor):
        array = np.asarray(value)
        if array.dtype.kind == "U":
            return _STRING, list(array.shape), array.reshape(-1).tolist()
        value = torch.as_tensor(value)
    tensor = value.detach().cpu().contiguous()
    flat = tensor.reshape(-1).view(torch.uint8) if tensor.numel() else tensor.new_empty(0, dtype=torch.uint8)
    return ELEMENT_TYPES[tensor.dtype], list(tensor.shape), flat.numpy().tobytes()
