"""Finds tests of sizes whose only effect is an error."""

from __future__ import annotations

import ast
import functools
from types import FrameType

from opbridge.capture.symbolic_sizes.try_blocks import always_raises, syntax_tree


def only_checks(frame: FrameType) -> bool:
    """Whether the line of ``frame`` is in the test of an ``assert``, or of an ``if`` one way of which raises an error.
    The way that the example takes is then right for all sizes for which PyTorch runs the model."""
    return frame.f_lineno in _lines_of_checks(frame.f_code.co_filename)


@functools.lru_cache(maxsize=256)
def _lines_of_checks(filename: str) -> frozenset[int]:
    tree = syntax_tree(filename)
    tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.Assert, ast.If)) and _is_check(node)]
    return frozenset(line for test in tests for line in range(test.lineno, (test.end_lineno or test.lineno) + 1))


def _is_check(node: ast.Assert | ast.If) -> bool:
    keeps = any(isinstance(each, ast.NamedExpr) for each in ast.walk(node.test))
    return not keeps and (
        isinstance(node, ast.Assert) or always_raises(node.body) or (bool(node.orelse) and always_raises(node.orelse))
    )
