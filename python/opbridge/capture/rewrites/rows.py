"""``torch.unbind`` along a dynamic axis before ``torch.autograd.grad``, as in ``grad(torch.unbind(outputs), inputs)``,
which is the gradient by all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.torch_compat import pytree


class _Rows(Sequence[torch.Tensor]):
    """The rows of a tensor. Whatever else asks for them makes the size a number, as torch.unbind itself does."""

    def __init__(self, tensor: torch.Tensor, dim: int) -> None:
        self.tensor = tensor
        self._dim = dim
        self._rows: tuple[torch.Tensor, ...] | None = None

    def rows(self) -> tuple[torch.Tensor, ...]:
        if self._rows is None:
            self._rows = torch.Tensor.unbind(self.tensor, self._dim)
        return self._rows

    def __len__(self) -> int:
        return len(self.rows())

    def __getitem__(self, index: Any) -> Any:
        return self.rows()[index]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.rows())

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func is torch.autograd.grad:
            outputs, *others = args
            rows = outputs if isinstance(outputs, cls) else outputs[0]
            if rows.tensor.dim() == 1 and given.get("grad_outputs") is None and not others[1:]:
                given["grad_outputs"] = torch.ones_like(rows.tensor)
                return func(rows.tensor, *others, **given)
            args = (rows.rows(), *others)
        return func(*pytree.tree_map_only(cls, cls.rows, args), **pytree.tree_map_only(cls, cls.rows, given))


def unbind(input: torch.Tensor, dim: int = 0) -> Sequence[torch.Tensor]:
    is_dynamic = input.dim() > 0 and isinstance(input.shape[dim], torch.SymInt)
    return _Rows(input, dim) if is_dynamic and input.requires_grad else torch.unbind(input, dim)
