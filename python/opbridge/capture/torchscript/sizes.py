"""Numbers that torch.jit.trace computes as tensors: ``x.size(0) // 2`` becomes operators of tensors without dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import INTEGERS


class SizeTensor:
    """Stands for a tensor that holds an integer, whose value is a symbol or a number.

    It becomes a tensor when an operator needs one. Once an operator writes to that tensor, the value is unknown."""

    __slots__ = ("_tensor", "value")

    def __init__(self, value: Any, tensor: torch.Tensor | None = None) -> None:
        self.value = value
        self._tensor = tensor

    def tensor(self) -> torch.Tensor:
        if self._tensor is None:
            self._tensor = torch.scalar_tensor(self.value, dtype=torch.int64)
        return self._tensor

    def add_in_place(self, value: Any) -> bool:
        """Sets the new value. Returns False if there already is a tensor; then the caller must write to that."""
        self.value = None if self._tensor is not None else value
        return self._tensor is None


def number_of(value: Any) -> Any:
    """The number of a SizeTensor; any other value itself."""
    if type(value) is SizeTensor:
        return value.tensor() if value.value is None else value.value
    return value


def with_tensors(value: Any) -> Any:
    """The value with real tensors instead of their stand-ins."""
    kind = type(value)
    if kind is SizeTensor:
        return value.tensor()
    if kind is list:
        return [with_tensors(each) for each in value]
    if kind is dict:
        return {key: with_tensors(each) for key, each in value.items()}
    if kind is tuple:
        return tuple(with_tensors(each) for each in value)
    return pytree.tree_map(with_tensors, value) if isinstance(value, tuple) and kind is not torch.Size else value


def _divide(a: Any, b: Any, rounding_mode: Any = None) -> Any:
    return a // b if rounding_mode == "floor" else None


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "aten::add": lambda a, b, alpha=1: a + b * alpha,
    "aten::sub": lambda a, b, alpha=1: a - b * alpha,
    "aten::rsub": lambda a, b, alpha=1: b - a * alpha,
    "aten::mul": lambda a, b: a * b,
    "aten::neg": lambda a: -a,
    "aten::floor_divide": lambda a, b: a // b,
    "aten::remainder": lambda a, b: a % b,
    "aten::div": _divide,
}


def computed(name: str, arguments: Sequence[Any]) -> SizeTensor | None:
    """The result of the operator if it computes an integer from integers alone; otherwise None."""
    if not any(type(argument) is SizeTensor for argument in arguments):
        return None
    in_place = name.endswith("_")
    compute = _ARITHMETIC.get(name.removesuffix("_"))
    if compute is None or (in_place and type(arguments[0]) is not SizeTensor):
        return None
    given = [number_of(argument) for argument in arguments]
    if not all(type(each) in INTEGERS for each in given if not isinstance(each, (str, type(None)))):
        return None
    result = compute(*given)
    if result is None:
        return None
    if not in_place:
        return SizeTensor(result)
    return arguments[0] if arguments[0].add_in_place(result) else None
