"""The names that the code of a function uses, and what of it can be a function of its own."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Any

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)
_OF_SCOPES = (ast.Global, ast.Nonlocal, ast.Delete, ast.Import, ast.ImportFrom)  # change what a name means
_NEEDING_THEIR_FRAME = frozenset({"locals", "vars", "dir", "eval", "exec"})
_OPERANDS = (ast.Name, ast.Constant, ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Set)
PLAIN = (ast.Compare, *_OPERANDS, ast.cmpop, ast.operator, ast.unaryop, ast.expr_context)
_CHANGING_LISTS = frozenset({"append", "extend", "insert"})


def parameters_of(function: Any) -> list[ast.arg]:
    given = function.args
    every = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
    return [each for each in every if each is not None]


def walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and those in them that belong to the same function; a comprehension has variables of its own."""
    for node in nodes:
        yield node
        if not isinstance(node, SCOPES):
            yield from walk(ast.iter_child_nodes(node))


class OfOneFunction(ast.NodeTransformer):
    """Leaves the functions and classes within as they are."""

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, SCOPES) else super().visit(node)


def scopes_in(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in walk(nodes) if isinstance(node, SCOPES))


def free_in(scope: Any) -> set[str]:
    """The names in a function or class that may be variables of the function around it."""
    names = set(names_in(ast.walk(scope)))
    if isinstance(scope, ast.ClassDef) or any(isinstance(each, ast.Nonlocal) for each in ast.walk(scope)):
        return names
    body = scope.body if isinstance(scope.body, list) else [scope.body]
    return names - {each.arg for each in parameters_of(scope)} - set(stored_in(body))


def names_in(nodes: Iterable[ast.AST], context: type | tuple[type, ...] = ast.expr_context) -> Iterator[str]:
    return (node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context))


def stored_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The variables of the function that the nodes assign."""
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name
        if isinstance(node, _COMPREHENSIONS):
            yield from (each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr))
        elif not isinstance(node, SCOPES):
            yield from stored_in(ast.iter_child_nodes(node))


def touched_in(nodes: Collection[ast.AST]) -> Iterator[str]:
    """The variables whose lists or tensors the nodes may change: ``name[…] = …``, ``name.append(…)``,
    ``name.add_(…)``."""
    for node in walk(nodes):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from _roots(node)
    yield from called_on_in(nodes)


def called_on_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The variables of which a method that changes them may be called: ``name.append(…)``, ``name.add_(…)``."""
    for node in walk(nodes):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if method in _CHANGING_LISTS or (method.endswith("_") and not method.endswith("__")):
                yield from _roots(node.func.value)


def _roots(node: ast.AST) -> Iterator[str]:
    """The variable whose item, attribute or view the expression is."""
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id


def needs_its_frame(nodes: Iterable[ast.AST]) -> bool:
    found = list(walk(nodes))
    return not _NEEDING_THEIR_FRAME.isdisjoint(names_in(found)) or any(map(is_bare_super, found))


def is_bare_super(node: ast.AST) -> bool:
    """Whether the node is ``super()``, which finds the class and the object in its frame."""
    match node:
        case ast.Call(ast.Name("super"), [], []):
            return True
    return False


def can_be_function(body: list[ast.stmt]) -> bool:
    """Whether the body of a loop can be a function of its own."""
    if any(isinstance(node, (*_LEAVING, *_OF_SCOPES)) for node in walk(body)) or needs_its_frame(body):
        return False
    return not any(isinstance(node, ast.Break) for node in own(body))


def can_be_way(block: list[ast.stmt]) -> bool:
    """Whether a way of a branch can be a function of its own. One that only raises an error cannot be a node's."""
    raises = any(isinstance(each, ast.Raise) for each in block)
    return can_be_function(block) and not raises and not any(isinstance(each, ast.Continue) for each in walk(block))


def own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes outside of inner loops."""
    for node in nodes:
        yield node
        if isinstance(node, (ast.For, ast.While)):
            yield from own(node.orelse)
        elif not isinstance(node, SCOPES):
            yield from own(ast.iter_child_nodes(node))


def first_use(name: str, statements: Iterable[ast.AST]) -> str | None:
    """Whether the statements, in their order, may read the variable before all of them that run assign it: "read",
    "assigned", or None if neither is certain or they do not use it."""
    for node in statements:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            if _reads(node.iter, name):
                return "read"
            is_target = name in stored_in([node.target])
            if not is_target and first_use(name, node.body) == "read":
                return "read"
            if first_use(name, node.orelse) == "read":
                return "read"
        elif isinstance(node, ast.With):
            if any(_reads(each, name) for each in node.items):
                return "read"
            use = first_use(name, node.body)
            if use is not None:
                return use
        elif isinstance(node, ast.If):
            if _reads(node.test, name):
                return "read"
            uses = {first_use(name, node.body), first_use(name, node.orelse)}
            if "read" in uses:
                return "read"
            if uses == {"assigned"}:
                return "assigned"
        else:
            if _reads(node, name) or _augments(node, name):
                return "read"
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and name in stored_in([node]):
                return "assigned"
    return None


def _reads(node: ast.AST, name: str) -> bool:
    """Whether the node reads or deletes the variable, not one of a comprehension or a lambda with the same name."""
    if isinstance(node, _COMPREHENSIONS) and name in stored_in(each.target for each in node.generators):
        return _reads(node.generators[0].iter, name)
    if isinstance(node, ast.Lambda) and name in {each.arg for each in parameters_of(node)}:
        return _reads(node.args, name)
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, (ast.Load, ast.Del))
    return any(_reads(each, name) for each in ast.iter_child_nodes(node))


def _augments(node: ast.AST, name: str) -> bool:
    return any(
        isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name) and each.target.id == name
        for each in ast.walk(node)
    )


def is_plain(node: ast.expr) -> bool:
    """Whether the expression may be evaluated twice, or in another order: it runs no code of the model."""
    return all(isinstance(each, PLAIN) for each in ast.walk(node))
