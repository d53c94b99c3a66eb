"""``while`` loops that count a number up or down to a bound, as ``while t < n: …; t += 1``."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import NamedTuple

from opbridge.capture.loops.uses import called_on_in, can_be_function, names_in, own, stored_in
from opbridge.capture.symbolic_sizes.syntax import lines_of

_RELATIONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_TERMS = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp)


class Counting(NamedTuple):
    """``while left < right: …; number += step``, where the body assigns the number nowhere else, nor any other name in
    the test and in the step. The number is a term of ``left`` or of ``right``. ``relation`` is the class of the node
    that compares both."""

    number: str
    left: ast.expr
    relation: str
    right: ast.expr
    step: ast.expr


def counting(loop: ast.While) -> Counting | None:
    """How a loop counts; None if it does not, or has a body that cannot be a function of its own."""
    test = loop.test
    if not isinstance(test, ast.Compare) or len(test.ops) > 1 or not isinstance(test.ops[0], _RELATIONS):
        return None
    left, right = test.left, test.comparators[0]
    if not can_be_function(loop.body) or not _is_plain(left) or not _is_plain(right):
        return None
    for i, statement in enumerate(loop.body):
        increment = _increment(statement)
        if increment is None:
            continue
        number, step = increment
        counted = [*_terms(left), *_terms(right)].count(number)
        others = [*names_in(ast.walk(test)), *names_in(ast.walk(step))]
        if counted != 1 or others.count(number) != 1 or not _is_plain(step):
            continue
        stored = list(stored_in(loop.body))
        if stored.count(number) != 1 or not {*stored, *called_on_in(loop.body)}.isdisjoint({*others} - {number}):
            continue
        if not any(isinstance(each, ast.Continue) for each in own(loop.body[:i])):
            return Counting(number, left, type(test.ops[0]).__name__, right, step)
    return None


@functools.lru_cache(maxsize=64)
def tests_of_counting(tree: ast.Module) -> frozenset[int]:
    """The lines with the tests of the loops in a file that count."""
    loops = (each for each in ast.walk(tree) if isinstance(each, ast.While) and counting(each))
    return frozenset(line for loop in loops for line in lines_of(loop.test))


@functools.lru_cache(maxsize=64)
def lines_that_count_steps(tree: ast.Module) -> frozenset[int]:
    """The lines on which the loops in a file ask how many steps they have, and a tensor how many parts."""
    asking = (part for each in ast.walk(tree) if (part := _asks_for_steps(each)))
    return tests_of_counting(tree).union(line for each in asking for line in lines_of(each))


def _asks_for_steps(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.For(_, items) | ast.comprehension(_, items):
            return items
        case ast.Call(ast.Attribute(_, "split" | "chunk")):
            return node
    return None


def _increment(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The variable that the statement changes, and by how much."""
    match statement:
        case ast.AugAssign(ast.Name(number), op, by):
            pass
        case ast.Assign([ast.Name(number)], ast.BinOp(ast.Name(same), op, by)) if same == number:
            pass
        case _:
            return None
    if isinstance(op, ast.Add):
        return number, by
    return (number, ast.UnaryOp(ast.USub(), by)) if isinstance(op, ast.Sub) else None


def _terms(node: ast.expr) -> Iterator[str]:
    """The names that are terms of a sum."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield from _terms(node.left)
        yield from _terms(node.right)


def _is_plain(node: ast.expr) -> bool:
    """Whether the expression may be evaluated more often than the model does."""
    if isinstance(node, ast.Call):
        is_size = isinstance(node.func, ast.Attribute) and node.func.attr == "size" and _is_plain(node.func.value)
        is_length = isinstance(node.func, ast.Name) and node.func.id == "len"
        return (is_size or is_length) and not node.keywords and all(map(_is_plain, node.args))
    if not isinstance(node, _TERMS):
        return False
    return all(_is_plain(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
