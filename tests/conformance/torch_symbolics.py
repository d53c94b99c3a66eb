"""torch.onnx's own symbolic functions, registered as if they were a user's."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch.onnx
from torch.onnx._internal.torchscript_exporter.registration import registry
from torch.onnx._internal.torchscript_exporter.utils import _trigger_symbolic_function_registration

# Operators that no TorchScript trace contains: torch.onnx calls their functions only for scripted models.
_NOT_IN_TRACES = re.compile(r"aten::conv(olution|[123]d|_transpose[123]d)$")


@contextlib.contextmanager
def register_torch_symbolics() -> Iterator[set[str]]:
    """Registers every function by which torch.onnx.export(dynamo=False) maps an operator. Yields the names of the
    operators whose function has been called."""
    _trigger_symbolic_function_registration()
    called: set[str] = set()
    every = [
        (name, opset, _counted(name, function, called))
        for name, group in registry._registry.items()
        if not name.startswith(("prim::", "onnx::")) and not _NOT_IN_TRACES.match(name)
        for opset, function in group._functions._base.items()
    ]
    for name, opset, function in every:
        torch.onnx.register_custom_op_symbolic(name, function, opset)
    try:
        yield called
    finally:
        for name, opset, _ in every:
            torch.onnx.unregister_custom_op_symbolic(name, opset)


def _counted(name: str, function: Callable[..., Any], called: set[str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        called.add(name)
        return function(*args, **kwargs)

    return counted
