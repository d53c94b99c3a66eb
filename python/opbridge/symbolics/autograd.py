"""Calls of autograd.Function subclasses that define ``symbolic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opbridge import _core
from opbridge.symbolics.builder import GraphContext, wrapped

if TYPE_CHECKING:
    from opbridge.capture.program import Program


def autograd_callbacks(program: Program) -> list[tuple[str, Callable[..., list[_core.Value | None]]]]:
    """A callback for each autograd.Function that the program calls, under the name of its nodes."""
    functions = {call.key: call.function for call in program.calls}
    return [(key, _callback(program)) for key in functions]


def _callback(program: Program) -> Callable[..., list[_core.Value | None]]:
    def callback(core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]) -> list[_core.Value | None]:
        given = dict(zip(names, arguments, strict=True))
        call = program.calls[given["call"]]
        g = GraphContext(core)
        returned = call.function.symbolic(g, *call.filled(wrapped(given["tensors"]), wrapped(given["sizes"])))
        return [g.input(item) for item in (returned if isinstance(returned, (list, tuple)) else [returned])]

    return callback
