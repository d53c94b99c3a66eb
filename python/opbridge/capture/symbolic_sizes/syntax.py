"""The syntax trees of the model's source."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Mapping
from types import FrameType
from typing import Any

Line = tuple[str, int]  # a file, and a line in it


def running_line(frame: FrameType) -> Line:
    return frame.f_code.co_filename, frame.f_lineno


@functools.lru_cache(maxsize=8)
def syntax_tree(filename: str) -> ast.Module:
    """The syntax tree of a file; an empty one if it cannot be read."""
    try:
        return ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return ast.Module([], [])


def always_raises(statements: list[ast.stmt]) -> bool:
    """Whether the statements end in an error in any case."""
    leaves = any(
        isinstance(each, (ast.Return, ast.Break, ast.Continue)) for one in statements for each in ast.walk(one)
    )
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return not leaves and always_raises(last.body) and always_raises(last.orelse)
    return not leaves and isinstance(last, ast.Raise)


def lines_of(node: ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def evaluated(expression: ast.expr, frame: FrameType, values: Mapping[str, Any] | None = None) -> object:
    """The value that an expression of names in the source of ``frame`` has there, or with ``values`` instead of its
    variables."""
    names = frame.f_locals if values is None else values
    return eval(compile(ast.Expression(expression), "expression", "eval"), frame.f_globals, names)
