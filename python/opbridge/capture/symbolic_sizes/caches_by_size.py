"""Caches of the model whose keys contain a dynamic size: functions with ``functools.lru_cache``, and dicts.

torch gives a symbolic size no hash, since a dict would not find an entry for the number that the size has at run time.
A function with ``lru_cache`` returns the same with and without the cache, and a dict without entries for other keys
finds what the model has stored in the same run.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping, Set
from types import FrameType
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.source import runs_users
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import asking_frame, refused
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
from opbridge.capture.symbolic_sizes.syntax import evaluated, lines_of, tree_of
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.torch_compat import symbols as points

_CachedFunction = type(functools.lru_cache(len))
_WITH_ENTRIES = "with other keys, where the export cannot find the one of each size; if it is a cache, empty it before"
_IN_TUPLE = "an export can only compare it with each number, as 'size in (2, 3)' does"
_LOOKUPS = ("get", "setdefault", "pop")  # methods of dict


@contextlib.contextmanager
def keep_caches_by_size(sizes: DynamicSizes, caught: Caught) -> Iterator[None]:
    """Lets a model use such caches, and removes what it has stored under dynamic sizes. Other dicts are refused."""
    functions: list[Any] = []
    dicts: list[dict[Any, Any]] = []
    original = points.HASH_OF_SYMBOL.original

    def hash_of_symbol(size: Any) -> int:
        frame = asking_frame(sys._getframe(1))
        if runs_users(frame) and not in_try_block(frame, (TypeError,)):
            refusal = refusal_at(sizes.text_of(size.node.expr), frame)
            if refusal is not None:
                if points.free_unbacked_symbols(size.node.expr):
                    return hash(int(size))  # refused as a branch on data is, unless the number is known
                raise refused(caught, refusal)
        elif not dicts:  # with them, torch.export compares the attributes of the model after its run
            return int(original(size))
        return hash((id(size.node.shape_env), str(size.node.expr)))

    def refusal_at(size: str, frame: FrameType) -> str | None:
        cached, looked_up = _looked_up_at(frame) or ([], [])
        functions.extend(cached)
        dicts.extend(looked_up)
        if any(not _has_symbol(key) for each in looked_up for key in each):
            return f"the dynamic size '{size}' is looked up in a dict {_WITH_ENTRIES}"
        if not (cached or looked_up):
            return f"the dynamic size '{size}' is the key of a dict or an element of a set; {_IN_TUPLE}"
        return None

    try:
        with patch(points.HASH_OF_SYMBOL, hash_of_symbol):
            yield
    finally:
        for function in functions:
            function.cache_clear()
        for each in dicts:
            kept = [(key, value) for key, value in each.items() if not _has_symbol(key)]
            each.clear()  # torch's sizes have no hash here, by which to remove single entries
            each.update(kept)


def _has_symbol(key: Any) -> bool:
    return isinstance(key, torch.SymInt) or (isinstance(key, tuple) and any(map(_has_symbol, key)))


def _looked_up_at(frame: FrameType) -> tuple[list[Any], list[dict[Any, Any]]] | None:
    """The functions with a cache that the line of ``frame`` calls, and the dicts that it looks into; None if it looks
    into anything else."""
    functions, dicts = [], []
    for expression in _lookups_by_line(tree_of(frame.f_code)).get(frame.f_lineno, ()):
        if not _is_name(expression):
            return None
        value = evaluated(expression, frame)
        value = getattr(value, "__func__", value)
        if isinstance(value, _CachedFunction):
            functions.append(value)
        elif type(value) is dict:
            dicts.append(value)
        elif isinstance(value, (Mapping, Set)):
            return None
    return functions, dicts


@functools.lru_cache(maxsize=256)
def _lookups_by_line(tree: ast.Module) -> dict[int, list[ast.expr]]:
    """The expressions of each line that are called, or that are looked up in."""
    found: dict[int, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            for looked_up in _looked_up_by(node):
                for line in lines_of(node):
                    found.setdefault(line, []).append(looked_up)
    return found


def _looked_up_by(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Subscript):
        is_key = not any(isinstance(each, ast.Slice) for each in ast.walk(node.slice))
        return [node.value] if is_key and not isinstance(node.slice, ast.Constant) else []
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, node.comparators, strict=True)
        return [container for op, container in pairs if isinstance(op, (ast.In, ast.NotIn))]
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKUPS:
            return [node.func.value]
        return [node.func] if _is_name(node.func) else []
    return []


def _is_name(node: ast.expr) -> bool:
    """Whether ``node`` is a name or an attribute of one, such as ``self.cache``."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_name(node.value))
