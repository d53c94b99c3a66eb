"""Records and restores what a model holds in the attributes of its modules and of the objects in them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from operator import is_
from typing import Any

import torch

from opbridge.torch_compat import (
    BUFFERS,
    MODULES,
    PARAMETERS,
    DisableTorchFunction,
    buffers_of,
    is_fake,
    is_traceable_wrapper_subclass,
    is_transformed,
    parameters_of,
    unset_fake_temporarily,
)

_WITHOUT_PARTS = frozenset(
    {int, float, complex, bool, str, bytes, type(None), range, slice, type, types.ModuleType, torch.dtype, torch.device}
)
# Objects of these packages do not belong to the model, although it may refer to them.
_FOREIGN = frozenset({"logging", "threading", "_thread", "weakref", "enum", "typing", "abc", "re"})
_FOREIGN_CLASSES = sys.stdlib_module_names | {"builtins", "torch"}
_CONTAINERS = frozenset({dict, collections.OrderedDict, list, set, collections.deque})
_DATA = (
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    dict,
    list,
    tuple,
    set,
    frozenset,
    collections.deque,
    torch.Tensor,
)
_MISSING = object()


class Attributes:
    """A record of what ``roots``, the model and its inputs, hold: parameters, buffers and other attributes; in dicts,
    lists, sets and plain objects, and in attributes of classes."""

    def __init__(self, *roots: Any) -> None:
        self._holders: list[_Holder] = []
        seen: set[int] = set()
        found: list[tuple[Any, _Holder | None, Any]] = [(root, None, None) for root in roots]
        while found:
            value, parent, key = found.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            for holder in _holders_of(value, seen):
                holder.parent, holder.key = parent, key
                self._holders.append(holder)
                empty = {}
                for key_of_part, part in holder.before.items():
                    kind = type(part)
                    if kind in _CONTAINERS and not part:
                        empty[key_of_part] = part
                    elif kind not in _WITHOUT_PARTS:
                        found.append((part, holder, key_of_part))
                if empty:
                    self._holders.append(_Empty(empty))
                    self._holders[-1].parent = holder

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [holder.owner for holder in self._holders if isinstance(holder, _Tensor)]

    def lay_gradients_aside(self) -> None:
        for holder in self._holders:
            if isinstance(holder, _Tensor):
                holder.lay_gradient_aside()

    def changes(self) -> list[str]:
        """The paths of changed values, as the user writes them: ``encoder.hidden[0]``.

        Parameters and buffers are left out, since a capture itself may exchange them."""
        with DisableTorchFunction():
            return list(dict.fromkeys(path for holder in self._holders for path in holder.changes()))

    def put_back(self) -> None:
        for holder in self._holders:
            if holder.differing():
                holder.put_back()

    def put_back_written(self) -> None:
        """Restores only what a captured program returns as outputs: buffers and other tensors, but not parameters."""
        for holder in self._holders:
            holder.put_back_written()


@contextlib.contextmanager
def restore_attributes(*roots: Any) -> Iterator[Attributes]:
    """Undoes what a run assigns to attributes of ``roots`` (the model and its inputs) and of the objects in them."""
    with unset_fake_temporarily(), DisableTorchFunction():
        attributes = Attributes(*roots)
        attributes.lay_gradients_aside()
    try:
        yield attributes
    finally:
        with unset_fake_temporarily(), DisableTorchFunction():
            attributes.put_back()


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


class _Holder:
    """A container that holds values by keys. The base class is for values that never change."""

    __slots__ = ("before", "key", "owner", "parent")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.parent: _Holder | None = None
        self.key: Any = None
        self.before = self.content()

    @property
    def path(self) -> str:
        return "" if self.parent is None else self.parent.path_of(self.key)

    def path_of(self, key: Any) -> str:
        return f"{self.path}[{key!r}]"

    def content(self) -> dict[Any, Any]:
        return dict(enumerate(self.owner))

    def differing(self) -> list[Any]:
        """The keys whose objects have changed; all keys if only their order has changed."""
        return []

    def changes(self) -> list[str]:
        """The paths of the differing keys whose values are distinguishable from the former ones."""
        differing = self.differing()
        now = self.content() if differing else {}
        return [
            self.path_of(key) for key in differing if not _same(self.before.get(key, _MISSING), now.get(key, _MISSING))
        ]

    def put_back(self) -> None: ...

    def put_back_written(self) -> None: ...


class _Empty(_Holder):
    """Empty containers, the most frequent content of modules."""

    __slots__ = ()

    def content(self) -> dict[Any, Any]:
        return dict(self.owner)

    def path_of(self, key: Any) -> str:
        assert self.parent is not None
        return self.parent.path_of(key)

    def differing(self) -> list[Any]:
        return [key for key, container in self.owner.items() if container] if any(self.owner.values()) else []

    def changes(self) -> list[str]:
        return [self.path_of(key) for key in self.differing()]

    def put_back(self) -> None:
        for container in self.owner.values():
            container.clear()


class _Changing(_Holder):
    __slots__ = ()

    def differing(self) -> list[Any]:
        now, before = self.content(), self.before
        if len(now) == len(before) and all(map(is_, now, before)) and all(map(is_, now.values(), before.values())):
            return []
        keys = [key for key in {**before, **now} if before.get(key, _MISSING) is not now.get(key, _MISSING)]
        return keys or list(now)


class _Dict(_Changing):
    __slots__ = ()

    def content(self) -> dict[Any, Any]:
        return dict(self.owner)

    def differing(self) -> list[Any]:
        now, before = self.owner, self.before
        if len(now) == len(before) and all(map(is_, now, before)) and all(map(is_, now.values(), before.values())):
            return []
        return super().differing()

    def put_back(self) -> None:
        kind: Any = collections.OrderedDict if isinstance(self.owner, collections.OrderedDict) else dict
        kind.clear(self.owner)
        kind.update(self.owner, self.before)


class _Named(_Dict):
    """The attributes of an object."""

    __slots__ = ()

    def path_of(self, key: Any) -> str:
        return f"{self.path}.{key}".lstrip(".")


class _Parameters(_Named):
    """The parameters or buffers that a module registers."""

    __slots__ = ()

    def changes(self) -> list[str]:
        return []


class _Buffers(_Parameters):
    __slots__ = ()

    def put_back_written(self) -> None:
        for name, before in self.before.items():
            if isinstance(before, torch.Tensor) and isinstance(self.owner.get(name), torch.Tensor):
                self.owner[name] = before


class _Slots(_Changing):
    __slots__ = ()
    path_of = _Named.path_of

    def content(self) -> dict[Any, Any]:
        return {
            name: getattr(self.owner, name) for name in _traits(type(self.owner)).slots if hasattr(self.owner, name)
        }

    def put_back(self) -> None:
        for name in self.differing():
            if name in self.before:
                object.__setattr__(self.owner, name, self.before[name])
            else:
                object.__delattr__(self.owner, name)


class _OfClass(_Changing):
    __slots__ = ()
    path_of = _Named.path_of

    @property
    def path(self) -> str:
        return str(self.owner.__qualname__)

    def content(self) -> dict[Any, Any]:
        return {
            name: value
            for name, value in vars(self.owner).items()
            if isinstance(value, _DATA) and not name.startswith("__")
        }

    def put_back(self) -> None:
        for name in self.differing():
            if name in self.before:
                setattr(self.owner, name, self.before[name])
            else:
                delattr(self.owner, name)


class _List(_Changing):
    """A list or a deque."""

    __slots__ = ()

    def put_back(self) -> None:
        self.owner.clear()
        self.owner.extend(self.before.values())


class _Set(_Changing):
    __slots__ = ()

    def content(self) -> dict[Any, Any]:
        return {value: value for value in self.owner}

    def put_back(self) -> None:
        self.owner.clear()
        self.owner.update(self.before)


class _Tensor(_Holder):
    """A tensor's memory, which ``.data =``, ``set_`` and ``resize_`` exchange, and its gradient."""

    __slots__ = ("_alias", "_grad", "_memory", "_requires_grad")

    def __init__(self, owner: torch.Tensor) -> None:
        super().__init__(owner)
        self._alias = owner.detach()
        self._memory = _memory_of(owner)
        self._requires_grad = owner.requires_grad
        self._grad = owner.grad if owner.is_leaf else None

    def lay_gradient_aside(self) -> None:
        """Removes the gradient during the run: autograd would otherwise add to it in place."""
        if self._grad is not None:
            self.owner.grad = None

    def content(self) -> dict[Any, Any]:
        return {}

    def differing(self) -> list[Any]:
        tensor = self.owner
        names = []
        if _memory_of(tensor) != self._memory:
            names.append("data")
        if tensor.is_leaf and tensor.grad is not None:
            names.append("grad")
        if tensor.requires_grad != self._requires_grad or (tensor.is_leaf and tensor.grad is not self._grad):
            names.append("")
        return names

    def changes(self) -> list[str]:
        """Leaves out the memory of tensors that are not parameters: the captured program contains the writes to it."""
        return [
            f"{self.path}.{name}"
            for name in self.differing()
            if name and not (name == "data" and not self._is_parameter())
        ]

    def put_back_written(self) -> None:
        if not self._is_parameter() and _memory_of(self.owner) != self._memory:
            self.owner.data = self._alias

    def _is_parameter(self) -> bool:
        return isinstance(self.owner, torch.nn.Parameter)

    def put_back(self) -> None:
        tensor = self.owner
        if _memory_of(tensor) != self._memory:
            tensor.data = self._alias
        if tensor.is_leaf:
            tensor.requires_grad_(self._requires_grad)
            tensor.grad = self._grad


def _memory_of(tensor: torch.Tensor) -> Any:
    is_wrapper: bool = is_fake(tensor) or is_traceable_wrapper_subclass(tensor)
    if tensor.layout is not torch.strided or is_wrapper:
        return None
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def _holders_of(value: Any, seen: set[int]) -> Iterator[_Holder]:
    if isinstance(value, dict):
        yield _Dict(value)
    elif isinstance(value, (list, collections.deque)):
        yield _List(value)
    elif isinstance(value, set):
        yield _Set(value)
    elif isinstance(value, (tuple, frozenset)):
        yield _Holder(value)
    elif isinstance(value, torch.Tensor):
        if is_transformed(value):  # a module may keep it when torch.func's transform has ended, as recurrent ones do
            return
        yield _Tensor(value)
    elif isinstance(value, types.MethodType):
        yield _Holder((value.__self__,))
    elif isinstance(value, functools.partial):
        yield _Holder((value.func, value.args, value.keywords))
    traits = _traits(type(value))
    if traits.foreign:
        return
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is dict:
        if isinstance(value, torch.nn.Module):
            for name, holder in ((PARAMETERS, _Parameters), (BUFFERS, _Buffers), (MODULES, _Named)):
                registered = attributes.get(name)
                if isinstance(registered, dict):
                    seen.add(id(registered))
                    yield holder(registered)
        yield _Named(attributes)
    if traits.slots:
        yield _Slots(value)
    for base in traits.classes:
        if id(base) not in seen:
            seen.add(id(base))
            yield _OfClass(base)


@dataclasses.dataclass(frozen=True)
class _Traits:
    foreign: bool
    slots: tuple[str, ...]  # attributes that objects of the class keep outside of ``__dict__``
    classes: tuple[type, ...]  # those of the class and its bases that the user defines


_known_traits: dict[type, _Traits] = {}


def _traits(kind: type) -> _Traits:
    known = _known_traits.get(kind)
    if known is None:
        known = _known_traits[kind] = _read_traits(kind)
    return known


def _read_traits(kind: type) -> _Traits:
    classes = tuple(base for base in kind.__mro__ if base.__module__.partition(".")[0] not in _FOREIGN_CLASSES)
    members = ((name, of) for base in classes for name, of in vars(base).items())
    slots = tuple(name for name, of in members if isinstance(of, types.MemberDescriptorType))
    return _Traits(kind.__module__.partition(".")[0] in _FOREIGN or issubclass(kind, type), slots, classes)


def _same(before: Any, now: Any) -> bool:
    """Whether the two are the same, judged without comparing elements of tensors."""
    if before is now:
        return True
    if type(before) is not type(now):
        return False
    if isinstance(before, (list, tuple)):
        return len(before) == len(now) and all(map(_same, before, now))
    if isinstance(before, dict):
        return list(before) == list(now) and all(map(_same, before.values(), now.values()))
    return isinstance(before, (int, float, complex, str, bytes, set, frozenset)) and before == now
