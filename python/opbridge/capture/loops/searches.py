"""``any``, ``all`` and ``next`` of a generator, as loops before the statement that they are in:

if any(test(item) for item in items):       found = False
    …                                       for each in items:
                                                if test(each):
                                                    found = True
                                                    break
                                            if found:
                                                …
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from opbridge.capture.loops.nodes import assignment, placed, test_in_body
from opbridge.capture.loops.uses import PLAIN, OfOneFunction, is_plain, needs_its_frame, stored_in
from opbridge.capture.symbolic_sizes.syntax import always_raises

SEARCHES = frozenset({"any", "all", "next"})
_FOUND = "opbridge_found_"
_EACH = "opbridge_each_"
_VALUE = "opbridge_value_"
_LEAVING = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom)


class _Operand:
    """A part of an expression that Python evaluates."""

    def __init__(self, owner: Any, field: str, index: int | None = None) -> None:
        self._owner, self._field, self._index = owner, field, index

    @property
    def value(self) -> ast.expr:
        found: Any = getattr(self._owner, self._field)
        value: ast.expr = found if self._index is None else found[self._index]
        return value

    @value.setter
    def value(self, value: ast.expr) -> None:
        if self._index is None:
            setattr(self._owner, self._field, value)
        else:
            getattr(self._owner, self._field)[self._index] = value


def _operands(node: ast.expr | None) -> list[_Operand]:
    """Those that Python evaluates in any case, in their order."""
    match node:
        case ast.Attribute() | ast.NamedExpr():
            return [_Operand(node, "value")]
        case ast.UnaryOp():
            return [_Operand(node, "operand")]
        case ast.IfExp():
            return [_Operand(node, "test")]
        case ast.Subscript():
            return [_Operand(node, "value"), _Operand(node, "slice")]
        case ast.BinOp():
            return [_Operand(node, "left"), _Operand(node, "right")]
        case ast.Compare(comparators=[_]):
            return [_Operand(node, "left"), _Operand(node, "comparators", 0)]
        case ast.Compare():
            return [_Operand(node, "left")]
        case ast.Tuple(elts) | ast.List(elts) if not _has_starred(elts):
            return [_Operand(node, "elts", i) for i in range(len(elts))]
        case ast.Call(func, args, keywords) if is_plain(func) and not _has_starred(args):
            return [
                *(_Operand(node, "args", i) for i in range(len(args))),
                *(_Operand(each, "value") for each in keywords),
            ]
    return []


def _has_starred(nodes: Iterable[ast.expr]) -> bool:
    return any(isinstance(each, ast.Starred) for each in nodes)


class _Found(NamedTuple):
    before: list[ast.stmt]
    value: ast.expr  # reads a variable that they assign


def with_searches(statements: list[ast.stmt], builtins: Collection[str]) -> list[ast.stmt]:
    """The statements, in which those that evaluate one of ``builtins`` are changed in place."""
    module: ast.Module = _Searches(builtins).visit(ast.Module(statements, []))
    return module.body


class _Searches(OfOneFunction):
    def __init__(self, builtins: Collection[str]) -> None:
        self._builtins = builtins
        self._numbers = itertools.count()

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        is_check = always_raises(node.body) or (bool(node.orelse) and always_raises(node.orelse))
        return node if is_check else self._searched(node, "test")

    def visit_While(self, node: ast.While) -> Any:
        self.generic_visit(node)
        if node.orelse:
            return node
        *before, _ = self._searched(node, "test")
        if before:
            test_in_body(node, before)
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        return self._searched(node, "value")

    def visit_Return(self, node: ast.Return) -> Any:
        return self._searched(node, "value")

    def _searched(self, statement: Any, field: str) -> list[ast.stmt]:
        found = self._of(getattr(statement, field), is_test=field == "test")
        if found is None:
            return [statement]
        setattr(statement, field, found.value)
        return [*found.before, statement]

    def _of(self, node: ast.expr | None, is_test: bool) -> _Found | None:
        """``is_test``: only the truth of the expression matters."""
        if isinstance(node, ast.BoolOp):
            return self._of_several(node, is_test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self._builtins:
            return self._of_next(node) if node.func.id == "next" else self._of_all_items(node)
        operands = _operands(node)
        for_truth = isinstance(node, ast.IfExp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
        found = [self._of(operand.value, for_truth) for operand in operands]
        if node is None or not any(found):
            return None
        last = max(i for i, each in enumerate(found) if each is not None)
        names_values = any(isinstance(each, ast.NamedExpr) for each in ast.walk(node))
        kept = ast.Constant if names_values else (ast.Name, ast.Constant)  # may be evaluated after the others
        before: list[ast.stmt] = []
        for operand, each in zip(operands[: last + 1], found, strict=False):
            if each is None and not isinstance(operand.value, kept):
                name = self._name(_VALUE)
                each = self._placed([assignment(name, operand.value)], name, operand.value)
            if each is not None:
                before += each.before
                operand.value = each.value
        return _Found(before, node)

    def _of_several(self, node: ast.BoolOp, is_test: bool) -> _Found | None:
        """``a and any(…)``: the second is evaluated in a way of the branch on the first."""
        parts = [self._of(each, is_test) or _Found([], each) for each in node.values]
        if not any(part.before for part in parts):
            return None
        if not any(part.before for part in parts[1:]):
            node.values[0] = parts[0].value
            return _Found(parts[0].before, node)
        name = self._name(_FOUND)
        statements: list[ast.stmt] = []
        for part in reversed(parts):
            value = ast.Call(ast.Name("bool", ast.Load()), [part.value], []) if is_test else part.value
            follows: list[ast.stmt] = []
            if statements:
                read: ast.expr = ast.Name(name, ast.Load())
                goes_on = read if isinstance(node.op, ast.And) else ast.UnaryOp(ast.Not(), read)
                follows = [ast.If(goes_on, statements, [])]
            statements = [*part.before, assignment(name, value), *follows]
        return self._placed(statements, name, node)

    def _of_all_items(self, node: ast.Call) -> _Found | None:
        """``any(…)`` or ``all(…)``"""
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            return None
        assert isinstance(node.func, ast.Name)
        part = self._part(node.args[0])
        if part is None:
            return None
        name, is_any = self._name(_FOUND), node.func.id == "any"
        inner = self._of(part.value, is_test=True) or _Found([], part.value)
        test = inner.value if is_any else ast.UnaryOp(ast.Not(), inner.value)
        body = [*inner.before, ast.If(test, [assignment(name, ast.Constant(is_any)), ast.Break()], [])]
        return self._placed([assignment(name, ast.Constant(not is_any)), part.loop(body)], name, node)

    def _of_next(self, node: ast.Call) -> _Found | None:
        """``next((…), default)``"""
        plain = (*PLAIN, ast.Subscript)  # the default is evaluated before the items, not after
        if len(node.args) != 2 or not all(isinstance(each, plain) for each in ast.walk(node.args[1])):
            return None
        part = self._part(node.args[0]) if isinstance(node.args[0], ast.GeneratorExp) else None
        if part is None:
            return None
        name = self._name(_FOUND)
        loop = part.loop([assignment(name, part.value), ast.Break()])
        return self._placed([assignment(name, node.args[1]), loop], name, node)

    def _part(self, items: ast.expr) -> _Part | None:
        """What the loop runs over, with variables of its own."""
        if not isinstance(items, ast.GeneratorExp):
            each = self._name(_EACH)
            return _Part(ast.Name(each, ast.Store()), items, [], ast.Name(each, ast.Load()))
        (first, *others), inner = items.generators, [items.elt, *items.generators[0].ifs]
        names = {name: self._name(_EACH) for name in stored_in([first.target])}
        if others or first.is_async or needs_its_frame(inner) or not _can_rename(inner, names):
            return None
        target, elt, *ifs = (_Renamed(names).visit(copy.deepcopy(each)) for each in (first.target, *inner))
        return _Part(target, first.iter, ifs, elt)

    def _name(self, kind: str) -> str:
        return f"{kind}{next(self._numbers)}"

    @staticmethod
    def _placed(statements: list[ast.stmt], name: str, origin: ast.expr) -> _Found:
        for statement in statements:
            placed(statement, origin)
        return _Found(statements, ast.copy_location(ast.Name(name, ast.Load()), origin))


class _Part(NamedTuple):
    target: ast.expr
    items: ast.expr
    tests: list[ast.expr]
    value: ast.expr

    def loop(self, body: list[ast.stmt]) -> ast.For:
        for test in reversed(self.tests):
            body = [ast.If(test, body, [])]
        return ast.For(self.target, self.items, body, [])


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._names.get(node.id, node.id)
        return node


def _can_rename(nodes: Iterable[ast.AST], names: Collection[str]) -> bool:
    """Whether all uses of the names mean the same variables, and nothing within names a value or leaves."""
    every = [each for node in nodes for each in ast.walk(node)]
    stored = {each.id for each in every if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    stored |= {each.arg for each in every if isinstance(each, ast.arg)}
    return not any(isinstance(each, _LEAVING) for each in every) and stored.isdisjoint(names)
