"""The containers in which a model holds values, as they were before a run."""

from __future__ import annotations

import array
import collections
import pickle
import zlib
from collections.abc import Callable, Collection
from operator import is_
from typing import Any

import numpy
import torch

from opbridge.capture.state.kinds import keeps_state
from opbridge.torch_compat import is_fake, is_traceable_wrapper_subclass

DATA = (
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
    torch.SymInt,
    torch.SymFloat,
    torch.SymBool,
)
ARRAYS = (numpy.ndarray, array.array, bytearray)
MISSING = object()
_MOST_BYTES = 1 << 20  # of an array whose elements are kept


class Holder:
    """A container that holds values by keys. The base class is for values that never change."""

    __slots__ = ("before", "key", "owner", "parent")

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.parent: Holder | None = None
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
        return [self.path_of(key) for key in self.changed()]

    def changed(self) -> dict[Any, Any]:
        """The values that are distinguishable from the former ones, by their keys; MISSING for one that is removed."""
        differing = self.differing()
        now = self.content() if differing else {}
        values = ((key, now.get(key, MISSING)) for key in differing)
        return {key: value for key, value in values if not _same(self.before.get(key, MISSING), value)}

    def only_assigns(self, may_be_assigned: Callable[[torch.Tensor], bool]) -> bool:
        """Whether all values that are distinguishable from the former ones are such tensors."""
        return all(_consists_of(may_be_assigned, value) for value in self.changed().values())

    def grown(self) -> list[tuple[Any, list[Any]]]:
        """The keys by which the parent holds lists to which items have been added, and their items before."""
        return []

    def kept(self) -> list[Any]:
        """What the holder refers to."""
        return [self.owner, *self.before.values()]

    def put(self, key: Any, value: Any) -> bool:
        """Exchanges one of the values, which counts as no change. False if the container cannot."""
        return False

    def put_back(self) -> None: ...

    def put_back_written(self, kept: Collection[str]) -> None: ...


class EmptyHolder(Holder):
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

    def only_assigns(self, may_be_assigned: Callable[[torch.Tensor], bool]) -> bool:
        return not self.differing()

    def grown(self) -> list[tuple[Any, list[Any]]]:
        return [(key, []) for key in self.differing() if type(self.owner[key]) is list]

    def kept(self) -> list[Any]:
        return [*self.owner.values(), *self.before.values()]

    def put_back(self) -> None:
        for container in self.owner.values():
            container.clear()


class ChangingHolder(Holder):
    """A container that values are assigned to and removed from."""

    __slots__ = ()

    def differing(self) -> list[Any]:
        now, before = self.content(), self.before
        if len(now) == len(before) and all(map(is_, now, before)) and all(map(is_, now.values(), before.values())):
            return []
        keys = [key for key in {**before, **now} if before.get(key, MISSING) is not now.get(key, MISSING)]
        return keys or list(now)

    def assigned(self) -> list[Any]:
        """The keys to which other values are assigned than before, if that is all that has changed."""
        return list(self.changed())

    def get(self, key: Any) -> Any:
        """The value as it is now, or MISSING."""
        return self.content().get(key, MISSING)

    def set(self, key: Any, value: Any) -> None:
        """Assigns the value, or removes that of the key if it is MISSING."""
        if value is not MISSING:
            self._assign(key, value)
        elif self.get(key) is not MISSING:
            self._remove(key)

    def put(self, key: Any, value: Any) -> bool:
        self._assign(key, value)
        self.before[key] = value
        return True

    def put_back(self) -> None:
        for key in self.differing():
            if key in self.before:
                self._assign(key, self.before[key])
            else:
                self._remove(key)

    def _assign(self, key: Any, value: Any) -> None:
        self.owner[key] = value

    def _remove(self, key: Any) -> None:
        del self.owner[key]


class StateHolder(Holder):
    """An object whose state is one value."""

    __slots__ = ("_state",)

    def __init__(self, owner: Any) -> None:
        super().__init__(owner)
        self._state = self._read()

    def content(self) -> dict[Any, Any]:
        return {}

    def differing(self) -> list[Any]:
        return [] if self._read() == self._state else [""]

    def changes(self) -> list[str]:
        return [self.path] if self.differing() else []

    def only_assigns(self, may_be_assigned: Callable[[torch.Tensor], bool]) -> bool:
        return not self.differing()

    def _read(self) -> Any:
        """The state as it is now."""
        raise NotImplementedError


class DictHolder(ChangingHolder):
    """A dict, read without the methods of its class, which may load what it holds."""

    __slots__ = ()

    def content(self) -> dict[Any, Any]:
        return dict(self._kind().items(self.owner))

    def put_back(self) -> None:
        self._kind().clear(self.owner)
        self._kind().update(self.owner, self.before)

    def _assign(self, key: Any, value: Any) -> None:
        self._kind().__setitem__(self.owner, key, value)

    def _kind(self) -> Any:
        return collections.OrderedDict if isinstance(self.owner, collections.OrderedDict) else dict


class NamedHolder(DictHolder):
    """The attributes of an object."""

    __slots__ = ()

    def path_of(self, key: Any) -> str:
        return f"{self.path}.{key}".lstrip(".")


class ParametersHolder(NamedHolder):
    """The parameters or buffers that a module registers."""

    __slots__ = ()

    def changes(self) -> list[str]:
        return []


class BuffersHolder(ParametersHolder):
    __slots__ = ()

    def put_back_written(self, kept: Collection[str]) -> None:
        for name, before in self.before.items():
            is_buffer = isinstance(before, torch.Tensor) and isinstance(self.owner.get(name), torch.Tensor)
            if is_buffer and self.path_of(name) not in kept:
                self.owner[name] = before


class SlotsHolder(ChangingHolder):
    """Attributes that an object keeps outside of ``__dict__``."""

    __slots__ = ("_names",)

    def __init__(self, owner: Any, names: tuple[str, ...]) -> None:
        self._names = names
        super().__init__(owner)

    path_of = NamedHolder.path_of

    def content(self) -> dict[Any, Any]:
        return {name: getattr(self.owner, name) for name in self._names if hasattr(self.owner, name)}

    def _assign(self, key: Any, value: Any) -> None:
        object.__setattr__(self.owner, key, value)

    def _remove(self, key: Any) -> None:
        object.__delattr__(self.owner, key)


class ClassHolder(ChangingHolder):
    __slots__ = ()
    path_of = NamedHolder.path_of

    @property
    def path(self) -> str:
        return str(self.owner.__qualname__)

    def content(self) -> dict[Any, Any]:
        return {
            name: value
            for name, value in vars(self.owner).items()
            if (isinstance(value, DATA) or keeps_state(value)) and not name.startswith("__")
        }

    def _assign(self, key: Any, value: Any) -> None:
        setattr(self.owner, key, value)

    def _remove(self, key: Any) -> None:
        delattr(self.owner, key)


class ListHolder(ChangingHolder):
    """A list or a deque."""

    __slots__ = ()

    def only_assigns(self, may_be_assigned: Callable[[torch.Tensor], bool]) -> bool:
        return len(self.owner) == len(self.before) and super().only_assigns(may_be_assigned)

    def assigned(self) -> list[Any]:
        return super().assigned() if len(self.owner) == len(self.before) else []

    def grown(self) -> list[tuple[Any, list[Any]]]:
        has_grown = type(self.owner) is list and len(self.owner) > len(self.before)
        return [(self.key, list(self.before.values()))] if has_grown else []

    def put_back(self) -> None:
        self.owner.clear()
        self.owner.extend(self.before.values())


class SetHolder(ChangingHolder):
    __slots__ = ()

    def content(self) -> dict[Any, Any]:
        return {value: value for value in self.owner}

    def assigned(self) -> list[Any]:
        return []

    def put(self, key: Any, value: Any) -> bool:
        return False

    def put_back(self) -> None:
        self.owner.clear()
        self.owner.update(self.before)


class EnvironmentHolder(ChangingHolder):
    """The environment variables."""

    __slots__ = ()

    @property
    def path(self) -> str:
        return "os.environ"

    def content(self) -> dict[Any, Any]:
        return dict(self.owner)


class GeneratorHolder(StateHolder):
    """The state of a generator of random numbers, of Python or of NumPy."""

    __slots__ = ()

    def put_back(self) -> None:
        state = pickle.loads(self._state)
        if isinstance(self.owner, numpy.random.Generator):
            self.owner.bit_generator.state = state
        else:
            self.owner.__setstate__(state)

    def _read(self) -> bytes:
        is_new = isinstance(self.owner, numpy.random.Generator)
        return pickle.dumps(self.owner.bit_generator.state if is_new else self.owner.__getstate__())


class ArrayHolder(StateHolder):
    """The elements of an array of numbers, of NumPy or of Python. Those of a large one are not put back."""

    __slots__ = ()

    def put_back(self) -> None:
        if not isinstance(self._state, bytes):
            return
        if isinstance(self.owner, numpy.ndarray):
            self.owner[...] = numpy.frombuffer(self._state, self.owner.dtype).reshape(self.owner.shape)
        elif isinstance(self.owner, bytearray):
            self.owner[:] = self._state
        else:
            del self.owner[:]
            self.owner.frombytes(self._state)

    def _read(self) -> bytes | int:
        if isinstance(self.owner, numpy.ndarray):
            if self.owner.dtype.hasobject:
                return 0
            content = numpy.ascontiguousarray(self.owner).reshape(-1).view(numpy.uint8).data
        else:
            content = memoryview(self.owner)
        return content.tobytes() if content.nbytes <= _MOST_BYTES else zlib.crc32(content)


class ContextVarHolder(ChangingHolder):
    """The value of a context variable."""

    __slots__ = ()

    def path_of(self, key: Any) -> str:
        return self.path

    def content(self) -> dict[Any, Any]:
        try:
            return {"": self.owner.get()}
        except LookupError:
            return {}

    def put_back(self) -> None:
        if self.before:  # nothing unsets a variable; a capture runs in a context of its own
            self._assign("", self.before[""])

    def _assign(self, key: Any, value: Any) -> None:
        self.owner.set(value)


class TensorHolder(Holder):
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

    def put_back_written(self, kept: Collection[str]) -> None:
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


def _consists_of(is_part: Callable[[torch.Tensor], bool], value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_consists_of(is_part, each) for each in value)
    return isinstance(value, torch.Tensor) and is_part(value)


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
