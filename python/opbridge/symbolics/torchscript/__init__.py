"""Symbolic functions that are written for torch.onnx's TorchScript exporter run unchanged.

Such a function treats its arguments as values of a TorchScript graph (``value.node().kind()``, ``value.type()``,
``isinstance(value, torch._C.Value)``), itself or through ``torch.onnx.symbolic_helper``. So it gets such values: the
call has a TorchScript graph of its own, in which ``g.op`` makes nodes. When the function has returned, torch's passes
complete this graph, as they did in the exporter, and its nodes are made again in the ONNX graph.

- ``form``: which functions are called in this way.
- ``arguments``: the arguments of the call as values of the TorchScript graph.
- ``context``: ``g``.
- ``translation``: the nodes of the TorchScript graph as ONNX nodes.
- ``call``: all of it.
"""

from __future__ import annotations

from opbridge.symbolics.torchscript.call import call_function, call_method
from opbridge.symbolics.torchscript.context import OwnFormNeeded
from opbridge.symbolics.torchscript.form import uses_torch_onnx

__all__ = ["OwnFormNeeded", "call_function", "call_method", "uses_torch_onnx"]
