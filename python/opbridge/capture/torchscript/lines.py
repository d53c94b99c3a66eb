"""Runs the nodes of TorchScript's graphs at the lines of the user's code."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from opbridge.capture.source import is_users
from opbridge.torch_compat.torchscript import Node
from opbridge.torch_compat.torchscript_texts import lines_of

# Calls a function with arguments, in a frame at a line.
At = Callable[[Callable[..., Any], Sequence[Any]], Any]

_call: Any = lambda function, arguments: function(*arguments)  # noqa: E731


def line_of(node: Node, function: str) -> tuple[str, int, str] | None:
    """File, line and function from which the node was compiled: the innermost one of the user, or else of torch."""
    lines = lines_of(node, function)
    return next((line for line in lines if is_users(line[0])), lines[0] if lines else None)


@functools.lru_cache(maxsize=4096)
def at(place: tuple[str, int, str] | None) -> At:
    if place is None:
        return call_here
    file, line, name = place
    code = _call.__code__.replace(co_filename=file, co_firstlineno=line, co_name=name)
    return types.FunctionType(code, {"__builtins__": {}})


def call_here(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """For a node without a line."""
    return function(*arguments)
