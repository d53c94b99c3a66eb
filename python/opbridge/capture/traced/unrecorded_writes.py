"""Finds memory that is written without an operator, as by a C++ extension that fills a tensor through its pointer."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from opbridge.capture.operators import Operator
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import is_fake, storage_id, version_of

_EMPTY = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_FACTORIES = _EMPTY | {
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like", "new_full")
}
# Draw numbers for a tensor of the same shape.
_DRAWN = frozenset(
    f"aten::{name}"
    for name in (
        *("uniform", "normal_functional", "exponential", "geometric", "cauchy", "log_normal"),
        *("bernoulli.p", "random", "random.from", "random.to"),
    )
)


class FreshTensors:
    """The new tensors of a real run to which no operator has written yet."""

    def __init__(self) -> None:
        # id of a tensor → the tensor, its version, and the value of all its elements; None if they are uninitialized.
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], int, torch.Tensor | None]] = {}

    def before(self, operator: Operator, is_view: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Refuses to read a tensor that was changed without an operator. Returns the entry of a view's base."""
        if not self._known:
            return None
        arguments = [*zip(operator.names, args, strict=False), *kwargs.items()]
        if is_view:  # of its first argument: expand_as and similar ones take only the shape of the other
            return self._entry(arguments[0][1])
        if operator.stem.endswith("_like") or operator.stem in _FACTORIES or operator.key in _DRAWN:
            return None  # reads the shape alone
        for name, argument in arguments:
            for tensor in argument if isinstance(argument, (list, tuple)) else (argument,):
                if not isinstance(tensor, torch.Tensor):
                    continue
                if name in operator.written:
                    self._forget_memory_of(tensor)
                else:
                    self.check(tensor)
        return None

    def after(self, operator: Operator, value: Any, viewed: Any) -> None:
        if viewed is not None:
            for view in value if isinstance(value, (list, tuple)) else (value,):
                self._known[id(view)] = (weakref.ref(view), version_of(view), viewed[2])
        elif operator.stem in _FACTORIES and not is_fake(value) and value.numel() and not value.is_inference():
            content = None if operator.stem in _EMPTY else value.flatten()[0].clone()
            self._known[id(value)] = (weakref.ref(value), version_of(value), content)

    def _forget_memory_of(self, tensor: torch.Tensor) -> None:
        """Forgets the tensors whose memory an operator writes through x.data, which has its own version counter."""
        if tensor.layout is not torch.strided:
            return
        storage = storage_id(tensor)
        shared = [key for key, (ref, *_) in self._known.items() if (t := ref()) is None or storage_id(t) == storage]
        for key in shared:
            del self._known[key]

    def _entry(self, tensor: torch.Tensor) -> Any:
        entry = self._known.get(id(tensor))
        if entry is None:
            return None
        if entry[0]() is tensor and entry[1] == version_of(tensor):
            return entry
        del self._known[id(tensor)]
        return None

    def check(self, tensor: torch.Tensor) -> None:
        entry = self._entry(tensor)
        if entry is not None and (entry[2] is None or not torch.equal(*_comparable(tensor, entry[2]))):
            raise UnsupportedError(
                "a tensor is filled by code that is not an operator, such as a C++ extension that writes through "
                "a pointer; call it in the forward of a torch.autograd.Function that has `symbolic`, or "
                "register it as an operator (torch.library)"
            )


def _comparable(tensor: torch.Tensor, content: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The tensor, and one that is filled with ``content``; if ``content`` is NaN, their masks of NaN instead."""
    filled = content.expand(tensor.shape)
    return (tensor.isnan(), filled.isnan()) if bool(content.isnan()) else (tensor, filled)
