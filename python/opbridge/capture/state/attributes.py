"""Records and restores what a model holds: in the attributes of its modules and of the objects in them, and in the
variables of its functions."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import threading
import types
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import torch

from opbridge.capture.state.functions import (
    CachedFunction,
    CacheHolder,
    GlobalsHolder,
    Reached,
    holders_of_class,
    holders_of_function,
)
from opbridge.capture.state.holders import (
    ARRAYS,
    MISSING,
    ArrayHolder,
    BuffersHolder,
    ChangingHolder,
    ContextVarHolder,
    DictHolder,
    EmptyHolder,
    GeneratorHolder,
    Holder,
    ListHolder,
    NamedHolder,
    ParametersHolder,
    SetHolder,
    SlotsHolder,
    TensorHolder,
)
from opbridge.capture.state.iterators import IteratorHolder, Places, occupied
from opbridge.capture.state.kinds import Replayed, is_generator, is_iterator
from opbridge.capture.state.ownership import FOREIGN, classes_of, is_of_opbridge
from opbridge.torch_compat import (
    BUFFERS,
    MODULES,
    PARAMETERS,
    DisableTorchFunction,
    buffers_of,
    is_fake,
    is_transformed,
    parameters_of,
    unset_fake_temporarily,
)

_WITHOUT_PARTS = frozenset(
    {int, float, complex, bool, str, bytes, type(None), range, slice, type, types.ModuleType, torch.dtype, torch.device}
)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
_CONTAINERS = frozenset({dict, collections.OrderedDict, list, set, collections.deque})


class Place(NamedTuple):
    """An attribute, an item or a variable in which something keeps a value."""

    holder: ChangingHolder
    key: Any

    def get(self) -> Any:
        """The value, or MISSING."""
        return self.holder.get(self.key)

    def set(self, value: Any) -> None:
        self.holder.set(self.key, value)

    @property
    def identity(self) -> tuple[int, Any]:
        return id(self.holder.owner), self.key

    @property
    def before(self) -> Any:
        """The value when the holder was made, or MISSING."""
        return self.holder.before.get(self.key, MISSING)


class Attributes:
    """A record of what ``roots``, the model and its inputs, hold: parameters, buffers and other attributes; in dicts,
    lists, sets and plain objects, in attributes of classes, and in variables of the functions that these have."""

    def __init__(self, *roots: Any) -> None:
        self._holders: list[Holder] = []
        self._iterators: list[tuple[Holder, Any, Any]] = []
        self._places: list[Places] = []
        seen: set[int] = set()
        self._reached = reached = Reached()
        found: list[tuple[Any, Holder | None, Any]] = [(root, None, None) for root in roots]
        while found:
            value, parent, key = found.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            for holder in _holders_of(value, seen, reached):
                holder.parent, holder.key = parent, key
                self._holders.append(holder)
                empty = {}
                for key_of_part, part in holder.before.items():
                    kind = type(part)
                    if kind in _CONTAINERS and not part:
                        empty[key_of_part] = part
                    elif is_iterator(part):
                        self._iterators.append((holder, key_of_part, part))
                    elif kind not in _WITHOUT_PARTS:
                        found.append((part, holder, key_of_part))
                if empty:
                    self._holders.append(EmptyHolder(empty))
                    self._holders[-1].parent = holder

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [holder.owner for holder in self._holders if isinstance(holder, TensorHolder)]

    @property
    def have_iterators(self) -> bool:
        return bool(self._iterators)

    @property
    def functions(self) -> list[types.FunctionType]:
        """The user's functions that a call of the model may reach."""
        return self._reached.functions

    def reach(self, name: str) -> bool:
        """Whether code of the model uses this name of a variable or an attribute."""
        return self._reached.names(name)

    def namespaces_with(self, name: str) -> list[dict[str, Any]]:
        """The global variables of the Python modules in which code of the model uses this name of a global variable or
        a builtin."""
        found = [each.owner for each in self._holders if isinstance(each, GlobalsHolder) and each.names(name)]
        return list({id(names): names for names in found}.values())

    def lay_aside(self) -> None:
        """Prepares a run, which ``put_back`` undoes as often as it is called, until ``take_up``: lays gradients and
        iterators aside."""
        for holder in self._holders:
            if isinstance(holder, TensorHolder):
                holder.lay_gradient_aside()
        self._places, holders = occupied(self._iterators)
        self._holders += holders

    def take_up(self) -> None:
        self.put_back()
        for places in self._places:
            places.vacate()

    def changes(self) -> list[str]:
        """The paths of changed values, as the user writes them: ``encoder.hidden[0]``.

        Parameters and buffers are left out, since a capture itself may exchange them."""
        with DisableTorchFunction():
            return list(dict.fromkeys(path for holder in self._holders for path in holder.changes()))

    def only_assign(self, may_be_assigned: Callable[[torch.Tensor], bool]) -> bool:
        """Whether nothing but tensors has been assigned, and only those of which ``may_be_assigned`` is true."""
        with DisableTorchFunction():
            return all(holder.only_assigns(may_be_assigned) for holder in self._holders)

    def assigned(self) -> list[Place]:
        """Where other values have been assigned."""
        with DisableTorchFunction():
            return [Place(holder, key) for holder in self._changing() for key in holder.assigned()]

    def grown(self) -> list[tuple[Place, list[Any]]]:
        """Where lists are to which items have been added, and their items before."""
        with DisableTorchFunction():
            return [
                (Place(holder.parent, key), items)
                for holder in self._holders
                if isinstance(holder.parent, ChangingHolder)
                for key, items in holder.grown()
            ]

    def references(self, value: Any) -> int:
        """How many references to the value this record has."""
        return sum(each is value for holder in self._holders for each in holder.kept())

    def holding(self, is_meant: Callable[[Any], bool]) -> list[Place]:
        """Where values of which ``is_meant`` is true were."""
        with DisableTorchFunction():
            return [
                Place(holder, key)
                for holder in self._changing()
                for key, value in holder.before.items()
                if is_meant(value)
            ]

    def _changing(self) -> Iterator[ChangingHolder]:
        return (holder for holder in self._holders if isinstance(holder, ChangingHolder))

    def put_back(self) -> None:
        for holder in self._holders:
            if holder.differing():
                holder.put_back()

    def put_back_written(self, kept: Collection[str]) -> None:
        """Restores only what a captured program returns as outputs: buffers and other tensors, but not parameters and
        what is ``kept``, by its path."""
        for holder in self._holders:
            holder.put_back_written(kept)


@contextlib.contextmanager
def restore_attributes(*roots: Any) -> Iterator[Attributes]:
    """Undoes what a run assigns to attributes of ``roots`` (the model and its inputs) and of the objects in them."""
    with unset_fake_temporarily(), DisableTorchFunction():
        attributes = Attributes(*roots)
        attributes.lay_aside()
    try:
        yield attributes
    finally:
        with unset_fake_temporarily(), DisableTorchFunction():
            attributes.take_up()


def named_tensors(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that modules hold as parameters, buffers or plain attributes, with their paths."""
    for path, module in model.named_modules():
        for part in (parameters_of(module), buffers_of(module), vars(module)):
            for name, value in part.items():
                if isinstance(value, torch.Tensor):
                    yield f"{path}.{name}" if path else name, value


@contextlib.contextmanager
def restore_contents(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Copies the tensors, and undoes what a run writes to them."""
    before = [(tensor, tensor.clone()) for tensor in map(_unexpanded, tensors)]
    try:
        yield
    finally:
        for tensor, content in before:
            tensor.copy_(content)


def _unexpanded(tensor: torch.Tensor) -> torch.Tensor:
    """A view that has each element in memory once: torch does not write to elements that share memory."""
    if tensor.layout == torch.strided:
        for dim, stride in enumerate(tensor.stride()):
            if stride == 0 and tensor.shape[dim] > 1:
                tensor = tensor.narrow(dim, 0, 1)
    return tensor


def _holders_of(value: Any, seen: set[int], reached: Reached) -> Iterator[Holder]:
    is_module = isinstance(value, torch.nn.Module)  # one of opbridge holds a function that is exported
    if is_fake(value) or isinstance(value, _SYMBOLS) or (is_of_opbridge(type(value)) and not is_module):
        return  # it stands for a value of the model while that is captured
    if isinstance(value, dict):
        yield DictHolder(value)
    elif isinstance(value, (list, collections.deque)):
        yield ListHolder(value)
    elif isinstance(value, set):
        yield SetHolder(value)
    elif isinstance(value, (tuple, frozenset)):
        yield Holder(value)
    elif isinstance(value, torch.Tensor):
        # A module may keep a tensor when torch.func's transform has ended, as recurrent ones do.
        if is_transformed(value):
            return
        yield TensorHolder(value)
    elif isinstance(value, types.MethodType):
        yield Holder((value.__self__, value.__func__))
    elif isinstance(value, functools.partial):
        yield Holder((value.func, value.args, value.keywords))
    elif isinstance(value, types.FunctionType):
        yield from holders_of_function(value, seen, reached)
    elif isinstance(value, CachedFunction):
        yield CacheHolder(value)
    elif isinstance(value, threading.local):
        yield NamedHolder(vars(value))  # of this thread
    elif isinstance(value, contextvars.ContextVar):
        yield ContextVarHolder(value)
    elif isinstance(value, ARRAYS):
        yield ArrayHolder(value)
    elif is_generator(value):
        yield GeneratorHolder(value)
    elif isinstance(value, Replayed):
        yield IteratorHolder(value)
        return
    traits = _traits(type(value))
    if traits.foreign:
        return
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        if isinstance(value, torch.nn.Module):
            for name, holder in ((PARAMETERS, ParametersHolder), (BUFFERS, BuffersHolder), (MODULES, NamedHolder)):
                registered = attributes.get(name)
                if isinstance(registered, dict):
                    seen.add(id(registered))
                    yield holder(registered)
        yield NamedHolder(attributes)
    if traits.slots:
        yield SlotsHolder(value, traits.slots)
    yield from holders_of_class(type(value), seen, reached)


@dataclasses.dataclass(frozen=True)
class _Traits:
    foreign: bool
    slots: tuple[str, ...]  # attributes that objects of the class keep outside of ``__dict__``


_known_traits: dict[type, _Traits] = {}


def _traits(kind: type) -> _Traits:
    known = _known_traits.get(kind)
    if known is None:
        known = _known_traits[kind] = _read_traits(kind)
    return known


def _read_traits(kind: type) -> _Traits:
    bases = [vars(base) for base in classes_of(kind) if "__slots__" in vars(base)]  # others are written in C
    names = {name: None for members in bases for name, of in members.items() if _is_slot(of)}
    slots = tuple(name for name in names if _is_slot(inspect.getattr_static(kind, name)))
    return _Traits(kind.__module__.partition(".")[0] in FOREIGN or issubclass(kind, type), slots)


def _is_slot(value: Any) -> bool:
    return isinstance(value, types.MemberDescriptorType)
