"""``match`` statements whose patterns are values and names, as branches."""

from __future__ import annotations

import ast
import copy
import itertools
from typing import Any

from opbridge.capture.loops.nodes import assignment, placed
from opbridge.capture.loops.uses import OfOneFunction

_SUBJECT = "opbridge_subject_"


def with_branches(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements, in which such ``match`` statements are branches instead."""
    module: ast.Module = _Matches().visit(ast.Module(statements, []))
    return module.body


class _Matches(OfOneFunction):
    def __init__(self) -> None:
        self._numbers = itertools.count()

    def visit_Match(self, node: ast.Match) -> Any:
        self.generic_visit(node)
        values = node.subject.elts if isinstance(node.subject, ast.Tuple) else [node.subject]
        if any(isinstance(each, ast.Starred) for each in values):
            return node
        names = [f"{_SUBJECT}{next(self._numbers)}" for _ in values]
        subject = _Subject(names if isinstance(node.subject, ast.Tuple) else names[0])
        branches: list[ast.stmt] = []
        for case in reversed(node.cases):
            matched = subject.matched(case.pattern)
            if matched is None:
                return node
            tests, captured = matched
            inner = [] if case.guard is None else [case.guard]
            if captured:
                # Python gives the names before it evaluates the guard.
                after = [ast.If(inner[0], case.body, copy.deepcopy(branches))] if inner else case.body
                body = [*captured, *after]
            else:
                tests, body = [*tests, *inner], case.body
            branches = body if not tests else [ast.If(_all(tests), body, branches)]
        assigned = [assignment(name, value) for name, value in zip(names, values, strict=True)]
        return [placed(each, node) for each in (*assigned, *branches)]


class _Subject:
    """The variable with the subject, or those with the elements of a tuple that is the subject."""

    def __init__(self, names: str | list[str]) -> None:
        self._names = names

    def matched(self, pattern: ast.pattern) -> tuple[list[ast.expr], list[ast.stmt]] | None:
        """What is true if the subject matches, and the assignments to the names in the pattern; None for a pattern of
        another kind."""
        match pattern:
            case ast.MatchAs(None, name):
                return [], [] if name is None else [assignment(name, self._value())]
            case ast.MatchOr(patterns):
                ways = [self.matched(each) for each in patterns]
                tests = [_all(way[0]) for way in ways if way is not None and way[0] and not way[1]]
                return ([ast.BoolOp(ast.Or(), tests)], []) if len(tests) == len(ways) else None
            case ast.MatchSequence(patterns) if isinstance(self._names, list) and len(patterns) == len(self._names):
                parts = [_Subject(name).matched(each) for name, each in zip(self._names, patterns, strict=True)]
                known = [part for part in parts if part is not None]
                if len(known) < len(parts):
                    return None
                return [each for tests, _ in known for each in tests], [each for _, names in known for each in names]
            case ast.MatchValue(expected) if isinstance(self._names, str):
                return [ast.Compare(self._value(), [ast.Eq()], [expected])], []
            case ast.MatchSingleton(expected) if isinstance(self._names, str):
                return [ast.Compare(self._value(), [ast.Is()], [ast.Constant(expected)])], []
        return None

    def _value(self) -> ast.expr:
        names = [self._names] if isinstance(self._names, str) else self._names
        values: list[ast.expr] = [ast.Name(name, ast.Load()) for name in names]
        return values[0] if isinstance(self._names, str) else ast.Tuple(values, ast.Load())


def _all(tests: list[ast.expr]) -> ast.expr:
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
