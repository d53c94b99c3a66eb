"""The parts of torch.onnx's TorchScript exporter for which its symbolic functions are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from opbridge.torch_compat.lookup import expect, look_up

with look_up():
    from torch._C import Block, Graph, IntType, ListType, Node, OptionalType, TensorType, Value
    from torch.onnx._constants import ONNX_MAX_OPSET as NEWEST_OPSET
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS
    from torch.onnx._internal.torchscript_exporter.jit_utils import GraphContext
    from torch.onnx.errors import OnnxExporterError

    _bindings: Any = torch._C
    # Forgets the constants of the graph before, and marks the types of the graph's inputs as known.
    begin_inference: Callable[[Graph, dict[str, Any], int], None] = _bindings._jit_pass_onnx_graph_shape_type_inference
    # Casts operands to a common element type, as PyTorch's promotion does.
    mend_element_types: Callable[[Graph, bool, int], None] = _bindings._jit_pass_onnx_scalar_type_analysis
    # Replaces lists of values by tensors and sequences, among other rewrites.
    rewrite_patterns: Callable[[Graph, int, bool], None] = _bindings._jit_pass_onnx_peephole
    remove_unused: Callable[[Graph], None] = _bindings._jit_pass_dce_allow_deleting_nodes_with_side_effects
    expect(GLOBALS, "export_onnx_opset_version", "onnx_shape_inference")


def insert_constant(graph: Graph, content: Any) -> Value:
    """The value of a new node prim::Constant."""
    value: Value = _untyped(graph).insertConstant(content)
    return value


def tensor_type(dtype: torch.dtype | None, sizes: list[int | None] | None) -> TensorType:
    """The type of a tensor in CPU memory, with strides if all sizes are known."""
    static = [size for size in sizes or () if size is not None]
    if dtype is not None and sizes == static:
        known = _untyped(TensorType).create_from_tensor(torch.empty(static, dtype=dtype, device="meta"))
    else:
        known = TensorType.get()
        known = known if sizes is None else known.with_sizes(sizes)
        known = known if dtype is None else known.with_dtype(dtype)
    made: TensorType = known.with_device(torch.device("cpu"))
    return made


def _untyped(torch_object: Any) -> Any:
    """torch's annotations lack some of its methods."""
    return torch_object


BINDINGS = "_C"  # the module torch._C, whose Value, Graph and types such functions name

__all__ = [
    "BINDINGS",
    "GLOBALS",
    "NEWEST_OPSET",
    "Block",
    "Graph",
    "GraphContext",
    "IntType",
    "ListType",
    "Node",
    "OnnxExporterError",
    "OptionalType",
    "TensorType",
    "Value",
    "begin_inference",
    "insert_constant",
    "mend_element_types",
    "remove_unused",
    "rewrite_patterns",
    "tensor_type",
]
