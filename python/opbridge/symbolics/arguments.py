"""Maps the named arguments of a call to the parameters of a symbolic function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from opbridge.errors import InvalidArgumentError
from opbridge.torch_compat import FunctionSchema, find_schema


@functools.cache
def _schema_of(op: str) -> FunctionSchema | None:
    """The schema of ``namespace::name.overload``; None if the operator is not registered."""
    name, _, overload = op.partition(".")
    try:
        return find_schema(name, overload)
    except RuntimeError:
        return None


def complete_arguments(op: str, names: list[str], arguments: list[Any]) -> list[tuple[str, Any, bool]]:
    """All arguments in schema order: name, value, and whether the call passes it."""
    given = dict(zip(names, arguments, strict=True))
    schema = _schema_of(op)
    if schema is None:
        return [(name, value, True) for name, value in given.items()]
    return [
        (argument.name, given.get(argument.name, argument.default_value), argument.name in given)
        for argument in schema.arguments
    ]


def call_with(function: Callable[..., Any], g: Any, op: str, names: list[str], arguments: list[Any]) -> Any:
    """Calls ``function(g, …)`` with the operator's arguments by position, in schema order.

    A function may omit trailing parameters if the call leaves them at their defaults. Keyword-only parameters get the
    arguments of the same name.
    """
    complete = complete_arguments(op, names, arguments)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    kinds = inspect.Parameter
    if any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters):
        return function(g, *(value for _, value, _ in complete))
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    keyword_only = {p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY}
    takes_any_keyword = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    by_position = [value for name, value, _ in complete if name not in keyword_only][: len(positional)]
    rest = [item for item in complete if item[0] not in keyword_only][len(positional) :]
    by_name = {name: value for name, value, _ in complete if name in keyword_only}
    for name, value, is_given in rest:
        if takes_any_keyword:
            by_name[name] = value
        elif is_given and not _is_default(op, name, value):
            raise InvalidArgumentError(
                f"{op} is called with {name}={value!r}, but the symbolic function {function.__name__} has no "
                f"parameter for it; its parameters should be (g, {', '.join(item[0] for item in complete)})"
            )
    return function(g, *by_position, **by_name)


def _is_default(op: str, name: str, value: Any) -> bool:
    schema = _schema_of(op)
    for argument in schema.arguments if schema is not None else ():
        if argument.name == name and argument.has_default_value():
            return bool(argument.default_value == value)
    return False
