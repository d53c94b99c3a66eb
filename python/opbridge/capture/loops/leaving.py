"""Statements that leave a step, a loop or a function: ``continue``, ``break`` and ``return``, as assignments."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any

from opbridge.capture.loops.nodes import assignment, placed
from opbridge.capture.loops.uses import OfOneFunction, own, walk

RETURNED = "opbridge_returned"
_NEXT = "opbridge_next_"
_STOPPED = "opbridge_stopped_"
_RETURNING = "opbridge_returning_"
_MOST_COPIES = 3  # of what follows a branch

_Leave = Callable[[ast.stmt], list[ast.stmt] | None]  # what stands for a statement that leaves; None for others


class _TooManyCopies(Exception):
    """Both ways of too many branches, one in the other, may or may not leave."""


def with_one_return(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a function, with one ``return``, that of a variable, if its branches and loops return: these assign
    the variable."""
    outside = _Loops().body(statements)
    if not _in_ways(outside, _as_assignment):
        return outside
    try:
        changed = _without([*outside, ast.Return(ast.Constant(None))], _as_assignment)
    except _TooManyCopies:
        return outside
    return [*changed, ast.Return(ast.Name(RETURNED, ast.Load()))]


def without_continue(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a loop without ``continue`` in the ways of its branches."""
    try:
        return _without(statements, lambda each: [] if isinstance(each, ast.Continue) else None)
    except _TooManyCopies:
        return statements


def stop_of(loop: ast.For) -> str | None:
    """The variable that is true once a loop has been left, for a loop that ``with_one_return`` has changed: the body
    ends in ``if stopped: break``."""
    match loop.body[-1]:
        case ast.If(ast.Name(name), [ast.Break()]) if name.startswith(_STOPPED):
            return name
    return None


class _Loops(OfOneFunction):
    """Replaces ``break`` and ``return`` in loops. After it, no step does anything:

    stopped = False
    for next in items:
        if not stopped:
            item = next
            …                           # with ``stopped = True`` for ``break``
        if stopped:
            break
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def body(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        module: ast.Module = self.visit(ast.Module(copy.deepcopy(statements), []))
        return module.body

    def visit_For(self, node: ast.For) -> Any:
        return self._left(node)

    def visit_While(self, node: ast.While) -> Any:
        return self._left(node)

    def _left(self, loop: ast.For | ast.While) -> Any:
        self.generic_visit(loop)  # the loops in it first: after one that returns, its own loop does
        returns = any(isinstance(each, ast.Return) for each in walk(loop.body))
        breaks = any(isinstance(each, ast.Break) for each in own(loop.body))
        if not returns and not breaks:
            return loop
        only_returns = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant) and bool(loop.test.value)
        only_returns &= not breaks
        number = next(self._numbers)
        stopped, returning = f"{_STOPPED}{number}", f"{_RETURNING}{number}"

        def leave(statement: ast.stmt) -> list[ast.stmt] | None:
            if isinstance(statement, ast.Break):
                return [_assigned(stopped, True, statement)]
            if isinstance(statement, ast.Return):
                flags = (_assigned(name, True, statement) for name in (returning, stopped))
                return [*(_as_assignment(statement) or ()), *flags]
            return [] if isinstance(statement, ast.Continue) else None

        try:
            body = _without(copy.deepcopy(loop.body), leave)
        except _TooManyCopies:
            return loop
        if any(isinstance(each, (ast.Break, ast.Continue)) for each in own(body)):
            return loop
        if any(isinstance(each, ast.Return) for each in walk(body)):
            return loop
        runs = ast.UnaryOp(ast.Not(), ast.Name(stopped, ast.Load()))
        if isinstance(loop, ast.While):
            loop.test, loop.body = ast.BoolOp(ast.And(), [runs, loop.test]), body
        else:
            following = f"{_NEXT}{number}"
            item = ast.copy_location(ast.Assign([loop.target], ast.Name(following, ast.Load())), loop)
            loop.target = ast.Name(following, ast.Store())
            loop.body = [_if(runs, [item, *body], loop), _if(ast.Name(stopped, ast.Load()), [ast.Break()], loop)]
        flags = [_assigned(name, False, loop) for name in (stopped, returning)]
        after: list[ast.stmt] = [_if(runs, loop.orelse, loop)] if loop.orelse else []
        loop.orelse = []
        if returns:
            result = ast.copy_location(ast.Return(ast.Name(RETURNED, ast.Load())), loop)
            after.append(result if only_returns else _if(ast.Name(returning, ast.Load()), [result], loop))
        return [*(flags if returns else flags[:1]), loop, *after]


def _without(statements: list[ast.stmt], leave: _Leave, copies: int = _MOST_COPIES) -> list[ast.stmt]:
    """Statements without those that leave, which are at the end of ways: what follows the branch becomes a part of its
    other way."""
    for i, statement in enumerate(statements):
        replacement = leave(statement)
        if replacement is not None:
            return [*statements[:i], *replacement]
        if isinstance(statement, ast.If) and _in_ways([statement], leave):
            ways, rest = [statement.body, statement.orelse], statements[i + 1 :]
            ends = [_ends(way, leave) for way in ways]
            if rest and not any(ends):
                copies -= 1
            if copies < 0:
                raise _TooManyCopies
            ways = [way if end else [*way, *copy.deepcopy(rest)] for way, end in zip(ways, ends, strict=True)]
            body, orelse = (_without(way, leave, copies) for way in ways)
            return [*statements[:i], ast.copy_location(ast.If(statement.test, body or [ast.Pass()], orelse), statement)]
    return statements


def _in_ways(statements: Iterable[ast.stmt], leave: _Leave) -> bool:
    """Whether a way of a branch among the statements may leave."""
    branches = (each for each in statements if isinstance(each, ast.If))
    return any(_may_leave(each.body, leave) or _may_leave(each.orelse, leave) for each in branches)


def _may_leave(statements: list[ast.stmt], leave: _Leave) -> bool:
    return any(leave(each) is not None for each in statements) or _in_ways(statements, leave)


def _ends(statements: list[ast.stmt], leave: _Leave) -> bool:
    """Whether what follows the statements never runs."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, ast.If):
        return _ends(last.body, leave) and _ends(last.orelse, leave)
    return isinstance(last, ast.Raise) or leave(last) is not None


def _as_assignment(statement: ast.stmt) -> list[ast.stmt] | None:
    if not isinstance(statement, ast.Return):
        return None
    value = statement.value or ast.Constant(None)
    return [placed(assignment(RETURNED, value), statement)]


def _assigned(name: str, value: bool, origin: ast.stmt) -> ast.stmt:
    return placed(assignment(name, ast.Constant(value)), origin)


def _if(test: ast.expr, body: list[ast.stmt], origin: ast.stmt) -> ast.If:
    return ast.copy_location(ast.If(test, body, []), origin)
