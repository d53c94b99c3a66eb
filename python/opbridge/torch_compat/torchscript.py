"""The graphs of TorchScript, and the calls of what it has compiled."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.torch_compat import OpOverload
from opbridge.torch_compat.lookup import PatchPoint, expect, look_up

with look_up():
    from torch._C import Graph, Node, ScriptFunction, ScriptMethod, Value
    from torch.jit import _state

    _bindings: Any = torch._C
    _compiled: Any = _state._python_cu  # what this process has compiled, without what it has loaded from files
    expect(_compiled, "find_function", "get_class")
    expect(Graph, "copy", "inputs", "outputs", "nodes", "return_node")
    expect(Node, "kind", "schema", "sourceRange", "blocks", "pyobj", "cconv", "scalar_args", "pyname", "tys", "s", "i")
    expect(Value, "unique", "uses", "type", "toIValue")
    expect(ScriptMethod, "graph", "owner", "schema", "name")
    expect(torch._C.ScriptModule, "getattr", "setattr", "_get_method", "_type")
    # Operators that take lists of optional tensors, by the names of those that take lists of tensors.
    OPERATORS_OF_TWINS = {
        "aten::index.Tensor_hacked_twin": torch.ops.aten.index.Tensor,
        "aten::index_put.hacked_twin": torch.ops.aten.index_put.default,
        "aten::index_put_.hacked_twin": torch.ops.aten.index_put_.default,
        "aten::_unsafe_index.Tensor_hacked_twin": torch.ops.aten._unsafe_index.Tensor,
    }
    _inline = _bindings._jit_pass_inline
    _has_kernel = _bindings._dispatch_has_kernel

PYTHON_FUNCTION = "_torchdynamo_inline"  # the attribute of a compiled function for what it was made of
CALL_OF_METHOD = PatchPoint(ScriptMethod, "__call__")
CALL_OF_FUNCTION = PatchPoint(ScriptFunction, "__call__")


def graph_of(called: Any) -> Graph:
    """The graph of a function or a method. If it was loaded from a file, the functions and methods that it calls are
    inlined, since Python cannot look them up."""
    graph: Graph = called.graph
    if isinstance(called, ScriptMethod) and _is_loaded(called.owner):
        graph = graph.copy()
        _inline(graph)
    return graph


def _is_loaded(owner: Any) -> bool:
    kind = owner._type()
    return _compiled.get_class(kind.qualified_name()) is not kind


def method_of(owner: Any, name: str) -> Any:
    return owner._get_method(name)


def function_named(name: str) -> Any:
    """The compiled function of this name; None if there is none."""
    return _compiled.find_function(name)


def is_dispatched(operator: OpOverload) -> bool:
    """Whether the operator has kernels. Those of lists, strings and numbers have none: TorchScript runs them itself."""
    named: Any = operator
    known: bool = _has_kernel(named.name())
    return known


__all__ = [
    "CALL_OF_FUNCTION",
    "CALL_OF_METHOD",
    "OPERATORS_OF_TWINS",
    "PYTHON_FUNCTION",
    "Graph",
    "Node",
    "ScriptFunction",
    "ScriptMethod",
    "Value",
    "function_named",
    "graph_of",
    "is_dispatched",
    "method_of",
]
