"""Maps the named arguments of a call to the parameters of a symbolic function."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from opbridge import _core
from opbridge.errors import InvalidArgumentError
from opbridge.torch_compat import FunctionSchema, find_schema, length_of


@dataclasses.dataclass(frozen=True)
class Argument:
    """An argument of a call, and its type in the operator's schema ("" if the operator has none)."""

    name: str
    value: Any
    is_given: bool = True
    type_name: str = ""


@functools.cache
def schema_of_name(op: str) -> FunctionSchema | None:
    """The schema of ``namespace::name.overload``; None if the operator is not registered."""
    name, _, overload = op.partition(".")
    try:
        return find_schema(name, overload)
    except RuntimeError:
        return None


def complete_arguments(op: str, names: list[str], arguments: list[Any]) -> list[Argument]:
    """All arguments in schema order, with the defaults of those that the call does not pass."""
    given = dict(zip(names, arguments, strict=True))
    schema = schema_of_name(op)
    if schema is None:
        return [Argument(name, value) for name, value in given.items()]
    return [
        Argument(
            each.name,
            _of_length(given[each.name], length_of(each)) if each.name in given else each.default_value,
            each.name in given,
            str(each.real_type),
        )
        for each in schema.arguments
    ]


def _of_length(value: Any, length: int | None) -> Any:
    """Repeats the item of a list of one to that length (``dilation=[2]`` for both axes), as PyTorch's kernels do."""
    return value * length if length and isinstance(value, list) and len(value) == 1 else value


def bind(
    function: Callable[..., Any], op: str, arguments: Sequence[Argument]
) -> tuple[list[Argument], dict[str, Argument]]:
    """The arguments that ``function(g, …)`` takes by position, in schema order, and those that it takes by keyword.

    A function may omit trailing parameters if the call leaves them at their defaults. Keyword-only parameters get the
    arguments of the same name.
    """
    kinds = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())
    if any(parameter.kind is kinds.VAR_POSITIONAL for parameter in parameters):
        return list(arguments), {}
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)][1:]
    keyword_only = {p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY}
    takes_any_keyword = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    in_order = [each for each in arguments if each.name not in keyword_only]
    by_name = {each.name: each for each in arguments if each.name in keyword_only}
    for each in in_order[len(positional) :]:
        if takes_any_keyword:
            by_name[each.name] = each
        elif each.is_given and not _is_default(op, each):
            shown = "<a tensor>" if isinstance(each.value, _core.Value) else repr(each.value)
            raise InvalidArgumentError(
                f"{op} is called with {each.name}={shown}, but the symbolic function {function.__name__} has no "
                f"parameter for it; its parameters should be (g, {', '.join(item.name for item in arguments)})"
            )
    return in_order[: len(positional)], by_name


def _is_default(op: str, given: Argument) -> bool:
    schema = schema_of_name(op)
    for argument in schema.arguments if schema is not None else ():
        if argument.name == given.name and argument.has_default_value():
            return bool(argument.default_value == given.value)
    return False
