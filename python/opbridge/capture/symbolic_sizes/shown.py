"""Finds the lines of a model that only show something: calls of print, of loggers and of warnings, and their texts."""

from __future__ import annotations

import ast
import functools
import logging
from collections.abc import Iterator
from types import FrameType

from opbridge.capture.source import is_of_python
from opbridge.capture.symbolic_sizes.syntax import tree_of

_READING_NAMES = frozenset({"locals", "vars", "eval", "exec"})  # functions that may read any name
_SHOWS = frozenset(
    {"print", "debug", "info", "warn", "warning", "warning_once", "error", "critical", "exception", "log"}
)


def only_shows(frame: FrameType | None) -> bool:
    """Whether ``frame`` runs a logger, or a statement that only shows something, or Python's library for one."""
    while frame is not None and is_of_python(frame.f_code.co_filename):
        if frame.f_code.co_filename == logging.__file__:
            return True
        frame = frame.f_back
    return frame is not None and _shows_by_line(tree_of(frame.f_code)).get(frame.f_lineno, False)


@functools.lru_cache(maxsize=256)
def _shows_by_line(tree: ast.Module) -> dict[int, bool]:
    """Whether all statements of each line only show something."""
    shows: dict[int, bool] = {}
    messages = {message for function in ast.walk(tree) for message in _messages_of(function)}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                shows[line] = shows.get(line, True) and (_is_show(node) or node in messages)
    return shows


def _messages_of(function: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function such as ``text = f"{n} rows"`` whose text is only shown or told by an error."""
    if not isinstance(function, ast.FunctionDef):
        return
    nodes = [*ast.walk(function)]
    told = {part for node in nodes for whole in _tells(node) for part in ast.walk(whole)}
    used = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in told
    }
    used.update(name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names)
    texts = [node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.value, ast.JoinedStr)]
    for text in texts if not used & _READING_NAMES else []:
        if all(isinstance(target, ast.Name) and target.id not in used for target in text.targets):
            yield text


def _tells(node: ast.AST) -> list[ast.AST]:
    """The parts of a statement that only show something or make an error."""
    if isinstance(node, ast.Assert):
        return [] if node.msg is None else [node.msg]
    return [node] if isinstance(node, ast.Raise) or (isinstance(node, ast.stmt) and _is_show(node)) else []


def _is_show(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    return getattr(function, "id", getattr(function, "attr", "")) in _SHOWS
