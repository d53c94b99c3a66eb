"""Finds tests of sizes and of data whose answer does not change what the model computes."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from types import FrameType
from typing import NamedTuple

from opbridge.capture.source import runs_users
from opbridge.capture.symbolic_sizes.asking import asked_by_layer, frame_of_python
from opbridge.capture.symbolic_sizes.shown import only_shows
from opbridge.capture.symbolic_sizes.syntax import always_raises, evaluated, lines_of, tree_of
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.torch_compat.symbols import FUNCTION_MODE


def is_without_effect(frame: FrameType) -> bool:
    """Whether the way that the example takes at the line of ``frame`` is right for all sizes."""
    return _only_checks(frame) or _only_lays_out(frame) or _is_decided_by_flags(frame) or only_shows(frame)


def _only_checks(frame: FrameType) -> bool:
    """Whether the line is in the test of an ``assert``, or of an ``if`` one way of which raises an error: PyTorch does
    not run the model the other way either."""
    return frame.f_lineno in _truths_of_checks(tree_of(frame.f_code), or_useful=True)


def is_required(frame: FrameType) -> bool:
    """Whether what the example answers at the line of ``frame`` holds for all sizes for which the model runs: that one
    condition of several does, as in ``assert n > 3 or flag``, may not."""
    return isinstance(_truths_of_checks(tree_of(frame.f_code), or_useful=False).get(frame.f_lineno), bool)


def passing_truth(frame: FrameType) -> bool | None:
    """The truth value for which the line that ``frame`` runs raises no error, as True for ``assert x.min() >= 0``. None
    if it is not such a test, if the model may catch the error, or if one condition must be true and another false,
    unless all others are Python's bools. ``frame`` may be that of a torch function mode."""
    while frame.f_code.co_name == FUNCTION_MODE and frame.f_back is not None:
        frame = frame.f_back
    is_known = runs_users(frame) or asked_by_layer(frame)
    truth = _truths_of_checks(tree_of(frame.f_code), or_useful=True).get(frame.f_lineno) if is_known else None
    if isinstance(truth, tuple):
        truth = _truth_of_the_undecided(truth, frame)
    return None if truth is not None and in_try_block(frame) else truth


def is_check(frame: FrameType | None) -> bool:
    """Whether the user's code or a layer of torch, the innermost of those that run in ``frame``, asks for a truth value
    only in order to raise an error. torch's mode, which finds this in the user's code, is off in functions that modes
    may replace."""
    frame = frame_of_python(frame)
    return frame is not None and passing_truth(frame) is not None


# Names and what they must be, for a test that one of them decides.
_Alternatives = tuple[tuple[ast.expr, bool], ...]


@functools.lru_cache(maxsize=256)
def _truths_of_checks(tree: ast.Module, or_useful: bool) -> dict[int, bool | _Alternatives | None]:
    """Maps the lines of such tests to what passing_truth returns, if that is the same for each of their conditions;
    ``or_useful`` where one condition of several would do."""
    truths: dict[int, bool | _Alternatives | None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assert, ast.If)) or not _is_check(node):
            continue
        raises = isinstance(node, ast.If) and always_raises(node.body)
        needed = set(_needed(node.test, not raises, or_useful))
        both_raise = isinstance(node, ast.If) and raises and bool(node.orelse) and always_raises(node.orelse)
        truth: bool | _Alternatives | None = needed.pop() if len(needed) == 1 and not both_raise else None
        if truth is None and not both_raise:
            truth = _alternatives(node.test, not raises) or None
        for line in lines_of(node.test):
            if line in truths:  # of another check
                truth = None
            truths[line] = truth
    return truths


# What asks for truth values of its own.
_ASKING = (ast.BoolOp, ast.IfExp, ast.comprehension, ast.Lambda, ast.Not)
_ASKING_FUNCTIONS = {"all", "any", "filter", "max", "min", "sorted"}
_OF_ALL = {True: "all", False: "any"}  # which function of all items needs each of them for this result


def _needed(test: ast.expr, truth: bool, or_useful: bool) -> Iterator[bool | None]:
    """What each condition in ``test`` must be for ``test`` to be ``truth``, ``or_useful`` where one of several does;
    None if that is not known."""
    test, truth = _without_not(test, truth)
    match test:
        case ast.BoolOp(op, values) if or_useful or isinstance(op, ast.And) == truth:
            for value in values:
                yield from _needed(value, truth, or_useful)
        case ast.Call(ast.Name(name), [ast.GeneratorExp(each, [ast.comprehension(ifs=[])])]) if name == _OF_ALL[truth]:
            yield from _needed(each, truth, or_useful)
        case _:
            yield None if any(map(_asks, ast.walk(test))) else truth


def _alternatives(test: ast.expr, truth: bool) -> _Alternatives:
    """The conditions of which one suffices for ``test`` to be ``truth``; none if this is not so, or if evaluating one
    would run code of the model."""
    test, truth = _without_not(test, truth)
    if not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.And) == truth:
        return ()
    found = tuple(_without_not(value, truth) for value in test.values)
    return found if all(_is_flag(value) for value, _ in found) else ()


def _without_not(test: ast.expr, truth: bool) -> tuple[ast.expr, bool]:
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, truth = test.operand, not truth
    return test, truth


def _truth_of_the_undecided(alternatives: _Alternatives, frame: FrameType) -> bool | None:
    """What the only condition must be that is not one of Python's bools; None if there are several."""
    try:
        undecided = [truth for name, truth in alternatives if not isinstance(evaluated(name, frame), bool)]
    except NameError:
        return None
    return undecided[0] if len(undecided) == 1 else None


def _asks(node: ast.AST) -> bool:
    is_chain = isinstance(node, ast.Compare) and (len(node.ops) > 1 or isinstance(node.ops[0], (ast.In, ast.NotIn)))
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ASKING_FUNCTIONS
    return is_chain or is_call or isinstance(node, _ASKING)


def _is_check(node: ast.Assert | ast.If) -> bool:
    return not _keeps(node) and (
        isinstance(node, ast.Assert) or always_raises(node.body) or (bool(node.orelse) and always_raises(node.orelse))
    )


def _keeps(node: ast.Assert | ast.If) -> bool:
    """Whether the test gives a name to a value."""
    return any(isinstance(each, ast.NamedExpr) for each in ast.walk(node.test))


def _only_lays_out(frame: FrameType) -> bool:
    """Whether the line is in the test of an ``if`` under which tensors are only made contiguous. That does not change
    their values."""
    return frame.f_lineno in _lines_before_layouts(tree_of(frame.f_code))


@functools.lru_cache(maxsize=256)
def _lines_before_layouts(tree: ast.Module) -> frozenset[int]:
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and not node.orelse and all(map(_makes_contiguous, node.body)) and not _keeps(node)
        for line in lines_of(node.test)
    )


def _makes_contiguous(statement: ast.stmt) -> bool:
    """Whether the statement is ``x = x.contiguous()``."""
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(target := statement.targets[0], ast.Name)
        and ast.unparse(statement.value) == f"{target.id}.contiguous()"
    )


class _Flags(NamedTuple):
    """The other operands of ``n > 1 and flag and mask is None``; ``decisive`` is the value of one that decides."""

    expressions: list[ast.expr]
    decisive: bool


def _is_decided_by_flags(frame: FrameType) -> bool:
    """Whether the line is ``n > 1 and flag``, the value of a statement or of an ``if``, and the flag is False; or the
    same with ``or`` and True."""
    flags = _flags_by_line(tree_of(frame.f_code)).get(frame.f_lineno)
    if flags is None:
        return False
    try:
        values = [evaluated(each, frame) for each in flags.expressions]
    except NameError:
        return False
    return all(isinstance(value, bool) for value in values) and flags.decisive in values


@functools.lru_cache(maxsize=256)
def _flags_by_line(tree: ast.Module) -> dict[int, _Flags]:
    found: dict[int, _Flags] = {}
    for node in ast.walk(tree):
        value = node.test if isinstance(node, ast.If) else getattr(node, "value", None)
        if isinstance(node, (ast.If, ast.Assign, ast.Return)) and isinstance(value, ast.BoolOp):
            others = [operand for operand in value.values if not _is_flag(operand)]
            if len(others) == 1 and isinstance(others[0], ast.Compare):
                flags = _Flags([each for each in value.values if each is not others[0]], isinstance(value.op, ast.Or))
                found.update(dict.fromkeys(lines_of(value), flags))
    return found


def _is_flag(node: ast.expr) -> bool:
    """Whether evaluating ``node`` runs no code of the model: ``flag``, ``not flag``, ``mask is None``."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) and _is_flag(node.operand)
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops) and all(
            _is_flag(each) for each in (node.left, *node.comparators)
        )
    return isinstance(node, (ast.Name, ast.Constant))
