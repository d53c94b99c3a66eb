"""Shows a model the types that its tensors and numbers have in eager mode; those of a capture are of other classes."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import torch

from opbridge.capture.patching import current_thread
from opbridge.capture.rewrites.tensor_subclasses import class_of_fake
from opbridge.capture.source import runs_users
from opbridge.capture.state.attributes import Attributes
from opbridge.capture.torchscript.branches import Truth
from opbridge.torch_compat import FakeTensor

# The types of numbers that stand for a size, or for an element of a tensor.
NUMBERS: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def eager_type(value: Any) -> type:
    """The type that ``value`` has in eager mode."""
    if isinstance(value, FakeTensor):
        return torch.nn.Parameter if isinstance(value, torch.nn.Parameter) else class_of_fake(value)
    return bool if type(value) is Truth else NUMBERS.get(type(value), type(value))


def class_for(value: Any, frame: FrameType | None) -> type:
    """What ``value.__class__`` is to the code that ``frame`` runs: the eager type to the user's."""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen"):  # the module abc
        frame = frame.f_back
    return eager_type(value) if frame is not None and runs_users(frame) else type(value)


class _OfType(type):
    """The metaclass of what stands for the builtin ``type`` in a Python module with the globals ``names``."""

    names: dict[str, Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if "names" not in vars(cls):  # a metaclass that the model derives from ``type``
            return super().__call__(*args, **kwargs)
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        kind = eager_type(args[0])
        named = cls.names.get(kind.__name__)  # another capture step may have replaced ``int``, and this one ``type``
        return named if isinstance(named, type) and named == kind else kind

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, type)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, type)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is type

    def __hash__(cls) -> int:
        return hash(type)


def _type_for(names: dict[str, Any]) -> type:
    members = {"names": names, "__class_getitem__": classmethod(types.GenericAlias)}
    return _OfType("type", (type,), members)


# The global variables of the modules that have another ``type``.
_replaced: ContextVar[tuple[dict[str, Any], ...]] = ContextVar("_replaced", default=())


@contextlib.contextmanager
def show_eager_types(attributes: Attributes) -> Iterator[None]:
    """Makes ``type(value)`` and ``value.__class__`` the eager type of a tensor or a number, in the code that the model
    with these ``attributes`` reaches. If it does not use them, nothing is replaced."""
    namespaces = [names for names in attributes.namespaces_with("type") if "type" not in names]
    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(_replaced.reset, _replaced.set((*_replaced.get(), *namespaces)))
        for names in namespaces:
            names["type"] = _type_for(names)
            until_the_end.callback(names.pop, "type", None)
        if attributes.reach("__class__"):
            until_the_end.enter_context(_with_classes())
        yield


@contextlib.contextmanager
def leave_types() -> Iterator[None]:
    """Takes back what stands for ``type``. Dynamo does not know it, but shows a function the eager types itself."""
    replaced = [(names, names.pop("type")) for names in _replaced.get()]
    try:
        yield
    finally:
        for names, replacement in replaced:
            names["type"] = replacement


@contextlib.contextmanager
def _with_classes() -> Iterator[None]:
    """Gives fake tensors another ``__class__``. It cannot be set as an attribute of their class, but be inherited."""
    thread = current_thread()

    def class_of(tensor: torch.Tensor) -> type:
        return class_for(tensor, sys._getframe(1)) if current_thread() == thread else type(tensor)

    shown = property(class_of, vars(object)["__class__"].__set__)
    kind: Any = FakeTensor
    before = kind.__bases__
    kind.__bases__ = (type("Shown", (), {"__class__": shown}), *before)
    try:
        yield
    finally:
        kind.__bases__ = before
