"""Calls of autograd.Function subclasses that define ``symbolic``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opbridge import _core
from opbridge.symbolics.builder import Callback, Results
from opbridge.symbolics.callbacks import call_symbolic_method

if TYPE_CHECKING:
    from opbridge.capture.program import Program


def autograd_callbacks(program: Program) -> list[tuple[str, str, Callback]]:
    """For each class that the program calls: the name of its nodes, the name of its symbolic function, and a
    callback."""

    def callback(core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]) -> Results:
        given = dict(zip(names, arguments, strict=True))
        call = program.calls[given["call"]]
        function: Any = call.function
        results = call_symbolic_method(function.symbolic, core, call.filled(given["tensors"], given["sizes"]))
        for index, result in enumerate(results[: core.result_count]):
            _, captured = core.result(index)
            made = None if result is None else result.dims
            if captured is not None and made is not None and len(captured) == len(made):
                call.made_up |= {
                    (index, axis)
                    for axis, (a, b) in enumerate(zip(captured, made, strict=True))
                    if isinstance(a, int) and not isinstance(b, int)
                }
        return results

    labels = {call.key: f"{call.function.__qualname__}.symbolic" for call in program.calls}
    return [(key, label, callback) for key, label in labels.items()]
