"""Finds the lines of a model that only show something: calls of print, of loggers and of warnings."""

from __future__ import annotations

import ast
import functools
import logging
from types import FrameType

from opbridge.capture.source import is_of_python
from opbridge.capture.symbolic_sizes.syntax import syntax_tree

_SHOWS = frozenset(
    {"print", "debug", "info", "warn", "warning", "warning_once", "error", "critical", "exception", "log"}
)


def only_shows(frame: FrameType | None) -> bool:
    """Whether ``frame`` runs a logger, or a statement that only shows something, or Python's library for one."""
    while frame is not None and is_of_python(frame.f_code.co_filename):
        if frame.f_code.co_filename == logging.__file__:
            return True
        frame = frame.f_back
    return frame is not None and _shows_by_line(frame.f_code.co_filename).get(frame.f_lineno, False)


@functools.lru_cache(maxsize=256)
def _shows_by_line(filename: str) -> dict[int, bool]:
    """Whether all statements of each line only show something."""
    shows: dict[int, bool] = {}
    for node in ast.walk(syntax_tree(filename)):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                shows[line] = shows.get(line, True) and _is_show(node)
    return shows


def _is_show(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    function = node.value.func
    return getattr(function, "id", getattr(function, "attr", "")) in _SHOWS
