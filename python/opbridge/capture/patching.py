"""Replaces attributes of torch, of classes and of modules temporarily and for one thread only."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Mapping, MutableMapping
from threading import get_ident
from typing import Any

from opbridge.torch_compat import CONSTANT_TO_DYNAMO
from opbridge.torch_compat.lookup import PatchPoint, find, name_in


def current_thread() -> int:
    return get_ident()


# torch.export traces the branches of torch.cond with Dynamo, which cannot call get_ident but treats this as a constant.
setattr(current_thread, CONSTANT_TO_DYNAMO, True)


class ByThread:
    """Stands for ``here`` in the thread that made it, and for ``elsewhere`` in all others.

    As an attribute of a class, it binds like ``here`` or ``elsewhere``: to a bound method, or the value of a property.
    Anywhere else it forwards calls, attribute access, comparison and truth. Dynamo keeps it in its tables if it is
    imported during a capture, so it has the attributes and the hash of ``elsewhere``.
    """

    def __init__(self, here: Any, elsewhere: Any, name: str = "") -> None:
        self.replaces = name
        self._thread = get_ident()
        self._here = here
        self._elsewhere = elsewhere

    def end(self) -> None:
        """Stands for ``elsewhere`` from now on: a reference to this object may outlive the replacement."""
        self._here = self._elsewhere

    def current(self) -> Any:
        return self._here if current_thread() == self._thread else self._elsewhere

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = self.current()
        get = getattr(type(value), "__get__", None)
        return value if get is None else get(value, instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.current()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self.current(), name)
        except AttributeError:
            return getattr(self._elsewhere, name)

    def __bool__(self) -> bool:
        return bool(self.current())

    def __eq__(self, other: object) -> bool:
        return bool(self.current() == other)

    def __hash__(self) -> int:
        return hash(self._elsewhere)


def patch(point: PatchPoint, value: Any) -> contextlib.AbstractContextManager[None]:
    """Replaces an attribute of torch in this thread."""
    return patch_attributes(point.owner, **{point.attribute: value})


@contextlib.contextmanager
def patch_attributes(owner: Any, **attributes: Any) -> Iterator[None]:
    """Gives ``owner`` these attributes in this thread, and restores the former ones; inherited ones are not copied.

    Other threads see the former attributes. An attribute that ``owner`` lacks is an error, since the replacement was
    written for another version of torch.
    """
    before = {name: find(owner, name) for name in attributes}
    own = {name: vars(owner)[name] for name in attributes if name in vars(owner)}
    by_thread = {name: ByThread(value, before[name], name_in(owner, name)) for name, value in attributes.items()}
    try:
        for name, value in by_thread.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in by_thread.items():
            value.end()
            if name in own:
                setattr(owner, name, own[name])
            elif name in vars(owner):
                delattr(owner, name)


@contextlib.contextmanager
def patch_code(function: Any, result: str, **names: Any) -> Iterator[None]:
    """Makes a function without arguments return ``result``, an expression of ``original()`` and ``names``.

    It exchanges the code in all threads, since others have imported the function by name. The names stay in its
    globals, for threads that are executing it.
    """
    code, home = function.__code__, function.__globals__
    prefix = f"_{function.__name__}_"
    home.setdefault(f"{prefix}original", types.FunctionType(code, home))
    home.update({prefix + name: value for name, value in names.items()})
    for name in ("original", *names):
        result = result.replace(f"{name}()", f"{prefix}{name}()")
    function.__code__ = eval(f"lambda: {result}").__code__.replace(
        co_name=code.co_name, co_filename=code.co_filename, co_firstlineno=code.co_firstlineno
    )
    try:
        yield
    finally:
        function.__code__ = code


@contextlib.contextmanager
def patch_items(table: MutableMapping[Any, Any], items: Mapping[Any, Any]) -> Iterator[None]:
    """Replaces items of ``table`` in this thread."""
    before = {key: table[key] for key in items}
    by_thread = {key: ByThread(value, before[key], str(key)) for key, value in items.items()}
    try:
        table.update(by_thread)
        yield
    finally:
        for value in by_thread.values():
            value.end()
        table.update(before)
