"""What the functions of a model's code hold from one call to the next: global variables, variables of closures, and the
results that ``functools.lru_cache`` keeps."""

from __future__ import annotations

import dis
import functools
import os
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from opbridge.capture.state.holders import (
    ARRAYS,
    DATA,
    MISSING,
    ChangingHolder,
    ClassHolder,
    EnvironmentHolder,
    Holder,
    StateHolder,
)
from opbridge.capture.state.kinds import keeps_state
from opbridge.capture.state.ownership import classes_of, is_near, is_own

CachedFunction = type(functools.lru_cache(len))
# The methods that are called without their name.
_ENTRIES = frozenset(
    {"forward", "__call__", "__getattr__", "__getitem__", "__len__", "__iter__", "__enter__", "__exit__"}
)
_WITH_STATE = frozenset({"types", "queue"})  # modules of Python with classes whose objects keep state
_GLOBAL = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"})


class Reached:
    """The code that a call of the model may reach: a method counts as reached if other code that does names it."""

    def __init__(self) -> None:
        self._names = set(_ENTRIES)
        self._waiting: dict[str, list[Any]] = {}
        self.functions: list[types.FunctionType] = []  # of the user

    def names(self, name: str) -> bool:
        """Whether reached code uses this name of a variable or an attribute."""
        return name in self._names

    def methods_of(self, base: type) -> list[Any]:
        """Those of the methods of a class that are reached so far; the others wait."""
        reached = []
        for name, value in vars(base).items():
            functions = _functions_in(value)
            if name in self._names:
                reached += functions
            elif functions:
                self._waiting.setdefault(name, []).extend(functions)
        return reached

    def by(self, names: Iterable[str]) -> list[Any]:
        """The methods that are reached by code with these names."""
        new = set(names) - self._names
        self._names |= new
        return [function for name in new for function in self._waiting.pop(name, ())]


def holders_of_function(function: types.FunctionType, seen: set[int], reached: Reached) -> Iterator[Holder]:
    """The holders of what ``function`` names and what outlives its calls: variables, functions and classes."""
    namespace = function.__globals__
    here = str(namespace.get("__name__", ""))
    if not is_own(here):
        return
    reached.functions.append(function)
    names, attributes = _names_in(function.__code__)
    yield GlobalsHolder(namespace, names)
    found = [namespace[name] for name in names if name in namespace]
    modules = [value for value in found if isinstance(value, types.ModuleType)]
    for module in [each for each in modules if is_near(each.__name__, here)]:
        yield GlobalsHolder(vars(module), attributes)
        found += [vars(module)[name] for name in attributes if name in vars(module)]
    for value in found:
        if isinstance(value, type) and is_near(value.__module__, here):
            yield from holders_of_class(value, seen, reached)
    if "environ" in attributes and id(os.environ) not in seen:
        seen.add(id(os.environ))
        yield EnvironmentHolder(os.environ)
    if function.__closure__:
        yield _CellsHolder(function)
    yield Holder((function.__defaults__, function.__kwdefaults__, *reached.by(attributes)))


def holders_of_class(kind: type, seen: set[int], reached: Reached) -> Iterator[Holder]:
    """The holders of attributes of a class and its bases, and of its methods."""
    for base in classes_of(kind):
        if id(base) not in seen:
            seen.add(id(base))
            yield ClassHolder(base)
            if is_own(base.__module__):
                yield Holder(reached.methods_of(base))


class GlobalsHolder(ChangingHolder):
    """Those of the global variables of a Python module that ``names`` names: data, functions and objects of classes
    that the user defines."""

    __slots__ = ("_names",)

    def __init__(self, owner: dict[str, Any], names: tuple[str, ...]) -> None:
        self._names = names
        super().__init__(owner)

    def path_of(self, key: Any) -> str:
        return str(key)

    def names(self, name: str) -> bool:
        return name in self._names

    def content(self) -> dict[Any, Any]:
        found = ((name, self.owner.get(name, MISSING)) for name in self._names)
        here = str(self.owner.get("__name__", ""))
        return {name: value for name, value in found if value is not MISSING and _keeps_state(value, here)}


class CacheHolder(StateHolder):
    """The results that a function with ``functools.lru_cache`` keeps. They are dropped if a run adds any: a result of a
    captured run has no values, and the function returns the same without them."""

    __slots__ = ()

    def changes(self) -> list[str]:
        return []

    def only_assigns(self, may_be_assigned: Callable[[torch.Tensor], bool]) -> bool:
        return True

    def put_back(self) -> None:
        self.owner.cache_clear()
        self._state = 0

    def _read(self) -> int:
        return int(self.owner.cache_info().misses)


class _CellsHolder(ChangingHolder):
    """The variables of the functions around a function."""

    __slots__ = ()

    def path_of(self, key: Any) -> str:
        return str(key)

    def content(self) -> dict[Any, Any]:
        found = {name: _content_of(cell) for name, cell in self._cells().items()}
        here = str(self.owner.__globals__.get("__name__", ""))
        return {name: value for name, value in found.items() if value is not MISSING and _keeps_state(value, here)}

    def _assign(self, key: Any, value: Any) -> None:
        self._cells()[key].cell_contents = value

    def _remove(self, key: Any) -> None:
        del self._cells()[key].cell_contents

    def _cells(self) -> dict[str, Any]:
        return dict(zip(self.owner.__code__.co_freevars, self.owner.__closure__, strict=True))


def _content_of(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # the variable has no value yet
        return MISSING


def _keeps_state(value: Any, here: str) -> bool:
    """Whether a variable of the Python module ``here`` may keep state in ``value``."""
    if isinstance(value, (types.ModuleType, type)):
        return False
    if isinstance(value, (types.FunctionType, CachedFunction)):
        return is_near(str(value.__module__), here)
    if isinstance(value, (*DATA, *ARRAYS, types.MethodType, functools.partial, threading.local)):
        return True
    kind = type(value).__module__
    return keeps_state(value) or kind in _WITH_STATE or is_near(kind, here)


def _functions_in(value: Any) -> list[Any]:
    """The functions of which a class makes its attribute ``value``."""
    if isinstance(value, (types.FunctionType, CachedFunction)):
        return [value]
    if isinstance(value, (staticmethod, classmethod)):
        return _functions_in(value.__func__)
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset) if each is not None]
    return [value.func] if isinstance(value, functools.cached_property) else []


@functools.lru_cache(maxsize=8192)
def _names_in(code: types.CodeType) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of global variables in ``code`` and in the functions that it makes, and all its names, among which are
    those of attributes."""
    names = {each.argval for each in dis.get_instructions(code) if each.opname in _GLOBAL}
    attributes = set(code.co_names)
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            of_part, attributes_of_part = _names_in(part)
            names.update(of_part)
            attributes.update(attributes_of_part)
    return tuple(sorted(names)), tuple(sorted(attributes))
