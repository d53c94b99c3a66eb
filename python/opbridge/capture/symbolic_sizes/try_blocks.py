"""Finds running code whose errors the model catches."""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
from collections.abc import Iterator
from types import FrameType

from opbridge.capture.source import users_frames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ERRORS_OF_CHECKS = (RuntimeError, IndexError, ValueError, AssertionError)


def in_try_block(frame: FrameType | None) -> bool:
    """Whether the user's code runs a line of a ``try`` whose ``except`` may catch an error of a check of sizes, or of a
    ``with suppress()``."""
    return any(
        first <= caller.f_lineno <= last
        for caller in users_frames(frame)
        for first, last in _caught_lines(caller.f_code.co_filename).get(caller.f_code.co_firstlineno, ())
    )


@functools.lru_cache(maxsize=256)
def _caught_lines(filename: str) -> dict[int, list[tuple[int, int]]]:
    """Maps the first line of each function of the file to its blocks whose errors it catches: the first and the last
    line of each."""
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
        if (isinstance(child, ast.Try) and any(_catches(handler.type) for handler in child.handlers)) or (
            isinstance(child, (ast.With, ast.AsyncWith)) and any(map(_suppresses, child.items))
        ):
            yield child.body
        if not isinstance(child, _FUNCTIONS):
            yield from _caught_blocks(child)


def _catches(kind: ast.expr | None) -> bool:
    """Whether an ``except`` of this kind may catch an error of a check. Only names of builtins are known."""
    if isinstance(kind, ast.Tuple):
        return any(map(_catches, kind.elts))
    caught = vars(builtins).get(kind.id) if isinstance(kind, ast.Name) else None
    return not isinstance(caught, type) or any(issubclass(error, caught) for error in _ERRORS_OF_CHECKS)


def _suppresses(item: ast.withitem) -> bool:
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return False
    names = getattr(call.func, "id", ""), getattr(call.func, "attr", "")
    return "suppress" in names and any(map(_catches, call.args))
