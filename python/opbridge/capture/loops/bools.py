"""``flag is True`` and ``match`` of a bool that data decide, which is none of Python's two, and ``h is other`` of a
tensor that stands for others."""

from __future__ import annotations

import ast

from opbridge.capture.loops.nodes import call, placed


class WithBools(ast.NodeTransformer):
    """Calls the runtime where a function, or one within, asks which of Python's bools a value *is*."""

    has_calls = False

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Compare(_, [ast.Is() | ast.IsNot()], [ast.Constant(bool())]):
                self.has_calls = True
                return _asking("is_bool", node)
        return node

    def visit_Match(self, node: ast.Match) -> ast.AST:
        self.generic_visit(node)
        self.has_calls = True
        node.subject = placed(call("matched", [node.subject]), node.subject)
        return node


class WithIdentities(ast.NodeTransformer):
    """Calls the runtime where a function, or one within, asks whether what two variables hold is the same object."""

    has_calls = False

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Compare(value, [ast.Is() | ast.IsNot()], [other]) if _are_variables(value, other):
                self.has_calls = True
                return _asking("is_same", node)
        return node


def _asking(name: str, comparison: ast.Compare) -> ast.AST:
    """A call of the runtime's function for a comparison by ``is`` or ``is not``."""
    test = placed(call(name, [comparison.left, *comparison.comparators]), comparison)
    return test if isinstance(comparison.ops[0], ast.Is) else placed(call("negated", [test]), comparison)


def _are_variables(*nodes: ast.expr) -> bool:
    return all(isinstance(each, (ast.Name, ast.Attribute, ast.Subscript)) for each in nodes)
