"""Maps operators to symbolic functions: the table, and the functions that register entries."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from opbridge import _core
from opbridge.errors import InvalidArgumentError
from opbridge.operator_names import without_overload
from opbridge.operators import loaded_torch_libraries
from opbridge.symbolics import torch_ops
from opbridge.symbolics.autograd import autograd_callbacks
from opbridge.symbolics.callbacks import SymbolicFunction, adapt, for_opbridge, for_torch_onnx
from opbridge.symbolics.torchscript.convolutions import calls_of
from opbridge.torch_compat import symbolics_registered_with_torch

if TYPE_CHECKING:
    from opbridge.capture.program import Program

F = TypeVar("F", bound=SymbolicFunction)


@functools.cache
def registry() -> _core.Registry:
    """The bundled mappings and those registered on top of them."""
    return _core.Registry()


def symbolic(name: str, *, opset: int = 9) -> Callable[[F], F]:
    """Registers the decorated function as the mapping of an operator. It wins over a bundled one.

    The function takes ``g`` (a GraphContext) and the arguments of the operator's schema, by their names: tensors as
    values, the others as Python objects. If it has no parameter for an argument, calls in which that argument is not at
    its default are refused. It returns a value for each result of the operator.

    Args:
        name: ``"aten::asinh"`` for all overloads, or ``"aten::add.Tensor"`` for one.
        opset: The first opset at which it holds; it holds at all later ones too.

    Returns:
        A decorator, which returns the function unchanged.

    Raises:
        InvalidArgumentError: The name has no namespace.
    """

    def register(function: F) -> F:
        register_custom_op_symbolic(name, function, opset)
        return function

    return register


def register_custom_op_symbolic(name: str, function: SymbolicFunction, opset: int) -> None:
    """Registers a mapping, as ``symbolic`` does; torch.onnx has a function of this name.

    Args:
        name: The operator: ``"namespace::name"``, or ``"::name"`` for aten.
        function: A symbolic function, written for opbridge's ``g`` or for torch.onnx.
        opset: The first opset at which it holds; it holds at all later ones too.

    Raises:
        InvalidArgumentError: The name has no namespace.
    """
    registry().add(_checked(name), opset, False, adapt(function), _label(function))


def register_op(name: str, function: SymbolicFunction, domain: str, version: int) -> None:
    """Registers a mapping for one opset alone.

    Args:
        name: The operator, without its namespace, or with it (``domain`` is then ignored).
        function: A symbolic function, written for opbridge's ``g`` or for torch.onnx.
        domain: The operator's namespace; "" is aten.
        version: The opset.

    Raises:
        InvalidArgumentError: The name is not that of an operator.
    """
    key = name if "::" in name else f"{domain or 'aten'}::{name}"
    registry().add(_checked(key), version, True, adapt(function), _label(function))


def unregister_custom_op_symbolic(name: str, opset: int) -> None:
    """Removes a registration; a bundled mapping then holds again.

    Args:
        name: The operator, as it was registered.
        opset: The opset, as it was registered.

    Raises:
        InvalidArgumentError: Nothing was registered for the name at this opset.
    """
    if not registry().remove(_checked(name), opset):
        raise InvalidArgumentError(f"no symbolic function was registered for {name} at opset {opset}")


def registry_for(
    program: Program, opset: int, translations: Mapping[str, SymbolicFunction] | None = None
) -> _core.Registry:
    """A copy for the export of one program, with the functions registered through torch.onnx and the program's own.

    ``translations`` wins over all of these.
    """
    merged = copy.copy(registry())
    for key, since, function in torch_ops.symbolics(program.domain_versions):
        merged.add(key, since, False, for_opbridge(function), f"opbridge.symbolics.torch_ops.{function.__name__}")
    _add_registered_through_torch(merged)
    for library in loaded_torch_libraries():
        merged.add_operators(library)
    for key, label, callback in autograd_callbacks(program):
        merged.add(key, opset, True, callback, label)
    for key, function in (translations or {}).items():
        merged.add(key, opset, True, for_opbridge(function), _label(function))
    return merged


def _label(function: SymbolicFunction) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _checked(name: str) -> str:
    name = f"aten{name}" if name.startswith("::") else name
    namespace, separator, function = name.partition("::")
    if not separator or not namespace or not function:
        raise InvalidArgumentError(f"{name!r} is not an operator name: write it as 'namespace::name'")
    return name


def _add_registered_through_torch(merged: _core.Registry) -> None:
    """Adds the functions that the user registered by torch.onnx.register_custom_op_symbolic; none if that module was
    never loaded.

    Functions that torchvision registers on import are left out: they cover less than the bundled ones.
    """
    registered = [
        (key, since, function)
        for key, since, function in symbolics_registered_with_torch()
        if not (getattr(function, "__module__", None) or "").startswith("torchvision.")
    ]
    if not registered:  # reading all entries takes longer than many a capture
        return
    own = {(key, since) for key, since, _, bundled, _ in merged.entries() if not bundled}
    functions = [each for each in registered if each[:2] not in own]
    taken = {without_overload(key) for key, _ in own} | {key for key, _, _ in functions}
    for key, since, function in functions:
        callback = for_torch_onnx(function)
        merged.add(key, since, False, callback, _label(function))
        for name, called in calls_of(key, callback):
            if without_overload(name) not in taken:
                merged.add(name, since, False, called, _label(function))
