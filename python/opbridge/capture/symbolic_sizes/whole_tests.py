"""The whole test of an ``if`` with ``and``, ``or`` and ``not``.

Python asks the conditions of ``if n % 2 or m % 2:`` one by one. To a capture, they are one condition with two answers:
the ways of a model do not multiply by the conditions of each test.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

import sympy
import torch

from opbridge.capture.symbolic_sizes.model_branches import Branches, is_linear
from opbridge.capture.symbolic_sizes.syntax import evaluated, lines_of, tree_of
from opbridge.torch_compat.symbols import (
    FloorDiv,
    IntTrueDiv,
    Mod,
    PythonMod,
    SymNode,
    always,
    free_unbacked_symbols,
)

_DIVISIONS = (FloorDiv, Mod, PythonMod, IntTrueDiv)
_RELATIONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# What a condition may consist of: its evaluation runs no code of the model.
_PLAIN = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Tuple, ast.operator)
_CONTEXTS = (ast.unaryop, ast.expr_context)
_ASKING_FUNCTIONS = {"all", "any", "bool", "filter", "max", "min", "sorted"}


class WholeTest(NamedTuple):
    """``truth`` is torch's symbol of the whole test, or a bool if the test does not depend on the sizes, whatever the
    condition in it that Python asks. That condition is to have the answer of the test if ``same``, and otherwise the
    other one."""

    truth: Any
    same: bool


def whole_test(frame: FrameType, asked: Any, env: Any, branches: Branches) -> WholeTest | None:
    """The test of the ``if`` that asks the condition ``asked`` at the line of ``frame``; None if it is no other one."""
    test = _tests_by_line(tree_of(frame.f_code)).get(frame.f_lineno)
    if test is None:
        return None
    found = condition_of(test, True, frame, env, branches)
    if found is None:
        return None
    whole, conditions = found
    same = next((same for condition, same in conditions if condition == asked), None)
    if same is None or whole in (asked, ~asked) or free_unbacked_symbols(whole):
        return None
    if whole in (sympy.true, sympy.false):
        return WholeTest(bool(whole), same)
    if any(len(each.free_symbols) > 1 for each in whole.atoms(sympy.Eq, sympy.Ne)):
        return None  # torch takes equal sizes for one, and forgets the rest of the test
    fixing = sympy.Eq if isinstance(whole, sympy.And) else sympy.Ne
    if any(isinstance(each, fixing) and is_linear(each) for each in whole.args):
        return None  # one answer means that a size is a constant
    if any(each.args[1].free_symbols for each in whole.atoms(*_DIVISIONS)):
        return None  # a condition before this one may keep the divisor from being 0
    hint = whole.xreplace(env.backed_var_to_val)
    if hint not in (sympy.true, sympy.false):
        return None
    return WholeTest(SymNode(whole, env, bool, bool(hint)), same)


def condition_of(
    test: ast.expr, truth: bool, frame: FrameType, env: Any, branches: Branches
) -> tuple[Any, list[tuple[Any, bool]]] | None:
    """The expression of whether the test, which is plain, has the answer ``truth``. With it come the conditions in it,
    and whether that answer wants each to hold. None if Python cannot evaluate all of them."""
    conditions: list[tuple[Any, bool]] = []

    def known(condition: Any) -> Any:
        decided = next((each for each in (True, False) if branches.is_decided(condition, each)), None)
        return always(env, condition) if decided is None else decided

    try:
        return _condition(test, frame, known, truth, conditions), conditions
    except Exception:  # the conditions before this one may keep Python from evaluating it
        return None


@functools.lru_cache(maxsize=256)
def _tests_by_line(tree: ast.Module) -> dict[int, ast.expr]:
    """The tests of several conditions, by their lines; without those on the line of another test."""
    tests: dict[int, ast.expr] = {}
    lines: set[int] = set()
    asking = _asking_by_line(tree)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            continue
        for line in lines_of(node.test):
            is_first = line not in lines and isinstance(node, (ast.If, ast.IfExp))
            lines.add(line)
            leaves = list(leaves_of_test(node.test))
            is_alone = asking.get(line, set()) <= {*ast.walk(node.test)}
            if is_first and is_alone and len(leaves) > 1 and all(map(is_plain, leaves)):
                tests[line] = node.test
            else:
                tests.pop(line, None)
    return tests


def _asking_by_line(tree: ast.Module) -> dict[int, set[ast.AST]]:
    """What asks for truths, by its lines, besides the statements and expressions that have tests."""
    found: dict[int, set[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and _asks(node):
            for line in lines_of(node):
                found.setdefault(line, set()).add(node)
    return found


def _asks(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _ASKING_FUNCTIONS
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return is_not or isinstance(node, (ast.Compare, ast.BoolOp))


def leaves_of_test(test: ast.expr) -> Iterator[ast.expr]:
    """The conditions in a test, without ``and``, ``or`` and ``not``."""
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from leaves_of_test(value)
    elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from leaves_of_test(test.operand)
    else:
        yield test


def is_plain(condition: ast.expr) -> bool:
    """Whether evaluating the expression runs no code of the model."""
    if isinstance(condition, ast.Compare):
        known = len(condition.ops) == 1 and isinstance(condition.ops[0], (*_RELATIONS, ast.Is, ast.IsNot))
        return known and all(map(is_plain, (condition.left, *condition.comparators)))
    return all(isinstance(each, (*_PLAIN, *_CONTEXTS)) for each in ast.walk(condition))


def _condition(
    test: ast.expr,
    frame: FrameType,
    known: Callable[[Any], Any],
    same: bool,
    conditions: list[tuple[Any, bool]],
) -> Any:
    """The expression of a part of a test, or of its opposite unless ``same``, without what does not decide it. Appends
    the conditions in it, and for each whether it is ``same``. ``known`` is their truth if it is the same for all sizes,
    or else None."""
    if isinstance(test, ast.BoolOp):
        is_and = isinstance(test.op, ast.And) == same
        found = []
        for value in test.values:
            found.append(_condition(value, frame, known, same, conditions))
            if found[-1] == sympy.sympify(not is_and):  # Python evaluates no more
                break
        return (sympy.And if is_and else sympy.Or)(*found)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _condition(test.operand, frame, known, not same, conditions)
    condition = _asked(test, frame)
    if (truth := known(condition)) is not None:
        return sympy.sympify(bool(truth) == same)
    conditions.append((condition, same))
    return condition if same else ~condition


def _asked(leaf: ast.expr, frame: FrameType) -> Any:
    """What Python asks to find the truth of a part of a test without ``and``, ``or`` and ``not``."""
    if isinstance(leaf, ast.Compare):
        for side in (leaf.left, *leaf.comparators):
            if isinstance(leaf.ops[0], _RELATIONS) and not _is_number(evaluated(side, frame)):
                raise TypeError
    value: Any = evaluated(leaf, frame)
    if isinstance(value, torch.SymInt):
        value = value != 0
    if isinstance(value, torch.SymBool):
        return value.node.expr
    if value is None or isinstance(value, (bool, int)):
        return sympy.sympify(bool(value))
    raise TypeError


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, torch.SymInt, torch.SymFloat))
