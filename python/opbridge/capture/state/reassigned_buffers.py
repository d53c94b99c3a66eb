"""Buffers that a model reassigns; the captured program writes them in place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import torch

from opbridge.capture.structures import leaves_of
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import buffers_not_stored, buffers_of, parameters_of, pytree, storage_id

_are_outputs: ContextVar[bool] = ContextVar("_are_outputs", default=True)


@contextlib.contextmanager
def buffers_as_outputs(are_outputs: bool) -> Iterator[None]:
    """Whether the content of all buffers that captures meet is an output. Otherwise, those that are not stored are what
    other attributes are: a model may assign them if it does not compute with them in its next call."""
    token = _are_outputs.set(are_outputs)
    try:
        yield
    finally:
        _are_outputs.reset(token)


class Registered:
    """The parameters and buffers of a model when a run begins; fake tensors while torch.export runs it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._before: list[tuple[str, Any, dict[str, Any], set[str] | None]] = []
        for path, module in model.named_modules():
            for tensors in (parameters_of(module), buffers_of(module)):
                if tensors and isinstance(tensors, dict):  # TorchScript's are not dicts
                    kept = buffers_not_stored(module) if tensors is buffers_of(module) else None
                    self._before.append((path and f"{path}.", tensors, dict(tensors), kept))

    def write_back(
        self, returned: Any, is_perhaps_shared: Callable[[torch.Tensor], bool] = lambda _: False
    ) -> tuple[Any, list[str]]:
        """Copies the tensor that was assigned to each buffer into the original one, with operators that a capture sees.

        Returns ``returned`` with copies of the tensors that share memory with these buffers, or of which
        ``is_perhaps_shared`` is true, and the names of changed parameters and buffers for which this is impossible;
        they keep their change."""
        leaves_of(returned)  # makes its dataclasses known to torch
        assigned, others = [], []
        for path, tensors, before, not_stored in self._before:
            for name in {**before, **tensors}:
                old, new = before.get(name), tensors.get(name)
                if not_stored is None and old is not None and old.grad is not None:  # it was None when the run began
                    others.append(f"{path}{name}.grad")
                if old is new or (old is not None and new is not None and _is_same(old, new)):
                    continue
                if (
                    not_stored is None
                    or old is None
                    or new is None
                    or (name in not_stored and not (_are_outputs.get() and _is_like(old, new)))
                ):
                    others.append(path + name)
                    continue
                _check(path + name, old, new)
                assigned.append((tensors, name, old, new))
        if not assigned:
            return returned, others
        olds = [_alias(old) for _, _, old, _ in assigned]

        def apart(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            alias = _alias(value)
            is_shared = is_perhaps_shared(value) or any(_memory_of(alias) == _memory_of(old) for old in olds)
            return value.clone() if is_shared else value

        returned = pytree.tree_map(apart, returned)
        values = [apart(new) for _, _, _, new in assigned]
        for (tensors, name, old, _), value in zip(assigned, values, strict=True):
            old.copy_(value)
            tensors[name] = old
        return returned, others


def _is_like(old: torch.Tensor, new: torch.Tensor) -> bool:
    same = all(isinstance(size, int) and size == other for size, other in zip(new.shape, old.shape, strict=False))
    return same and new.dim() == old.dim() and new.dtype == old.dtype


def _check(name: str, old: torch.Tensor, new: torch.Tensor) -> None:
    if not _is_like(old, new):
        raise UnsupportedError(
            f"the model assigns to its buffer '{name}', of {old.dtype} and shape {list(old.shape)}, a tensor of "
            f"{new.dtype} and shape {list(new.shape)}; make it an input and an output of the model"
        )


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both show the same elements of the same memory."""
    a, b = _alias(a), _alias(b)
    if _memory_of(a) != _memory_of(b) or a.layout is not torch.strided:
        return False
    return (a.storage_offset(), a.shape, a.stride(), a.dtype) == (b.storage_offset(), b.shape, b.stride(), b.dtype)


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without autograd; a fake tensor if the run is on fake tensors. Keep it alive while comparing."""
    return tensor.detach()


def _memory_of(alias: torch.Tensor) -> int:
    return id(alias) if alias.layout is not torch.strided else storage_id(alias)
