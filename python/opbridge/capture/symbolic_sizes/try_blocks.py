"""Finds running code whose errors the model catches."""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from opbridge.capture.source import users_frames
from opbridge.capture.symbolic_sizes.syntax import always_raises, tree_of

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Block(NamedTuple):
    """The lines of a block whose errors are caught, and the dotted names of these errors: None for errors of any kind,
    and for an expression that is not a name. ``raises`` says that each caught error leads to another error."""

    first: int
    last: int
    caught: list[str | None]
    raises: bool


def in_try_block(
    frame: FrameType | None,
    errors: tuple[type[Exception], ...] = (RuntimeError, IndexError, ValueError, AssertionError),
) -> bool:
    """Whether the user's code runs a line of a ``try`` whose ``except`` may catch one of ``errors`` and go on, or of a
    ``with suppress()``. The default is the errors of checks of sizes."""
    around = [
        (block, caller)
        for caller in users_frames(frame)
        for block in _blocks(tree_of(caller.f_code)).get(caller.f_code.co_firstlineno, ())
        if block.first <= caller.f_lineno <= block.last
    ]
    catching = [block for block, caller in around if any(_catches(name, caller, errors) for name in block.caught)]
    if any(block.raises for block in catching):  # another block may catch the error that they raise
        return not all(block.raises for block, _ in around)
    return bool(catching)


def _catches(name: str | None, frame: FrameType, errors: tuple[type[Exception], ...]) -> bool:
    """Whether an ``except`` of this name in the frame may catch one of ``errors``."""
    if name is None:
        return True
    first, *attributes = name.split(".")
    caught = frame.f_globals.get(first, getattr(builtins, first, None))
    for attribute in attributes:
        caught = getattr(caught, attribute, None)
    kinds = caught if isinstance(caught, tuple) else (caught,)
    return any(not isinstance(kind, type) or issubclass(error, kind) for kind in kinds for error in errors)


@functools.lru_cache(maxsize=256)
def _blocks(tree: ast.Module) -> dict[int, list[_Block]]:
    """Maps the first line of each function of the file to its blocks whose errors it catches."""
    return {
        min(line.lineno for line in (function, *function.decorator_list)): list(_blocks_in(function))
        for function in ast.walk(tree)
        if isinstance(function, _FUNCTIONS)
    }


def _blocks_in(node: ast.AST) -> Iterator[_Block]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Try):
            for handler in child.handlers:
                yield _block(child.body, list(_names(handler.type)), always_raises(handler.body))
        elif isinstance(child, (ast.With, ast.AsyncWith)) and (suppressed := list(_suppressed(child.items))):
            yield _block(child.body, suppressed, raises=False)
        if not isinstance(child, _FUNCTIONS):
            yield from _blocks_in(child)


def _block(body: list[ast.stmt], caught: list[str | None], raises: bool) -> _Block:
    return _Block(body[0].lineno, body[-1].end_lineno or body[-1].lineno, caught, raises)


def _names(kind: ast.expr | None) -> Iterator[str | None]:
    if isinstance(kind, ast.Tuple):
        for each in kind.elts:
            yield from _names(each)
    else:
        is_name = isinstance(kind, (ast.Name, ast.Attribute))
        name = ast.unparse(kind) if kind is not None and is_name else ""
        yield name if name.replace(".", "").isidentifier() else None


def _suppressed(items: list[ast.withitem]) -> Iterator[str | None]:
    for call in (item.context_expr for item in items):
        if isinstance(call, ast.Call) and "suppress" in (getattr(call.func, "id", ""), getattr(call.func, "attr", "")):
            for kind in call.args:
                yield from _names(kind)
