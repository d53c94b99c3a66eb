"""What torch computes with derivatives of 0. Its own kernels determine sizes and element types by tensors on the meta
device: they make symbolic sizes numbers, and tensors of a capture such on the meta device."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.operators import aten_overload
from opbridge.torch_compat import OpOverload, pytree
from opbridge.torch_compat.kernels import replace_kernel
from opbridge.torch_compat.symbols import scoped_library
from opbridge.torch_compat.zero_tensors import KEY, in_memory, is_zero_tensor, zero_tensor

Size = int | torch.SymInt


@contextlib.contextmanager
def keep_zero_derivatives_fake() -> Iterator[None]:
    """Replaces the kernels, for all threads: they are right for any call."""
    with scoped_library("aten", "IMPL") as library:
        for name, kernel in _KERNELS.items():
            replace_kernel(library, aten_overload(name.removeprefix("aten::")), kernel, KEY)
        for name in _ON_MEMORY:
            replace_kernel(library, aten_overload(name), _on_memory(aten_overload(name)), KEY)
        yield


def _zeros_like(like: torch.Tensor, sizes: Sequence[Size], *_: Any) -> torch.Tensor:
    return zero_tensor(sizes, dtype=like.dtype, device=like.device)


def _view(zeros: torch.Tensor, sizes: Sequence[Size]) -> torch.Tensor:
    known = math.prod(size for size in sizes if size != -1)
    return _zeros_like(zeros, [zeros.numel() // known if size == -1 else size for size in sizes])


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> tuple[Sequence[Size], dict[str, Any]]:
    shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    owner = b if a.dim() == 0 < b.dim() else a
    return shape, {"dtype": _result_type(a, b), "device": owner.device}


def _result_type(a: torch.Tensor, b: torch.Tensor) -> torch.dtype:
    """``torch.result_type``, which makes symbolic sizes numbers."""
    if a.dim() == b.dim() == 0:
        return torch.result_type(a, b)
    promoted = torch.promote_types(a.dtype, b.dtype)
    if a.dim() > 0 and b.dim() > 0:
        return promoted
    with_axes = (a if a.dim() > 0 else b).dtype
    return with_axes if _kind(with_axes) == _kind(promoted) else promoted


def _kind(dtype: torch.dtype) -> tuple[bool, bool]:
    return dtype.is_complex, dtype.is_floating_point


def _product(a: torch.Tensor, b: torch.Tensor, **_: Any) -> torch.Tensor:
    shape, options = _broadcast(a, b)
    return zero_tensor(shape, **options)


def _quotient(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if not is_zero_tensor(b):
        return _product(a, b)
    return (torch.zeros_like(a) if is_zero_tensor(a) else a) / torch.zeros_like(b)


def _sum(sign: int) -> Callable[..., torch.Tensor]:
    def call(a: torch.Tensor, b: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
        shape, options = _broadcast(a, b)
        if not is_zero_tensor(a):
            return a.expand(shape).to(**options, copy=True)
        if is_zero_tensor(b):
            return zero_tensor(shape, **options)
        added = b.expand(shape).to(**options, copy=True)
        return added if sign * alpha == 1 else added * (sign * alpha)

    return call


def _on_memory(operator: OpOverload) -> Callable[..., Any]:
    """The operator on ordinary zeros, as torch computes it where it has no kernel for zeros without memory."""
    return lambda *args, **kwargs: operator(*pytree.tree_map(in_memory, args), **pytree.tree_map(in_memory, kwargs))


_ON_MEMORY = (
    *("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "convolution", "cat", "stack", "where.self", "copy_"),
    *("clone", "neg", "sum", "sum.dim_IntList", "mean", "mean.dim", "index_select", "index.Tensor", "gather"),
)
_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "aten::add.Tensor": _sum(1),
    "aten::sub.Tensor": _sum(-1),
    "aten::mul.Tensor": _product,
    "aten::linalg_cross": _product,
    "aten::div.Tensor": _quotient,
    "aten::view": _view,
    "aten::_reshape_alias": _zeros_like,
    "aten::as_strided": _zeros_like,
}
