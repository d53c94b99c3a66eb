"""``while`` loops that count a number up or down to a bound, as ``while t < n: …; t += 1``, or that multiply or divide
it, as ``t *= 2``."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from typing import NamedTuple

from opbridge.capture.loops.nodes import placed
from opbridge.capture.loops.uses import called_on_in, can_be_function, names_in, own, stored_in
from opbridge.capture.symbolic_sizes.syntax import lines_of

_RELATIONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.LShift, ast.RShift)
_TERMS = (ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp)


class Counting(NamedTuple):
    """``while left < right: …; number += by``, where the body assigns the number nowhere else, nor any other name in
    ``by``, and in the test only tensors whose sizes that compares, if it ``may_resize``. The number, perhaps times a
    constant, is a term of ``left`` or of ``right``. ``relation`` and ``operation`` are the classes of the nodes that
    compare both and that change the number. If both are not to be equal, ``left`` is 0."""

    number: str
    left: ast.expr
    relation: str
    right: ast.expr
    operation: str
    by: ast.expr
    may_resize: bool


def counting(loop: ast.While) -> Counting | None:
    """How a loop counts; None if it does not, or has a body that cannot be a function of its own."""
    test = _compared(loop.test)
    if test is None:
        return None
    left, right = test.left, test.comparators[0]
    if not can_be_function(loop.body) or not _is_plain(left) or not _is_plain(right):
        return None
    for i, statement in enumerate(loop.body):
        change = _change(statement)
        if change is None:
            continue
        number, operation, by = change
        if isinstance(test.ops[0], ast.NotEq) and not isinstance(by, ast.Constant):
            continue  # perhaps of a set or a list
        counted = [*_terms(left), *_terms(right)].count(number)
        in_test, in_step = ([*names_in(ast.walk(each))] for each in (test, by))
        if counted != 1 or [*in_test, *in_step].count(number) != 1 or not _is_plain(by):
            continue
        stored = list(stored_in(loop.body))
        changing = {*stored, *called_on_in(loop.body)} - {number}
        if stored.count(number) != 1 or not changing.isdisjoint({*in_step, *_without_sizes(test)}):
            continue
        if not any(isinstance(each, ast.Continue) for each in own(loop.body[:i])):
            may_resize = not changing.isdisjoint(in_test)
            return Counting(number, left, type(test.ops[0]).__name__, right, operation, by, may_resize)
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


def _compared(test: ast.expr) -> ast.Compare | None:
    """The relation of two numbers that a test is: ``0 != number`` for ``number``, and for ``number != 0``."""
    match test:
        case ast.Compare(_, [relation], [_]) if isinstance(relation, _RELATIONS):
            return test
        case ast.Name() | ast.Compare(ast.Name(), [ast.NotEq()], [ast.Constant(0)]):
            number = test if isinstance(test, ast.Name) else test.left
            return placed(ast.Compare(ast.Constant(0), [ast.NotEq()], [number]), test)
    return None


def _change(statement: ast.stmt) -> tuple[str, str, ast.expr] | None:
    """The variable that the statement changes, by which operation and by how much."""
    match statement:
        case ast.AugAssign(ast.Name(number), op, by):
            pass
        case ast.Assign([ast.Name(number)], ast.BinOp(ast.Name(same), op, by)) if same == number:
            pass
        case ast.Assign([ast.Name(number)], ast.BinOp(by, (ast.Add() | ast.Mult()) as op, ast.Name(same))):
            if same != number:
                return None
        case _:
            return None
    return (number, type(op).__name__, by) if isinstance(op, _OPERATIONS) else None


def _terms(node: ast.expr) -> Iterator[str]:
    """The names that are terms of a sum, perhaps times a constant."""
    match node:
        case ast.Name(name):
            yield name
        case ast.BinOp(left, ast.Add() | ast.Sub(), right):
            yield from _terms(left)
            yield from _terms(right)
        case ast.BinOp(ast.Name(name), ast.Mult(), ast.Constant()) | ast.BinOp(
            ast.Constant(), ast.Mult(), ast.Name(name)
        ):
            yield name


def _without_sizes(test: ast.expr) -> Iterator[str]:
    """The names in the test, except those of tensors of which it reads a size."""
    match test:
        case ast.Subscript(ast.Attribute(ast.Name(), "shape"), index):
            yield from _without_sizes(index)
        case ast.Call(ast.Attribute(ast.Name(), "size"), arguments):
            for each in arguments:
                yield from _without_sizes(each)
        case ast.Name(name):
            yield name
        case _:
            for child in ast.iter_child_nodes(test):
                if isinstance(child, ast.expr):
                    yield from _without_sizes(child)


def _is_plain(node: ast.expr) -> bool:
    """Whether the expression may be evaluated more often than the model does."""
    if isinstance(node, ast.Call):
        is_size = isinstance(node.func, ast.Attribute) and node.func.attr == "size" and _is_plain(node.func.value)
        is_length = isinstance(node.func, ast.Name) and node.func.id == "len"
        return (is_size or is_length) and not node.keywords and all(map(_is_plain, node.args))
    if not isinstance(node, _TERMS):
        return False
    return all(_is_plain(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
