"""Finds running code whose errors the model catches."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from types import FrameType

from opbridge.capture.source import users_frames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def in_try_block(frame: FrameType | None) -> bool:
    """Whether the user's code runs a line of a ``try`` that has an ``except``, or of a ``with suppress()``."""
    return any(
        first <= caller.f_lineno <= last
        for caller in users_frames(frame)
        for first, last in _caught_lines(caller.f_code.co_filename).get(caller.f_code.co_firstlineno, ())
    )


@functools.lru_cache(maxsize=256)
def _caught_lines(filename: str) -> dict[int, list[tuple[int, int]]]:
    """For each function of the file, by its first line: the first and the last line of each block whose errors it
    catches."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return {}
    return {
        min(line.lineno for line in (function, *function.decorator_list)): [
            (body[0].lineno, body[-1].end_lineno or body[-1].lineno) for body in _caught_blocks(function)
        ]
        for function in ast.walk(tree)
        if isinstance(function, _FUNCTIONS)
    }


def _caught_blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        if (isinstance(child, ast.Try) and child.handlers) or (
            isinstance(child, (ast.With, ast.AsyncWith)) and any(map(_suppresses, child.items))
        ):
            yield child.body
        if not isinstance(child, _FUNCTIONS):
            yield from _caught_blocks(child)


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    return isinstance(call, ast.Call) and "suppress" in (getattr(call.func, "id", ""), getattr(call.func, "attr", ""))
