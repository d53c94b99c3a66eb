"""``g``, with which symbolic functions written in Python make nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from opbridge import _core
from opbridge.dtypes import ELEMENT_TYPES
from opbridge.symbolics.attributes import SUFFIXED, attribute, tensor_of
from opbridge.symbolics.values import Value, ValueType

if TYPE_CHECKING:
    import onnxscript

# The results of a symbolic function, and the form in which the core calls one: (g, operator, names, arguments).
Results = list[_core.Value | None]
Callback = Callable[[_core.GraphBuilder, str, list[str], list[Any]], Results]


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

        Args:
            name: An ONNX operator, which is checked against its schema in the target opset, or a custom operator with
                its domain, ``"custom::deform_conv2d"``.
            *inputs: Values, None for an omitted input, and numbers or tensors, which become constants.
            outputs: The number of outputs.
            **attributes: Attributes with torch.onnx's suffixes for their kind; a list has the suffix of its items.
                ``axis_i``, ``alpha_f``, ``mode_s`` are numbers and strings. ``value_t`` is a tensor, a string, or
                nested lists of numbers or strings; a sparse COO tensor is a sparse attribute. ``body_g`` is the result
                of ``g.subgraph``, and ``type_tp`` a ValueType or a SequenceType.

        Returns:
            A Value, or a tuple of Values if ``outputs`` is not 1.

        Raises:
            InvalidNodeError: ONNX does not allow the node; the message says what its schema expects.
        """
        given = [attribute(key, value) for key, value in attributes.items() if value is not None]
        if name in ("Constant", "onnx::Constant") and len(given) == 1 and given[0][:2] == ("value", "t"):
            return Value(self._core.constant(given[0][2], True))
        made = self._core.op(name, [self.input(item) for item in inputs], given, outputs)
        values = tuple(Value(core) for core in made)
        return values[0] if outputs == 1 else values

    def result(self, index: int = 0) -> ValueType:
        """PyTorch's type of a result of the call, as captured.

        Args:
            index: The index of the result.

        Returns:
            The type; its sizes are ints, or the texts of symbolic sizes.
        """
        return ValueType(*self._core.result(index))

    def scalar(self, value: bool | int | float, dtype: torch.dtype) -> Value:
        """A constant without dimensions. Numbers that are passed to ``op`` take their neighbours' type instead.

        Args:
            value: The number.
            dtype: Its element type.
        """
        return Value(self._core.scalar(value, ELEMENT_TYPES[dtype]))

    def scalar_like(self, like: Value, value: bool | int | float) -> Value:
        """A constant without dimensions that has the element type of another value.

        Args:
            like: The other value.
            value: The number.
        """
        return Value(self._core.scalar(value, like.core.element_type))

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        """Converts elements, by Cast.

        Args:
            value: A value of any type.
            dtype: The element type of the result.

        Returns:
            The result; ``value`` itself if it has this type.
        """
        return Value(self._core.cast(value.core, ELEMENT_TYPES[dtype]))

    def shape_of(self, value: Value) -> Value:
        """The shape of a value.

        Args:
            value: A value of any rank.

        Returns:
            int64 with one dimension: a constant if all sizes are known, else made by Shape.
        """
        return Value(self._core.shape_of(value.core))

    def dim_of(self, value: Value, axis: int) -> Value:
        """One size of a value.

        Args:
            value: A value of any rank.
            axis: The axis; negative ones count from the end.

        Returns:
            int64 without dimensions: a constant if the size is known.
        """
        return Value(self._core.dim_of(value.core, axis))

    def sizes(self, dims: Sequence[Size]) -> Value:
        """A shape as a value, for operators that take one.

        Args:
            dims: The sizes: ints, texts of symbolic sizes as in ``ValueType.dims``, or int64 values of one element.

        Returns:
            int64 with one dimension.
        """
        return Value(self._core.sizes(_sizes(dims)))

    def reshape(self, value: Value, dims: Sequence[Size]) -> Value:
        """Another shape for the same elements, by Reshape.

        Args:
            value: A value of any shape.
            dims: The sizes, as for ``sizes``. One may be -1: it follows from the number of elements.
        """
        return Value(self._core.reshape(value.core, _sizes(dims)))

    def expand(self, value: Value, dims: Sequence[Size]) -> Value:
        """Broadcasts a value, by Expand.

        Args:
            value: A value whose sizes are 1 where they differ from ``dims``.
            dims: The sizes of the result, as for ``sizes``.
        """
        return Value(self._core.expand(value.core, _sizes(dims)))

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Reorders the axes, by Transpose, as torch.permute does.

        Args:
            value: A value of any rank.
            permutation: For each axis of the result, the axis of ``value``.
        """
        return Value(self._core.transpose(value.core, permutation))

    def squeeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Removes axes, by Squeeze in the form of the opset.

        Args:
            value: A value of any shape.
            axes: Axes of size 1.
        """
        return Value(self._core.squeeze(value.core, axes))

    def unsqueeze(self, value: Value, axes: Sequence[int]) -> Value:
        """Inserts axes of size 1, by Unsqueeze in the form of the opset.

        Args:
            value: A value of any shape.
            axes: Their positions in the result.
        """
        return Value(self._core.unsqueeze(value.core, axes))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Concatenates, by Concat.

        Args:
            values: Values of one element type, whose sizes are equal except along the axis.
            axis: The axis.
        """
        return Value(self._core.concat([value.core for value in values], axis))

    def slice(self, value: Value, axis: int, start: Size, end: Size, step: int = 1) -> Value:
        """``value[start:end:step]`` along an axis, by Slice in the form of the opset.

        Args:
            value: A value of any shape.
            axis: The axis.
            start: The first index. Negative bounds count from the end, and bounds beyond the end stop there.
            end: The index after the last one.
            step: The distance between two indices; a negative step goes backwards.
        """
        return Value(self._core.slice(value.core, axis, _size(start), _size(end), step))

    def gather(self, value: Value, indices: Any, axis: int = 0) -> Value:
        """The elements at given indices along an axis, by Gather.

        Args:
            value: A value of any shape.
            indices: An int64 value or tensor of any shape, or a number.
            axis: The axis, which the axes of ``indices`` replace.
        """
        return Value(self._core.op("Gather", [value.core, self.input(indices)], [("axis", "i", axis)], 1)[0])

    def split(self, value: Value, axis: int, sizes: Sequence[Size]) -> tuple[Value, ...]:
        """Parts of a value, by Split in the form of the opset.

        Args:
            value: A value of any shape.
            axis: The axis.
            sizes: The size of each part along the axis, as for ``sizes``.

        Returns:
            The parts, in order.
        """
        return tuple(Value(core) for core in self._core.split(value.core, axis, _sizes(sizes)))

    def reduce(self, name: str, value: Value, axes: Sequence[int] = (), keepdims: bool = False) -> Value:
        """A reduction in the form of the opset: ``g.reduce("ReduceMean", x, [-1])``.

        Args:
            name: ReduceSum, ReduceMean, ReduceMax, ….
            value: A value of any shape.
            axes: The axes to reduce; all axes if there are none.
            keepdims: Keeps the axes with size 1.
        """
        return Value(self._core.reduce(name, value.core, axes, keepdims))

    def subgraph(
        self, name: str, inputs: Sequence[ValueType | Value], build: Callable[..., Value | Sequence[Value]]
    ) -> _core.Subgraph:
        """Builds a body for If, Loop or Scan, to be used as the attribute of one node.

        Example:
            double = g.subgraph("double", [], lambda g: g.op("Add", x, x))
            same = g.subgraph("same", [], lambda g: g.op("Identity", x))
            g.op("If", condition, then_branch_g=double, else_branch_g=same)

        Args:
            name: The name of the body.
            inputs: The types of the body's inputs, or values of these types.
            build: ``build(g, *values)`` makes the nodes with its own ``g`` and returns the outputs. The values are the
                body's inputs. The body may use values from outside.

        Returns:
            The body, for an attribute with the suffix ``_g``.

        Raises:
            TypeError: ``build`` returns None.
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

        Args:
            function: A function that is decorated with ``onnxscript.script``.
            *inputs: Its inputs, as for ``op``.
            outputs: The number of its outputs.
            **attributes: Its attributes, by their names; a suffix for the kind (``alpha_f``) is accepted too.

        Returns:
            A Value, or a tuple of Values if ``outputs`` is not 1.

        Raises:
            UnsupportedError: The function has no attribute of that name.
        """
        from opbridge.symbolics.onnx_functions import attribute_kinds, function_protos, kind_of

        for domain, name, version, proto in function_protos(function):
            self._core.add_function(domain, name, version, proto)
        kinds = attribute_kinds(function)
        named = {}
        for key, value in attributes.items():
            match = SUFFIXED.match(key)
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
        """Refuses the call, because the mapping does not hold for it.

        Args:
            reason: Why, and what would help. The error also names the operator and the line of the model.

        Raises:
            UnsupportedError: Always.
        """
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
            return self._core.constant(tensor_of(item), True)
        if isinstance(item, (bool, int, float)):
            return self._core.number(item)
        if isinstance(item, (list, tuple)):
            return self._core.constant(tensor_of(item), True)
        raise TypeError(f"g.op takes values, numbers and tensors as inputs, not {type(item).__name__}")
