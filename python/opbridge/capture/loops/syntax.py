"""Rewrites functions such that their loops are calls: ``for item in items: body`` becomes ``a, b = each(items, step,
…)``, where ``step(item, a, b)`` runs the body and returns the variables. A branch in a body, or in a function that
branches by data, becomes ``a, b = branch(test, yes, no, …)`` with functions of the same kind. The new code does what
the old code did."""

from __future__ import annotations

import ast
import copy
import itertools
import types
from collections.abc import Iterable, Sequence
from typing import Any

from opbridge.capture.loops.bools import WithBools, WithIdentities
from opbridge.capture.loops.code import STEP, WAYS, compiled, with_runtime
from opbridge.capture.loops.counting import counting
from opbridge.capture.loops.iterables import LOOPING, PARTS
from opbridge.capture.loops.leaving import stop_of, with_one_return, without_continue
from opbridge.capture.loops.lists import READING
from opbridge.capture.loops.matches import with_branches
from opbridge.capture.loops.named import with_assignments
from opbridge.capture.loops.nodes import (
    RUNTIME_NAME,
    assigning,
    call,
    lazily,
    parameters,
    placed,
    returning,
    stored_name,
)
from opbridge.capture.loops.searches import SEARCHES, with_searches
from opbridge.capture.loops.uses import (
    PLAIN,
    SCOPES,
    OfOneFunction,
    can_be_function,
    can_be_way,
    first_use,
    free_in,
    is_bare_super,
    is_plain,
    needs_its_frame,
    parameters_of,
    scopes_in,
    stored_in,
    touched_in,
    walk,
)
from opbridge.capture.symbolic_sizes.syntax import definition_of, note_source, source_of

_ITEM = "opbridge_item"
_COUNTED = "opbridge_counted_"
_MIDDLE = "opbridge_middle"
_HELD = "opbridge_held"
_ITERATORS = frozenset({"range", "enumerate", "zip", "reversed", "map"})
_RANGE = frozenset({"range"})
_OF_ALL_ITEMS = frozenset({"list", "tuple", "sum"})
_EXTREMA = frozenset({"min", "max"})
_BOOL = frozenset({"bool"})
_BUILTINS = _ITERATORS | _OF_ALL_ITEMS | _EXTREMA | _BOOL
_READING = frozenset(function.__name__ for function in READING)


def code_with_calls(
    function: types.FunctionType, runtime: Any, branches: bool, identities: bool
) -> types.CodeType | None:
    """The code of the function with its loops, and all its branches if ``branches``, as calls of ``runtime``; None if
    it has none that can be one. What it compares by ``is`` becomes calls too; if ``identities``, also without any."""
    original = function.__code__
    found = definition_of(original)
    if found is None or any(map(_is_private, ast.walk(found))) or not source_of(original).defines(original):
        return None
    if _changes_names_outside(found):
        return None
    builtins = (_BUILTINS | SEARCHES) - function.__globals__.keys() - set(original.co_freevars)
    rewriting = _Rewriting(copy.deepcopy(found), builtins, branches, identities)
    code = compiled(rewriting.function(), original)
    if not rewriting.has_calls or code.co_freevars != original.co_freevars:
        return None
    code = with_runtime(code, original.co_name, runtime)
    note_source(code, source_of(original))
    return code


def _changes_names_outside(function: ast.FunctionDef) -> bool:
    return any(isinstance(each, (ast.Global, ast.Nonlocal)) for each in walk(function.body))


def _is_private(node: ast.AST) -> bool:
    """Whether the node has a name that a class around it would change, as ``self.__cell``."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.startswith("__") and not name.endswith("__")


class _Rewriting(ast.NodeTransformer):
    has_calls = False

    def __init__(self, function: ast.FunctionDef, builtins: frozenset[str], branches: bool, identities: bool) -> None:
        """Changes the function in place."""
        self._function = function
        given = [each.arg for each in parameters_of(function)]
        own = builtins - {*given, *stored_in(function.body)}
        for inner in [each for each in walk(function.body) if isinstance(each, ast.FunctionDef)]:
            if not needs_its_frame(inner.body) and not _changes_names_outside(inner):
                rewriting = _Rewriting(inner, own, branches, identities)
                rewriting.function()
                self.has_calls |= rewriting.has_calls
        if given and given[0] not in stored_in(function.body):
            with_class = _WithClassOfSuper(given[0])
            self._function.body = [with_class.visit(each) for each in self._function.body]
        compared = WithIdentities()
        self._function.body = [compared.visit(each) for each in self._function.body]
        self.has_calls |= identities and compared.has_calls
        if branches:
            searched = with_searches(with_branches(self._function.body), SEARCHES & own if "bool" in own else ())
            bools = WithBools()
            self._function.body = [bools.visit(each) for each in with_one_return(with_assignments(searched))]
            self.has_calls |= bools.has_calls
        self._branches = branches  # whether branches outside of loops become calls too
        body = self._function.body
        self._locals = {each.arg for each in parameters_of(self._function)} | set(stored_in(body))
        self._captured = {name for scope in scopes_in(body) for name in free_in(scope)}
        self._builtins = builtins - self._locals
        self._counted = itertools.count()
        self._loops = 0  # around the statement
        self._functions = 0  # of steps and ways, likewise
        self._following: list[list[ast.stmt]] = []  # what runs after the statement, of all blocks that it is in

    def function(self) -> ast.FunctionDef:
        self._function.body = self._block(self._function.body)
        return self._function

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        changed: list[ast.stmt] = []
        for i, statement in enumerate(statements):
            self._following.append(statements[i + 1 :])
            result = self.visit(statement)
            self._following.pop()
            changed += result if isinstance(result, list) else [result]
        return changed

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, SCOPES):
            return node
        if isinstance(node, (ast.For, ast.While)):
            self._following.append([node])  # the next step
        elif isinstance(node, ast.Try):
            self._following.append([*node.orelse, *node.finalbody, *(s for each in node.handlers for s in each.body)])
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self._block(value))
            elif isinstance(value, list):
                value[:] = [self.visit(each) if isinstance(each, ast.AST) else each for each in value]
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        if isinstance(node, (ast.For, ast.While, ast.Try)):
            self._following.pop()
        return node

    def visit_For(self, node: ast.For) -> Any:
        stopped = stop_of(node)
        statements = node.body if stopped is None else node.body[:-1]
        next_step = [ast.Assign([node.target], ast.Constant(None)), *statements]
        self._following.append(node.orelse)
        kept = self._variables([node.target, *statements], next_step)
        self._following.pop()
        if kept is None or not can_be_function(statements):
            return self.generic_visit(node)
        self.has_calls = True
        iterable = self._items(node.iter)
        node.body = without_continue(statements)
        assigned = ast.Assign([node.target], ast.Name(_ITEM, ast.Load()))
        step = ast.FunctionDef(STEP, parameters(_ITEM, *kept), [assigned, *self._step(node, kept)], [])
        end = [] if stopped is None else [ast.keyword("stopped", ast.Constant(kept.index(stopped)))]
        values = self._node("each", [iterable, ast.Name(STEP, ast.Load())], kept, end)
        following = self._block(node.orelse)
        return [placed(each, node) for each in (step, assigning(kept, values))] + following

    def visit_While(self, node: ast.While) -> Any:
        found = counting(node)
        if found is None:
            return self._not_counting(node)
        counted = ast.Name(f"{_COUNTED}{next(self._counted)}", ast.Load())
        sides = [ast.Lambda(parameters(found.number), each) for each in (found.left, found.right)]
        classes = [ast.Constant(found.relation), ast.Constant(found.operation)]
        values = call("counted", [*classes, *sides, ast.Name(found.number, ast.Load()), found.by])
        assigned = placed(ast.Assign([stored_name(counted.id)], values), node)
        end = ast.Assign([stored_name(found.number)], ast.Attribute(counted, "end", ast.Load()))
        body, orelse = (copy.deepcopy(each) if found.may_resize else each for each in (node.body, node.orelse))
        if found.may_resize:
            check = ast.Call(ast.Attribute(counted, "check_bound", ast.Load()), [*map(copy.deepcopy, sides)], [])
            body.insert(0, ast.Expr(check))
        loop = placed(ast.For(stored_name(found.number), counted, body, [end, *orelse]), node)
        changed = self.visit_For(loop)
        if changed is loop:
            return self.generic_visit(node)
        if not found.may_resize:
            return [assigned, *changed]
        has_items = ast.Compare(ast.Attribute(counted, "items", ast.Load()), [ast.IsNot()], [ast.Constant(None)])
        otherwise = self._not_counting(node)
        ways = ast.If(has_items, changed, otherwise if isinstance(otherwise, list) else [otherwise])
        return [assigned, placed(ways, node)]

    def _not_counting(self, node: ast.While) -> Any:
        return self._repeating(node) if self._rewrites_branches else self.generic_visit(node)

    def _repeating(self, node: ast.While) -> Any:
        """A loop that data may end."""
        self._following.append(node.orelse)
        kept = self._variables(node.body, [ast.Expr(node.test), *node.body])
        self._following.pop()
        if kept is None or not can_be_function(node.body) or _names_a_value(node.test) or needs_its_frame([node.test]):
            return self.generic_visit(node)
        self.has_calls = True
        node.body = without_continue(node.body)
        step = ast.FunctionDef(STEP, parameters(*kept), self._step(node, kept), [])
        test = ast.Lambda(parameters(*kept), self._test(node.test))
        values = self._node("repeat", [test, ast.Name(STEP, ast.Load())], kept)
        following = self._block(node.orelse)
        return [placed(each, node) for each in (step, assigning(kept, values))] + following

    def _step(self, node: ast.For | ast.While, kept: list[str]) -> list[ast.stmt]:
        """The body of the function of a step, which returns the variables."""
        self._following.append([node])
        self._loops += 1
        body = self._body(node.body, kept)
        self._loops -= 1
        self._following.pop()
        return [_Continuing(body[-1]).visit(each) for each in body]

    def _body(self, statements: list[ast.stmt], kept: list[str]) -> list[ast.stmt]:
        """The body of a function that takes the variables and returns them."""
        self._functions += 1
        body = self._block(statements)
        self._functions -= 1
        held = ast.Assign([stored_name(_HELD)], call("held", lazily(kept)))
        return [held, *body, returning(kept)]

    def _node(
        self, name: str, given: list[ast.expr], kept: list[str], keywords: Iterable[ast.keyword] = ()
    ) -> ast.Call:
        """The call of what may become a node that changes the variables."""
        held = [ast.keyword("held", ast.Name(_HELD, ast.Load()))] if self._functions else []
        return call(name, [*given, *lazily(kept)], [*keywords, *held])

    def visit_If(self, node: ast.If) -> Any:
        blocks = (node.body, node.orelse)
        kept = self._variables([*node.body, *node.orelse], *blocks)
        if kept is None or not self._rewrites_branches or _names_a_value(node.test) or not all(map(can_be_way, blocks)):
            return self.generic_visit(node)
        self.has_calls = True
        ways = [
            ast.FunctionDef(name, parameters(*kept), self._body(block, kept), [])
            for name, block in zip(WAYS, blocks, strict=True)
        ]
        functions = [ast.Name(name, ast.Load()) for name in WAYS]
        values = self._node("branch", [self._test(node.test), *functions], kept)
        return [placed(each, node) for each in (*ways, assigning(kept, values))]

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if not self._rewrites_branches or _names_a_value(node) or needs_its_frame([node.body, node.orelse]):
            return self.generic_visit(node)
        self.has_calls = True
        ways = [ast.Lambda(parameters(), self.visit(way)) for way in (node.body, node.orelse)]
        return placed(call("chosen", [self._test(node.test), *ways]), node)

    @property
    def _rewrites_branches(self) -> bool:
        return self._branches or self._loops > 0

    def _test(self, node: ast.expr) -> ast.expr:
        """A test whose parts need no truth of their own."""
        if isinstance(node, ast.BoolOp):
            name = "both" if isinstance(node.op, ast.And) else "either"
            of_sizes = ast.Constant(all(map(_is_of_sizes, node.values)))
            made = self._test(node.values[-1])
            for each in reversed(node.values[:-1]):
                made = placed(call(name, [self._test(each), ast.Lambda(parameters(), made), of_sizes]), node)
            return made
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return placed(call("negated", [self._test(node.operand)]), node)
        parts = _parts_of(node)
        if len(parts) > 1:
            is_in = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In)
            return self._test(placed(ast.BoolOp(ast.Or() if is_in else ast.And(), parts), node))
        match node:
            case ast.Compare(left, [_, _], [middle, _]) if is_plain(left):
                named = copy.deepcopy(node)
                named.comparators[0] = ast.Name(_MIDDLE, ast.Load())
                parts = _compared(named)
                test = ast.Lambda(parameters(_MIDDLE), self._test(placed(ast.BoolOp(ast.And(), parts), node)))
                return placed(ast.Call(test, [self.visit(middle)], []), node)
        changed: ast.expr = self.visit(node)
        return changed

    def _variables(self, nodes: Sequence[ast.AST], *blocks: Sequence[ast.stmt]) -> list[str] | None:
        """The variables that functions of the nodes take and return; None if they cannot, since other functions have
        them too. ``blocks`` run in these functions."""
        stored = list(dict.fromkeys(stored_in(nodes)))
        touched = [name for name in dict.fromkeys(touched_in(nodes)) if name in self._locals and name not in stored]
        if set(stored + touched) & self._captured:
            return None
        return [name for name in stored if self._is_read_later(name, *blocks)] + touched

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        (first, *others), inner = node.generators, [node.elt]
        leaves = _names_a_value(node) or any(isinstance(each, ast.Await) for each in ast.walk(node))
        if others or first.is_async or leaves or needs_its_frame([*inner, *first.ifs]):
            return self.generic_visit(node)
        self.has_calls = True
        one = ast.comprehension(first.target, ast.Tuple([ast.Name(_ITEM, ast.Load())], ast.Load()), [], 0)

        def of_item(expression: ast.expr) -> ast.Lambda:
            only = ast.Subscript(ast.ListComp(expression, [one]), ast.Constant(0), ast.Load())
            return ast.Lambda(parameters(_ITEM), only)

        self._loops += 1
        functions = [of_item(self.visit(node.elt))]
        if first.ifs:
            test = first.ifs[0] if len(first.ifs) == 1 else placed(ast.BoolOp(ast.And(), first.ifs), node)
            functions.append(of_item(self._test(test)))
        self._loops -= 1
        return placed(call("listed", [self._items(first.iter), *functions]), node)

    def visit_List(self, node: ast.List) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or not any(isinstance(each, ast.Starred) for each in node.elts):
            return self.generic_visit(node)
        return placed(call("joined", [self._part_of_list(each) for each in node.elts]), node)

    def _part_of_list(self, item: ast.expr) -> Any:
        match item:
            case ast.Starred(value=ast.GeneratorExp() as items):
                return self.visit(_listed(items))
            case ast.Starred(value=items):
                return self._items(items)
        return ast.List([self.visit(item)], ast.Load())

    def visit_BoolOp(self, node: ast.BoolOp | ast.UnaryOp) -> Any:
        if not self._rewrites_branches:
            return self.generic_visit(node)
        if self._is_bool(node):
            self.has_calls = True
            return self._test(node)
        if not isinstance(node, ast.BoolOp) or _names_a_value(node) or needs_its_frame(node.values):
            return self.generic_visit(node)
        self.has_calls = True
        name = "first_false" if isinstance(node.op, ast.And) else "first_true"
        *others, made = map(self.visit, node.values)
        for each in reversed(others):
            made = placed(call(name, [each, ast.Lambda(parameters(), made)]), node)
        return made

    visit_UnaryOp = visit_BoolOp

    def _is_bool(self, node: ast.expr) -> bool:
        """Whether an expression is a test, of which only the truth matters."""
        match node:
            case ast.BoolOp():
                return all(map(self._is_bool, node.values))
            case ast.UnaryOp(ast.Not()) | ast.Compare():
                return True
            case ast.Call(ast.Attribute(ast.Constant(name), "is_bool" | "is_same" | "negated")) if name == RUNTIME_NAME:
                return True
        return bool(self._called(node, _BOOL))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.BinOp(ast.List([_, *_]) as items, ast.Mult(), count) | ast.BinOp(
                count, ast.Mult(), ast.List([_, *_]) as items
            ):
                self.has_calls = True
                return placed(call("repeated", [items, count]), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (name := self._called(node, _OF_ALL_ITEMS)) and node.args:
            return self._of_all_items(node, name)
        match node:
            case ast.Call(args=[ast.GeneratorExp() as items, *_]) if self._called(node, _EXTREMA):
                node.args[0] = _listed(items)
            case ast.Call(ast.Name("reduce") | ast.Attribute(_, "reduce"), [function, items, *others]):
                self.has_calls = True
                given = [self.visit(function), self._items(items), *map(self.visit, others)]
                return placed(call("called", [node.func, *given], node.keywords), node)
        self.generic_visit(node)
        if self._rewrites_branches and self._called(node, _BOOL):
            self.has_calls = True
            return placed(call("truth", node.args), node)
        if self._called(node, _RANGE):
            self.has_calls = True
            return placed(call("range", node.args, node.keywords), node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in PARTS:
            owner, method = node.func.value, ast.Constant(node.func.attr)
            self.has_calls |= node.func.attr != "unbind"
            return placed(call("parts", [owner, method, *node.args], node.keywords), node)
        if isinstance(node.func, (ast.Name, ast.Attribute)) and _last_name(node.func) in _READING:
            return placed(call("called", [node.func, *node.args], node.keywords), node)
        return node

    def _called(self, node: ast.AST, names: frozenset[str]) -> str:
        """Which of these builtins the node calls, "" if none."""
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        return called if called in self._builtins & names else ""

    def _of_all_items(self, node: ast.Call, name: str) -> ast.AST:
        """``list(…)``, ``tuple(…)`` or ``sum(…)``."""
        self.has_calls |= name == "sum"
        items = node.args[0]
        if isinstance(items, ast.GeneratorExp):
            node.args[0] = _listed(items)
        elif isinstance(items, ast.Starred):
            return self.generic_visit(node)
        elif name == "list" or self._iterates(items):
            item = ast.comprehension(stored_name(_ITEM), items, [], 0)
            node.args[0] = placed(ast.ListComp(ast.Name(_ITEM, ast.Load()), [item]), items)
        self.generic_visit(node)
        return node.args[0] if name == "list" else placed(call(name, node.args, node.keywords), node)

    def _items(self, node: ast.expr) -> ast.expr:
        """What a loop goes through, with iterators of which the number of items may be symbolic."""
        name = self._called(node, _ITERATORS)
        if not isinstance(node, ast.Call) or not (name or self._iterates(node)):
            changed: ast.expr = self.visit(node)
            return changed
        if not name:
            self.has_calls = True
            self.generic_visit(node)
            return placed(call("called", [node.func, *node.args], node.keywords), node)
        plain = node.args if name == "range" else node.args[:1] if name == "map" else []
        given = [self.visit(each) if each in plain else self._items(each) for each in node.args]
        return placed(call(name, given, node.keywords), node)

    def _iterates(self, node: ast.AST) -> bool:
        """Whether the node calls what makes an iterator. Nothing else can hold that, and go on with it."""
        match node:
            case ast.Call(ast.Name() | ast.Attribute() as function) if _last_name(function) in LOOPING:
                return True
        return bool(self._called(node, _ITERATORS - _RANGE))

    def _is_read_later(self, name: str, *blocks: Sequence[ast.stmt]) -> bool:
        """Whether the value that a variable has after a statement, or before one of ``blocks``, may be read."""
        if any(first_use(name, block) == "read" for block in blocks):
            return True
        for block in reversed(self._following):
            use = first_use(name, block)
            if use is not None:
                return use == "read"
        return False


class _WithClassOfSuper(OfOneFunction):
    """Replaces ``super()`` by ``super(__class__, self)``, which functions in the function may call too."""

    def __init__(self, first: str) -> None:
        self._first = first

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if is_bare_super(node):
            node.args = [placed(ast.Name(name, ast.Load()), node) for name in ("__class__", self._first)]
        return node


class _Continuing(ast.NodeTransformer):
    """Replaces the ``continue`` of a loop by the end of its step."""

    def __init__(self, end: ast.stmt) -> None:
        self._end = end

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return ast.copy_location(copy.deepcopy(self._end), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, (ast.For, ast.While, *SCOPES)) else super().generic_visit(node)


def _is_of_sizes(node: ast.AST) -> bool:
    """Whether an expression computes with sizes, as ``t < x.shape[1] - 1`` does."""
    match node:
        case ast.Subscript(ast.Attribute(attr="shape")) | ast.Call(ast.Name("len") | ast.Attribute(attr="size")):
            return True
    return isinstance(node, PLAIN) and all(map(_is_of_sizes, ast.iter_child_nodes(node)))


def _parts_of(node: ast.expr) -> list[ast.expr]:
    """The comparisons of ``a < b < c`` or of ``a in (b, c)``, if their operands are names and numbers."""
    if not isinstance(node, ast.Compare) or not is_plain(node):
        return [node]
    last = node.comparators[-1]
    if isinstance(node.ops[0], ast.In) and len(node.ops) == 1 and isinstance(last, (ast.Tuple, ast.List, ast.Set)):
        return [placed(ast.Compare(node.left, [ast.Eq()], [each]), node) for each in last.elts] or [node]
    return _compared(node)


def _compared(node: ast.Compare) -> list[ast.expr]:
    """The comparisons of ``a < b < c``."""
    operands = [node.left, *node.comparators]
    pairs = zip(operands, node.ops, operands[1:], strict=False)
    return [placed(ast.Compare(left, [op], [right]), node) for left, op, right in pairs]


def _listed(items: ast.GeneratorExp) -> ast.expr:
    return placed(ast.ListComp(items.elt, items.generators), items)


def _last_name(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _names_a_value(node: ast.AST) -> bool:
    return any(isinstance(each, ast.NamedExpr) for each in ast.walk(node))
