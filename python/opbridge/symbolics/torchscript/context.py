"""``g`` of functions that are written for torch.onnx."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from opbridge.symbolics import builder
from opbridge.symbolics.values import Value as OnnxValue
from opbridge.torch_compat.torchscript_exporter import GraphContext, OptionalType, Value

_LISTS = ("prim::ListConstruct", "prim::TupleConstruct", "onnx::SequenceConstruct")


class OwnFormNeeded(Exception):
    """The function uses methods that only opbridge's own ``g`` and values have."""


@dataclasses.dataclass(repr=False)
class TorchScriptContext(GraphContext):
    """torch.onnx's ``g``, which takes numbers, lists and None as inputs too."""

    # The onnxscript functions that the graph calls, by the kind of their nodes.
    functions: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        """Without the fields: torch crashes when it prints an original node of the kind prim::PythonOp, and pytest
        prints the arguments of a function that fails."""
        return f"<{type(self).__name__} at opset {self.opset}>"

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(builder.GraphContext, name):
            raise OwnFormNeeded(f"g.{name}")
        return super().__getattr__(name)

    def op(self, opname: str, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        for key, value in kwargs.items():
            if not _torch_takes(key, value):
                raise OwnFormNeeded(key)
        if opname in ("Constant", "onnx::Constant"):
            kwargs = dict(map(_as_value, kwargs.items()))
        return super().op(opname, *map(self.input, raw_args), outputs=outputs, **kwargs)

    def onnxscript_op(self, onnx_fn: Any, *raw_args: Any, outputs: int = 1, **kwargs: Any) -> Any:
        kind = f"{onnx_fn.opset.domain}::{onnx_fn.name}"
        self.functions[kind] = onnx_fn
        return self.op(kind, *raw_args, outputs=outputs, **kwargs)

    def input(self, item: Any) -> Value:
        """An input of a node, or a returned value."""
        if isinstance(item, Value):
            return item
        if item is None:
            none: Value = super().op("prim::Constant")
            none.setType(OptionalType.ofTensor())
            return none
        if isinstance(item, OnnxValue):
            raise OwnFormNeeded(f"a {type(item).__name__} of opbridge")
        if isinstance(item, torch.Tensor) and item.numel() == 1 and item.is_floating_point():
            item = item.reshape(())  # as torch does; an integer may be a list of one size or axis
        return self.constant(item)

    def results(self, returned: Any, count: int) -> list[Value | None]:
        """The results that a function returns: a value, a list of values, or a value that stands for a list."""
        if isinstance(returned, (list, tuple)):
            return [item for each in returned for item in self.results(each, 1)]
        if returned is None:
            return [None]
        value = self.input(returned)
        if value.node().kind() in _LISTS:
            return list(value.node().inputs())
        if count > 1:
            return [self.op("SequenceAt", value, index) for index in range(count)]
        return [value]

    def constant(self, content: Any) -> Value:
        """A constant, with the types that the TorchScript exporter gives to numbers, lists of these and strings."""
        if isinstance(content, float):
            content = torch.tensor(content, dtype=torch.float64)
        elif not isinstance(content, (str, torch.Tensor)):
            content = torch.tensor(content, dtype=None if content != [] else torch.int64)
        attribute = "value_s" if isinstance(content, str) else "value_t"
        made: Value = super().op("Constant", **{attribute: content})
        return made


def _as_value(attribute: tuple[str, Any]) -> tuple[str, Any]:
    """The attribute ``value`` of a Constant, whichever form the Constant has; torch's passes know only ``value``."""
    key, value = attribute
    dtype = {"i": torch.int64, "f": torch.float32}.get(key.rpartition("_")[2])
    return ("value_t", torch.tensor(value, dtype=dtype)) if dtype is not None else attribute


def _torch_takes(key: str, value: Any) -> bool:
    """Whether torch's ``g.op`` knows this kind of attribute."""
    if value is None:
        return True
    first = value[0] if isinstance(value, Sequence) and not isinstance(value, str) and len(value) else value
    if key.endswith(("_i", "_f", "_s", "_z", "_ty")):
        return not isinstance(first, (torch.dtype, OnnxValue))
    return key.endswith("_t") and isinstance(first, torch.Tensor) and first.layout == torch.strided
