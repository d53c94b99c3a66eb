"""Runs the nodes of TorchScript's graphs at the lines of the user's code."""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

from opbridge.capture.source import is_users
from opbridge.torch_compat.torchscript import Node

# Calls a function with arguments, in a frame at a line.
At = Callable[[Callable[..., Any], Sequence[Any]], Any]

_TRACED = re.compile(r"^(.+)\((\d+)\): (.+)$", re.MULTILINE)  # a stack, the innermost frame first
_SCRIPTED = re.compile(r'^ *File "(.+)", line (\d+)$', re.MULTILINE)  # a file, then that of a loaded model

_call: Any = lambda function, arguments: function(*arguments)  # noqa: E731


def line_of(node: Node, function: str) -> tuple[str, int, str] | None:
    """File, line and function from which the node was compiled; the innermost of the user's, or else of torch."""
    text = str(node.sourceRange())
    places = [(file, int(line), name) for file, line, name in _TRACED.findall(text)] or [
        (file, int(line), function) for file, line in _SCRIPTED.findall(text)
    ]
    places = [place for place in places if place[0] != "<string>"]  # torch compiles properties of tensors from texts
    return next((place for place in places if is_users(place[0])), places[0] if places else None)


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
