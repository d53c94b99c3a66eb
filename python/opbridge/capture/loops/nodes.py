"""Nodes of the syntax trees of rewritten functions."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)

RUNTIME_NAME = "opbridge.capture.loops"  # the constant in whose place the new code has the runtime


def placed(node: Node, origin: ast.AST) -> Node:
    return ast.fix_missing_locations(ast.copy_location(node, origin))


def call(name: str, args: list[Any], keywords: Iterable[ast.keyword] = ()) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Constant(RUNTIME_NAME), name, ast.Load()), args, list(keywords))


def returning(names: list[str]) -> ast.Return:
    return ast.Return(ast.Tuple([ast.Name(name, ast.Load()) for name in names], ast.Load()))


def lazily(names: list[str]) -> list[ast.Lambda]:
    """Functions that return the variables, which may have no value."""
    return [ast.Lambda(parameters(), ast.Name(name, ast.Load())) for name in names]


def assigning(names: list[str], value: ast.expr) -> ast.stmt:
    if not names:
        return ast.Expr(value)
    return ast.Assign([ast.Tuple([stored_name(name) for name in names], ast.Store())], value)


def parameters(*names: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def stored_name(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def assignment(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([stored_name(name)], value)


def test_in_body(loop: ast.While, before: list[ast.stmt]) -> None:
    """Moves the test of the loop into its body, after statements that the test needs."""
    ends = placed(ast.If(ast.UnaryOp(ast.Not(), loop.test), [ast.Break()], []), loop)
    loop.test, loop.body = ast.Constant(True), [*before, ends, *loop.body]
