"""Buffers that a model assigns anew: in the captured program, buffers that are written in place."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import buffers_of, parameters_of, pytree, storage_id


class Registered:
    """The parameters and buffers of a model, as they are when a run begins: fake ones, while torch.export runs it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._before: list[tuple[str, Any, dict[str, Any], bool]] = []
        for path, module in model.named_modules():
            for tensors in (parameters_of(module), buffers_of(module)):
                if tensors and isinstance(tensors, dict):  # that of TorchScript is none
                    self._before.append((path and f"{path}.", tensors, dict(tensors), tensors is buffers_of(module)))

    def write_back(self, returned: Any) -> tuple[Any, list[str]]:
        """Copies to each buffer what has been assigned in its place, by operators, which a capture sees.

        Returns ``returned`` with copies of what shares memory with these buffers, and the names of parameters and
        buffers for which this is not the way: these are left."""
        assigned, others = [], []
        for path, tensors, before, are_buffers in self._before:
            for name in {**before, **tensors}:
                old, new = before.get(name), tensors.get(name)
                if not are_buffers and old is not None and old.grad is not None:  # there was none when the run began
                    others.append(f"{path}{name}.grad")
                if old is new or (old is not None and new is not None and _is_same(old, new)):
                    continue
                if not are_buffers or old is None or new is None:
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
            return value.clone() if any(_memory_of(alias) == _memory_of(old) for old in olds) else value

        returned = pytree.tree_map(apart, returned)
        values = [apart(new) for _, _, _, new in assigned]
        for (tensors, name, old, _), value in zip(assigned, values, strict=True):
            old.copy_(value)
            tensors[name] = old
        return returned, others


def _check(name: str, old: torch.Tensor, new: torch.Tensor) -> None:
    same = all(isinstance(size, int) and size == other for size, other in zip(new.shape, old.shape, strict=False))
    if not same or new.dim() != old.dim() or new.dtype != old.dtype:
        raise UnsupportedError(
            f"the model assigns to its buffer '{name}', of {old.dtype} and shape {list(old.shape)}, a tensor of "
            f"{new.dtype} and shape {list(new.shape)}; make it an input and an output of the model"
        )


def _is_same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether both are the same elements of one memory."""
    a, b = _alias(a), _alias(b)
    if _memory_of(a) != _memory_of(b) or a.layout is not torch.strided:
        return False
    return (a.storage_offset(), a.shape, a.stride(), a.dtype) == (b.storage_offset(), b.shape, b.stride(), b.dtype)


def _alias(tensor: torch.Tensor) -> torch.Tensor:
    """Where the run is on fake tensors, this is one too, whose memory is compared while it lives."""
    return tensor.detach()


def _memory_of(alias: torch.Tensor) -> int:
    return id(alias) if alias.layout is not torch.strided else storage_id(alias)
