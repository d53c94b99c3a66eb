"""Calls of autograd.Function subclasses that define ``symbolic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opbridge import _core
from opbridge.symbolics.builder import GraphContext, Value

if TYPE_CHECKING:
    from opbridge.capture.program import Program

Callback = Callable[..., "list[_core.Value | None]"]


def autograd_callbacks(program: Program) -> list[tuple[str, str, Callback]]:
    """For each class that the program calls: the name of its nodes, the name of its symbolic function, and a
    callback."""

    def callback(core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]) -> list[_core.Value | None]:
        g = GraphContext(core)
        given = dict(zip(names, arguments, strict=True))
        call = program.calls[given["call"]]
        tensors = [Value(tensor) for tensor in given["tensors"]]
        sizes = [Value(size) if isinstance(size, _core.Value) else size for size in given["sizes"]]
        function: Any = call.function
        returned = function.symbolic(g, *call.filled(tensors, sizes))
        if isinstance(returned, (list, tuple)):
            return [g.input(item) for item in returned]
        return [g.input(returned)]

    labels = {call.key: f"{call.function.__qualname__}.symbolic" for call in program.calls}
    return [(key, label, callback) for key, label in labels.items()]
