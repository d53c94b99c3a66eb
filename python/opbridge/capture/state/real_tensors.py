"""Writes to real tensors in a capture on fake tensors.

What a model holds, or finds in a global variable, is real, and a fake tensor stands for it where operators compute. The
writes of the run reach that one alone, but torch computes products, conversions and the like with the real tensors if
they have no other arguments, and takes the results for known; what ``tolist`` and ``numpy`` read is real too.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy
import torch

from opbridge.capture.operators import operator_of
from opbridge.capture.patching import patch
from opbridge.capture.source import line_of_frame
from opbridge.capture.state.attributes import Attributes
from opbridge.capture.state.overwritten_tensors import written_tensors
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload, has_memory, is_fake, storage_id, unset_fake_temporarily, version_of
from opbridge.torch_compat.fake_tensors import DISPATCH_ON_FAKES, fake_of, mode_of_fakes, value_of

_LIFTS = {"lift_fresh", "lift_fresh_copy"}  # what torch calls for the real tensors that it makes
_PLAIN = (torch.Tensor, torch.nn.Parameter)

WRITES_TO_ARRAY = (
    "the model writes to memory that a tensor and its NumPy array, as that of numpy(), share; an exported model has no "
    "arrays: write to the tensor, or to a copy of the array"
)

# The arrays that the model has made of real tensors, whose memory they share.
_arrays: ContextVar[Sequence[weakref.ref[Any]]] = ContextVar("_arrays", default=())
_runs: ContextVar[weakref.WeakKeyDictionary[Any, _Run] | None] = ContextVar("_runs", default=None)


class _Run:
    """The real tensors that a run on the fake tensors of one mode has met."""

    def __init__(self, mode: Any, held: list[torch.Tensor]) -> None:
        self._mode = weakref.ref(mode)
        self._versions = {id(tensor): version_of(tensor) for tensor in held}
        # The real tensors and those that stand for them, of which torch would make new ones if they were not held.
        self._met: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._held = {tensor.data_ptr() for tensor in held}
        # Fake tensors with the memory of a real one or of an array, and the latter.
        self._aliases: dict[int, tuple[torch.Tensor, Callable[[], Any]]] = {}

    def fake_of(self, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in self._met:
            self._met[id(tensor)] = tensor, fake_of(self._mode(), tensor)
            self._versions.setdefault(id(tensor), version_of(tensor))
        return self._met[id(tensor)][1]

    def shares_memory(self, tensor: torch.Tensor) -> bool:
        """Whether the real tensor has the memory of an array or of another tensor."""
        return tensor.data_ptr() in self._held or shares_array(tensor)

    def alias(self, fake: torch.Tensor) -> torch.Tensor:
        """Notes that torch has made ``fake`` of the memory of another tensor or of an array."""
        self._aliases[storage_id(fake)] = fake, lambda: True
        return fake

    def share(self, fake: torch.Tensor, array: Any) -> None:
        """Notes that the model has made ``array`` of ``fake``."""
        self._aliases.setdefault(storage_id(fake), (fake, weakref.ref(array)))

    def refuse_write_to_alias(self, tensor: torch.Tensor) -> None:
        if self._aliases and has_memory(tensor):
            _, shared = self._aliases.get(storage_id(tensor), (None, lambda: None))
            if shared() is not None:
                raise UnsupportedError(WRITES_TO_ARRAY, line_of_frame(sys._getframe(1)))

    def is_written(self, tensor: torch.Tensor) -> bool:
        """Whether the run has written to the memory of the tensor, or of a fake tensor that shares it."""
        return self._versions.get(id(tensor), version_of(tensor)) != version_of(tensor)


@contextlib.contextmanager
def compute_with_written(model: torch.nn.Module) -> Iterator[None]:
    """Makes operators compute with the fake tensor in place of a real one that the run has written to, or writes to."""
    original = DISPATCH_ON_FAKES.original
    runs: weakref.WeakKeyDictionary[Any, _Run] = weakref.WeakKeyDictionary()
    held = [
        tensor
        for tensor in itertools.chain(model.parameters(), model.buffers(), Attributes(model).tensors)
        if _is_real(tensor)
    ]

    def dispatch(mode: Any, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not isinstance(function, OpOverload):
            return original(mode, function, types, args, kwargs)
        run = runs.get(mode)
        if run is None:
            run = runs[mode] = _Run(mode, held)
        writes = bool(operator_of(function).written)

        if writes:
            for tensor in written_tensors(operator_of(function), args, kwargs or {}):
                run.refuse_write_to_alias(tensor)
                refuse_write_to_array(tensor)
        if operator_of(function).stem in _LIFTS and _is_real(args[0]) and run.shares_memory(args[0]):
            return run.alias(original(mode, function, types, args, kwargs))

        def current(given: Any) -> Any:
            if isinstance(given, (list, tuple)):
                return type(given)(map(current, given))
            if not _is_real(given):
                return given
            fake = run.fake_of(given)
            return fake if writes or run.is_written(given) else given

        args = tuple(map(current, args))
        kwargs = {name: current(given) for name, given in kwargs.items()} if kwargs else {}
        return original(mode, function, types, args, kwargs)

    token = _runs.set(runs)
    try:
        with patch(DISPATCH_ON_FAKES, dispatch):
            yield
    finally:
        _runs.reset(token)


def is_written_in_run(tensor: torch.Tensor) -> bool:
    """Whether ``tensor`` is real, and the run on fake tensors has written to it."""
    run = _run()
    return run is not None and _is_real(tensor) and run.is_written(tensor)


def memory_of(tensor: torch.Tensor) -> int:
    """``storage_id``; for a real tensor that of the fake one which stands for it in a run on fake tensors."""
    run = _run()
    return storage_id(tensor if run is None or not _is_real(tensor) else run.fake_of(tensor))


def _stand_in(tensor: torch.Tensor) -> torch.Tensor | None:
    """The fake tensor that has the values which the model reads of the tensor; None if these are the tensor's own."""
    if is_fake(tensor):
        return tensor
    run = _run()
    return run.fake_of(tensor) if run is not None and is_written_in_run(tensor) else None


def _run() -> _Run | None:
    runs, mode = _runs.get(), mode_of_fakes()
    return runs.get(mode) if runs is not None and mode is not None else None


def _reading(name: str) -> Callable[..., Any]:
    def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Reads what the capture knows of the tensor, not with the mode of fake tensors, in which torch would make an
        array of memory without values. Of a real one that the run has written to, that is what the fake one knows.
        The program knows nothing of arrays, so the model must not write to one."""
        stand_in = _stand_in(tensor)
        known = tensor if stand_in is None else value_of(stand_in)
        if known is None:
            return getattr(tensor if is_fake(tensor) else tensor.clone(), name)(*args, **kwargs)
        with unset_fake_temporarily():
            values = getattr(known, name)(*args, **kwargs)
        if isinstance(values, numpy.ndarray):
            values.flags.writeable = False
            _arrays.set([*(each for each in _arrays.get() if each() is not None), weakref.ref(values)])
            if stand_in is not None and (run := _run()) is not None:
                run.share(stand_in, values)
        return values

    return read


def refuse_write_to_array(tensor: torch.Tensor) -> None:
    """Refuses a write to a real tensor that shares memory with an array, as one that torch.from_numpy makes."""
    if _is_real(tensor) and shares_array(tensor):
        raise UnsupportedError(WRITES_TO_ARRAY, line_of_frame(sys._getframe(1)))


def shares_array(tensor: torch.Tensor) -> bool:
    """Whether an array that the model has made of a real tensor has the memory of this one."""
    address = tensor.data_ptr() if _arrays.get() else 0
    arrays = (each() for each in _arrays.get())
    return any(each is not None and each.ctypes.data <= address < each.ctypes.data + each.nbytes for each in arrays)


# What reads the elements of a real tensor without an operator → what to call instead.
READS: dict[Any, Callable[..., Any]] = {
    getattr(torch.Tensor, name): _reading(name) for name in ("numpy", "__array__", "tolist")
}


def _is_real(given: Any) -> bool:
    return type(given) in _PLAIN and not is_fake(given) and has_memory(given) and not given.is_inference()
