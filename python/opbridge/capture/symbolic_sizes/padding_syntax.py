"""Finds branches that may only pad or crop a tensor, in the syntax of the model's functions."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import NamedTuple

from opbridge.capture.symbolic_sizes.syntax import definition_of, lines_of
from opbridge.capture.symbolic_sizes.whole_tests import is_plain, leaves_of_test

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.comprehension)


class Step(NamedTuple):
    """``name = value``; ``kind`` is ``pad`` or ``crop``, where ``value`` starts from ``name``, or ``number``."""

    kind: str
    name: str
    value: ast.expr


class Candidate(NamedTuple):
    """``test`` has the answer ``truth`` where the steps are taken, in ``lines``."""

    test: ast.expr
    truth: bool
    steps: tuple[Step, ...]
    lines: range


class KeptTest(NamedTuple):
    """``name = test``, the truth of which only candidates ask."""

    name: str
    test: ast.expr


@functools.lru_cache(maxsize=256)
def candidates_in(code: CodeType) -> dict[int, Candidate | KeptTest]:
    """The candidates in the function of ``code``, and the tests that it keeps for them, by the lines of their tests."""
    function = definition_of(code)
    found: dict[int, Candidate | KeptTest] = {}
    if function is None:
        return found
    candidates = list(_candidates_in(function))
    known: list[Candidate | KeptTest] = [*candidates, *_kept_tests(function, candidates)]
    for candidate in known:
        found.update(dict.fromkeys(lines_of(candidate.test), candidate))
    several = _lines_of_several_tests(function)
    return {line: candidate for line, candidate in found.items() if line not in several}


def _lines_of_several_tests(function: ast.FunctionDef) -> set[int]:
    tests = [
        line
        for node in ast.walk(function)
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert))
        for line in {*lines_of(node.test)}
    ]
    return {line for line in tests if tests.count(line) > 1}


def _candidates_in(function: ast.FunctionDef) -> Iterator[Candidate]:
    bodies = [(node, _steps(node.body)) for node in ast.walk(function) if isinstance(node, ast.If) and not node.orelse]
    read = _names_read_elsewhere(function, [steps for _, steps in bodies])
    for test, steps in bodies:
        if steps and read.isdisjoint(step.name for step in steps if step.kind == "number"):
            yield Candidate(test.test, True, tuple(steps), _lines_of_body(test.body))
    for node in ast.walk(function):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            yield from _early_returns(body) if isinstance(body, list) else ()
        if isinstance(node, ast.IfExp):
            for changed, same, truth in ((node.body, node.orelse, True), (node.orelse, node.body, False)):
                if (
                    isinstance(same, ast.Name)
                    and (kind := _kind(changed, same.id))
                    and _is_only_call(changed, function)
                ):
                    yield Candidate(node.test, truth, (Step(kind, same.id, changed),), lines_of(changed))


def _is_only_call(changed: ast.expr, function: ast.FunctionDef) -> bool:
    """Whether no other function is called in the lines of ``changed``: they tell its calls from others."""
    lines, within = lines_of(changed), {*ast.walk(changed)}
    calls = (each for each in ast.walk(function) if isinstance(each, ast.Call) and each not in within)
    return not any({*lines} & {*lines_of(each)} for each in calls)


def _early_returns(body: list[ast.stmt]) -> Iterator[Candidate]:
    """``if pad == 0: return x``, and then ``return F.pad(x, (0, pad))``."""
    for first, second in itertools.pairwise(body):
        if (
            isinstance(first, ast.If)
            and not first.orelse
            and len(first.body) == 1
            and isinstance(same := first.body[0], ast.Return)
            and isinstance(same.value, ast.Name)
            and isinstance(second, ast.Return)
            and second.value is not None
            and (kind := _kind(second.value, same.value.id))
        ):
            yield Candidate(first.test, False, (Step(kind, same.value.id, second.value),), _lines_of_body([second]))


def _lines_of_body(body: Sequence[ast.stmt]) -> range:
    return range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1)


def _steps(body: Sequence[ast.stmt]) -> list[Step]:
    """The steps of a body that ends by padding or cropping; none if it does more."""
    steps = [_step(statement) for statement in body]
    known = [step for step in steps if step is not None]
    return known if len(known) == len(steps) and known[-1].kind != "number" else []


def _step(statement: ast.stmt) -> Step | None:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    kind = _kind(statement.value, target.id) or ("number" if is_plain(statement.value) else "")
    return Step(kind, target.id, statement.value) if kind else None


def _kind(value: ast.expr, name: str) -> str:
    """Whether ``value`` is ``F.pad(name, …)`` or ``name[…]`` with slices alone; empty if it is neither."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "contiguous" and not value.args and not value.keywords:
            return "crop" if _kind(value.func.value, name) == "crop" else ""
        is_pad = value.func.attr == "pad" and bool(value.args) and _is_name(value.args[0], name)
        others = [*value.args[1:], *(each.value for each in value.keywords)]
        return (
            "pad" if is_pad and pads_of(value) in others and is_plain(value.func) and all(map(is_plain, others)) else ""
        )
    if isinstance(value, ast.Subscript) and _is_name(value.value, name):
        parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        dots = [each for each in parts if isinstance(each, ast.Constant) and each.value is ...]
        slices = [each for each in parts if isinstance(each, ast.Slice) and _is_plain_slice(each)]
        return "crop" if len(dots) <= 1 and len(dots) + len(slices) == len(parts) else ""
    return ""


def pads_of(call: ast.Call) -> ast.expr | None:
    named = (each.value for each in call.keywords if each.arg == "pad")
    return call.args[1] if len(call.args) > 1 else next(named, None)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_plain_slice(node: ast.Slice) -> bool:
    return node.step is None and all(end is None or is_plain(end) for end in (node.lower, node.upper))


def _names_read_elsewhere(function: ast.FunctionDef, bodies: Sequence[Sequence[Step]]) -> set[str]:
    """The names that the function reads, except where one of the bodies has computed them as numbers before."""
    own: set[ast.AST] = set()
    for steps in bodies:
        computed: set[str] = set()
        for step in steps:
            own.update(each for each in ast.walk(step.value) if isinstance(each, ast.Name) and each.id in computed)
            if step.kind == "number":
                computed.add(step.name)
    names = (each for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load))
    return {each.id for each in names if each not in own}


def _kept_tests(function: ast.FunctionDef, candidates: list[Candidate]) -> Iterator[KeptTest]:
    """Those whose name is asked for its truth in candidates, and read nowhere else, nor in another function."""
    asked = {id(candidate.test) for candidate in candidates if candidate.truth}
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    inner = {
        each.id
        for node in ast.walk(function)
        if isinstance(node, _SCOPES) and node is not function
        for each in ast.walk(node)
        if isinstance(each, ast.Name)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.value, ast.BoolOp):
            continue
        target = node.targets[0]
        if not isinstance(target, ast.Name) or target.id in inner:
            continue
        if not all(map(is_plain, leaves_of_test(node.value))):
            continue
        others = [each for each in names if each.id == target.id and each is not target]
        if others and all(id(each) in asked for each in others):
            yield KeptTest(target.id, node.value)


def slices_of(value: ast.expr) -> list[ast.expr]:
    """The parts of the index in ``x[…]`` or ``x[…].contiguous()``."""
    indexed = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else value
    assert isinstance(indexed, ast.Subscript)
    return indexed.slice.elts if isinstance(indexed.slice, ast.Tuple) else [indexed.slice]
