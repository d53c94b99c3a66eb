"""Symbolic functions as callbacks of the core, each called in the form for which it is written.

A function for opbridge's ``g`` gets tensors as ``opbridge.symbolics.Value`` and all other arguments as Python objects.
A function for torch.onnx gets values of a TorchScript graph. This form is for functions that are registered with
torch.onnx or use it, and for ``symbolic`` of an autograd.Function. If such a function asks for what only opbridge's
``g`` and values have, it is called again in the first form.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from opbridge import _core
from opbridge.capture.source import line_of_error
from opbridge.errors import Error, InvalidArgumentError
from opbridge.symbolics.arguments import bind, complete_arguments
from opbridge.symbolics.builder import Callback, GraphContext, Results
from opbridge.symbolics.torchscript import OwnFormNeeded, call_function, call_method, uses_torch_onnx
from opbridge.symbolics.values import wrapped

SymbolicFunction = Callable[..., Any]


def adapt(function: SymbolicFunction) -> Callback:
    """The callback for a function that is registered with opbridge."""
    return for_torch_onnx(function) if uses_torch_onnx(function) else for_opbridge(function)


@contextlib.contextmanager
def _name_failures(function: SymbolicFunction, op: str, core: _core.GraphBuilder) -> Iterator[None]:
    """Raises an error of opbridge, with the function, the operator (if any) and the line of the model, in place of any
    other error. Warnings that are errors stay what they are."""
    try:
        yield
    except Error as error:
        if error.where:
            raise
        raise type(error)(error.message, core.source) from error.__cause__
    except (OwnFormNeeded, Warning):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        line = line_of_error(error)
        raise InvalidArgumentError(
            f"the symbolic function {_name_of(function)}{op and f' for {op}'} raised {text}{line and f' ({line})'}",
            core.source,
        ) from error


def _name_of(function: SymbolicFunction) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def for_opbridge(function: SymbolicFunction) -> Callback:
    def callback(core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]) -> Results:
        with _name_failures(function, op, core):
            positional, named = bind(function, op, complete_arguments(op, names, arguments))
            by_name = {name: wrapped(argument.value) for name, argument in named.items()}
            g = GraphContext(core)
            return g.results(function(g, *(wrapped(argument.value) for argument in positional), **by_name))

    return callback


def for_torch_onnx(function: SymbolicFunction) -> Callback:
    in_own_form = for_opbridge(function)

    def callback(core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]) -> Results:
        try:
            with _name_failures(function, op, core):
                return call_function(function, core, op, names, arguments)
        except OwnFormNeeded:
            return in_own_form(core, op, names, arguments)

    return callback


def call_symbolic_method(function: SymbolicFunction, core: _core.GraphBuilder, arguments: list[Any]) -> Results:
    """Calls ``symbolic`` of an autograd.Function with the arguments of ``apply``.

    Raises:
        InvalidArgumentError: The function does not take the arguments, or raises an error.
    """
    with _name_failures(function, "", core):
        try:
            return call_method(function, core, arguments)
        except OwnFormNeeded:
            g = GraphContext(core)
            return g.results(function(g, *map(wrapped, arguments)))
        except TypeError as error:
            signature = inspect.signature(function)
            if _takes(signature, len(arguments) + 1):
                raise  # an error of the function's own
            raise InvalidArgumentError(
                f"{_name_of(function)}{signature} does not fit: apply is called with {len(arguments)} arguments; the "
                "parameters of symbolic are g and those that forward has after ctx",
                core.source,
            ) from error


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Whether a function takes so many arguments by position."""
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
