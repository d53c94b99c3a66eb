"""Buffers that a model assigns anew: in the captured program, buffers that are written in place."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge.errors import UnsupportedError


class Registered:
    """The parameters and buffers of a model, as they are when a run begins: fake ones, while torch.export runs it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._before: list[tuple[str, Any, dict[str, Any], bool]] = []
        for path, module in model.named_modules():
            for tensors in (module._parameters, module._buffers):
                if tensors and isinstance(tensors, dict):  # that of TorchScript is none
                    self._before.append((path and f"{path}.", tensors, dict(tensors), tensors is module._buffers))

    def write_back(self, returned: Any) -> tuple[Any, list[str]]:
        """Copies to each buffer what has been assigned in its place, by operators, which a capture sees.

        Returns ``returned`` with copies of what shares memory with these buffers, and the names of parameters and
        buffers for which this is not the way: these are left."""
        assigned, others = [], []
        for path, tensors, before, are_buffers in self._before:
            for name in {**before, **tensors}:
                old, new = before.get(name), tensors.get(name)
                if old is new or (old is not None and new is not None and _place_of(old) == _place_of(new)):
                    continue
                if not are_buffers or old is None or new is None:
                    others.append(path + name)
                    continue
                _check(path + name, old, new)
                assigned.append((tensors, name, old, new))
        if not assigned:
            return returned, others
        memories = {_place_of(old)[0] for _, _, old, _ in assigned}

        def apart(value: Any) -> Any:
            return value.clone() if isinstance(value, torch.Tensor) and _place_of(value)[0] in memories else value

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


def _place_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The memory, and which of its elements the tensor is."""
    if tensor.layout is not torch.strided:
        return id(tensor), 0
    tensor = tensor.detach()  # where the run is on fake tensors, one of these
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype
