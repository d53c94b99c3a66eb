"""Tests that name a value, ``if (n := f(x)) > 0``, as assignments before."""

from __future__ import annotations

import ast
from typing import Any

from opbridge.capture.loops.nodes import test_in_body
from opbridge.capture.loops.uses import OfOneFunction

# The part of an expression that Python evaluates first.
_FIRST = {
    ast.Attribute: "value",
    ast.BinOp: "left",
    ast.Call: "func",
    ast.Compare: "left",
    ast.Subscript: "value",
    ast.UnaryOp: "operand",
}


def with_assignments(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements, in which tests of branches and loops that first name a value are changed in place."""
    module: ast.Module = _Tests().visit(ast.Module(statements, []))
    return module.body


class _Tests(OfOneFunction):
    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        found = _taken_out(node)
        return node if found is None else [found, node]

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        if node.orelse or (found := _taken_out(node)) is None:
            return node
        test_in_body(node, [found])
        return node


def _taken_out(statement: ast.If | ast.While) -> ast.Assign | None:
    """The assignment of the value that the test names first; the test then reads the variable."""
    owner: Any = statement
    field = "test"
    while not isinstance(part := getattr(owner, field), ast.NamedExpr):
        if isinstance(part, ast.BoolOp):
            if isinstance(part.values[0], ast.NamedExpr):
                return None
            part = part.values[0]
        if type(part) not in _FIRST:
            return None
        owner, field = part, _FIRST[type(part)]
    setattr(owner, field, ast.copy_location(ast.Name(part.target.id, ast.Load()), part))
    return ast.copy_location(ast.Assign([part.target], part.value), statement)
