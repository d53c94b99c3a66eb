"""Functions of torch that are replaced, or watched, while sizes are symbolic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from torch.overrides import TorchFunctionMode

Function = Callable[..., Any]
# From a function to what is called instead of it, with the function, its arguments and its keywords. It may return
# NotImplemented, so that the function itself is called.
Replacements = Mapping[Any, Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]]


class Watcher(Protocol):
    functions: frozenset[Any]  # the functions before and after whose calls it is called

    def before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None: ...

    def after(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None: ...


class ReplaceFunctions(TorchFunctionMode):
    """Calls what one of the tables has for a function; no two of them have the same. This is a single mode because
    every call, also of ``x.shape``, passes each mode. It calls functions from its own frame, beyond which others look
    for the caller."""

    def __init__(self, watcher: Watcher, *tables: Replacements) -> None:
        super().__init__()
        self._watcher = watcher
        self._replacements = {function: around for table in tables for function, around in table.items()}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        is_watched = func in self._watcher.functions
        if is_watched:
            self._watcher.before(args, given)
        around = self._replacements.get(func)
        result = NotImplemented if around is None else around(func, args, given)
        if result is NotImplemented:
            result = func(*args, **given)
        if is_watched:
            self._watcher.after(func, args, given, result)
        return result
