"""Objects of Python's own classes that keep state, other than containers, and what stands for them during a run."""

from __future__ import annotations

import contextvars
import functools
import itertools
import random
import types
from collections.abc import Iterator
from typing import Any

import numpy
import torch

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import is_fake


class Replayed:
    """Returns what an iterator returns, from any position on again."""

    __slots__ = ("_name", "_returned", "_source", "position")

    def __init__(self, source: Iterator[Any], name: str) -> None:
        self._source = source
        self._name = name
        self._returned: list[Any] = []
        self.position = 0

    def __iter__(self) -> Replayed:
        return self

    def __next__(self) -> Any:
        if self.position == len(self._returned):
            value = next(self._source)
            if isinstance(value, torch.Tensor) and is_fake(value):
                raise UnsupportedError(
                    f"'{self._name}' makes a tensor while the model is exported, which the model would keep; make its "
                    "tensors before, or make the tensor an input of the model"
                )
            self._returned.append(value)
        self.position += 1
        return self._returned[self.position - 1]

    def from_first(self) -> Iterator[Any]:
        """The iterator itself, or one that returns the same."""
        return itertools.chain(self._returned, self._source) if self._returned else self._source


def keeps_state(value: Any) -> bool:
    owner = value.__self__ if type(value) is types.MethodType else value
    return isinstance(owner, (contextvars.ContextVar, Replayed)) or is_iterator(value) or is_generator(owner)


def is_generator(value: Any) -> bool:
    """Whether the value is a generator of random numbers of the model's own, not that of ``random`` or of NumPy."""
    if not isinstance(value, (random.Random, numpy.random.Generator, numpy.random.RandomState)):
        return False
    if isinstance(value, random.SystemRandom):  # has no state
        return False
    shared = (getattr(random.random, "__self__", None), getattr(numpy.random.rand, "__self__", None))
    return not any(value is each for each in shared)


def is_iterator(value: Any) -> bool:
    """Whether the value is an iterator of Python's own, such as a generator, or the method ``__next__`` of one."""
    kind: type = type(iterator_of(value))
    return _is_kind_of_iterator(kind)


def iterator_of(value: Any) -> Any:
    """The iterator whose method ``__next__`` the value is; otherwise the value."""
    is_next = type(value) is types.MethodWrapperType and value.__name__ == "__next__"
    return value.__self__ if is_next else value


@functools.lru_cache(maxsize=8192)
def _is_kind_of_iterator(kind: type) -> bool:
    return kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__")
