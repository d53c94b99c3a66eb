"""The syntax trees of the model's source."""

from __future__ import annotations

import ast
import contextlib
import functools
import linecache
import time
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType
from typing import Any

Line = tuple[str, int]  # a file, and a line in it

_IMPORTED = time.time()


def running_line(frame: FrameType) -> Line:
    return frame.f_code.co_filename, frame.f_lineno


class Source:
    """A text from which functions were compiled."""

    def __init__(self, filename: str, text: str) -> None:
        self._filename = filename
        try:
            self.tree = ast.parse(text)
        except SyntaxError:
            self.tree = ast.Module([], [])

    def defines(self, code: CodeType) -> bool:
        """Whether a function of the text has this code. It may have been compiled with the whole text or with its
        statement alone, as in a notebook: a call of what the text imports has other instructions."""
        return any(does_same(each, code) for each in self._codes)

    @functools.cached_property
    def definitions(self) -> dict[tuple[str, int], ast.FunctionDef]:
        """The definitions of functions, by their names and first lines: those of their first decorators."""
        found = [each for each in ast.walk(self.tree) if isinstance(each, ast.FunctionDef)]
        firsts = [min([each.lineno, *(line.lineno for line in each.decorator_list)]) for each in found]
        return {(each.name, first): each for each, first in zip(found, firsts, strict=True)}

    @functools.cached_property
    def _codes(self) -> list[CodeType]:
        alone = [ast.Module([each], []) for each in self.tree.body if isinstance(each, (ast.ClassDef, ast.FunctionDef))]
        codes: list[CodeType] = []
        for each in (self.tree, *alone):
            with contextlib.suppress(SyntaxError):  # of ``await`` outside of functions, which a notebook allows
                codes += codes_in(compile(each, self._filename, "exec", dont_inherit=True))
        return codes


_sources: dict[tuple[str, CodeType], Source] = {}


def source_of(code: CodeType) -> Source:
    """The source of a function; an empty one if it cannot be read, or has changed since the function was compiled."""
    known = (code.co_filename, code)  # equal functions of two files are one code
    if known not in _sources:
        _sources[known] = _read_source(code)
    return _sources[known]


def note_source(code: CodeType, source: Source) -> None:
    """Notes the source of a code that was made from a function in it, and of the functions within."""
    _sources.update(((each.co_filename, each), source) for each in codes_in(code))


def tree_of(code: CodeType) -> ast.Module:
    """The syntax tree of the file with the function."""
    return source_of(code).tree


def _read_source(code: CodeType) -> Source:
    filename = code.co_filename
    linecache.checkcache(filename)
    source = _parsed(filename, "".join(linecache.getlines(filename)))
    entry: tuple[Any, ...] = linecache.cache.get(filename, ())
    changed = entry[1] if len(entry) > 1 else None  # the time in seconds; None if the text is of no file
    may_differ = changed is not None and changed > _IMPORTED
    return source if not may_differ or source.defines(code) else _parsed(filename, "")


@functools.lru_cache(maxsize=64)
def _parsed(filename: str, text: str) -> Source:
    return Source(filename, text)


def definition_of(code: CodeType) -> ast.FunctionDef | None:
    """The definition of a function in its file."""
    return source_of(code).definitions.get((code.co_name, code.co_firstlineno))


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code, and the codes of the functions within."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_in(each)


def does_same(code: CodeType, original: CodeType) -> bool:
    """Whether the code does what the original does, at the same lines."""
    if len(code.co_consts) != len(original.co_consts):
        return False
    names = ("co_name", "co_firstlineno", "co_code", "co_names", "co_varnames", "co_cellvars", "co_freevars")
    if any(getattr(code, name) != getattr(original, name) for name in names):
        return False
    return all(
        does_same(one, other) if isinstance(one, CodeType) and isinstance(other, CodeType) else repr(one) == repr(other)
        for one, other in zip(code.co_consts, original.co_consts, strict=True)
    )


def always_raises(statements: list[ast.stmt]) -> bool:
    """Whether the statements end in an error in any case."""
    leaves = any(
        isinstance(each, (ast.Return, ast.Break, ast.Continue)) for one in statements for each in ast.walk(one)
    )
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return not leaves and always_raises(last.body) and always_raises(last.orelse)
    return not leaves and isinstance(last, ast.Raise)


def lines_of(node: ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def evaluated(expression: ast.expr, frame: FrameType, values: Mapping[str, Any] | None = None) -> object:
    """The value that an expression of names in the source of ``frame`` has there, or with ``values`` instead of its
    variables."""
    names = frame.f_locals if values is None else values
    return eval(compile(ast.Expression(expression), "expression", "eval"), frame.f_globals, names)
