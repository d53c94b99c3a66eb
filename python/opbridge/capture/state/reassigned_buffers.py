"""Buffers that a model reassigns; the captured program writes them in place."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.capture.structures import leaves_of
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import buffers_of, parameters_of, pytree, storage_id


class Registered:
    """The parameters and buffers of a model when a run begins; fake tensors while torch.export runs it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._before: list[tuple[str, Any, dict[str, Any], bool]] = []
        for path, module in model.named_modules():
            for tensors in (parameters_of(module), buffers_of(module)):
                if tensors and isinstance(tensors, dict):  # TorchScript's are not dicts
                    self._before.append((path and f"{path}.", tensors, dict(tensors), tensors is buffers_of(module)))

    def write_back(self, returned: Any) -> tuple[Any, list[str]]:
        """Copies the tensor that was assigned to each buffer into the original one, with operators that a capture sees.

        Returns ``returned`` with copies of the tensors that share memory with these buffers, and the names of changed
        parameters and buffers for which this is impossible; they keep their change."""
        leaves_of(returned)  # makes its dataclasses known to torch
        assigned, others = [], []
        for path, tensors, before, are_buffers in self._before:
            for name in {**before, **tensors}:
                old, new = before.get(name), tensors.get(name)
                if not are_buffers and old is not None and old.grad is not None:  # it was None when the run began
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
