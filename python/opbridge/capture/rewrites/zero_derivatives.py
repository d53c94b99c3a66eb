"""What torch computes with derivatives of 0. Its own kernels determine sizes and element types by tensors on the meta
device: they make symbolic sizes numbers, and tensors of a capture such on the meta device. Those that it leaves to the
kernels of other operators would reach a capture after it has taken them for ordinary tensors, and read their memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.operators import aten_overload
from opbridge.capture.rewrites.operator_families import (
    ADAPTIVE_MAX_POOLS,
    LOSSES,
    MAX_POOLS,
    PADS,
    POOLS,
    UPSAMPLES,
    backward,
)
from opbridge.torch_compat import OpOverload, pytree
from opbridge.torch_compat.kernels import replace_kernel
from opbridge.torch_compat.symbols import scoped_library
from opbridge.torch_compat.zero_tensors import KEY, in_memory, is_zero_tensor, zero_tensor

Size = int | torch.SymInt


@contextlib.contextmanager
def compute_with_zero_derivatives() -> Iterator[None]:
    """Replaces the kernels, for all threads: they are right for any call."""
    with scoped_library("aten", "IMPL") as library:
        for name, kernel in _KERNELS.items():
            replace_kernel(library, aten_overload(name), kernel, KEY)
        for name in _ON_MEMORY:
            operator = aten_overload(name)
            replace_kernel(library, operator, _on_memory(operator), KEY)
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


def _product(a: torch.Tensor, b: Any, **_: Any) -> torch.Tensor:
    if not isinstance(b, torch.Tensor):
        return _multiple(a, b)
    shape, options = _broadcast(a, b)
    return zero_tensor(shape, **options)


def _multiple(zeros: torch.Tensor, number: Any) -> torch.Tensor:
    dtype = torch.result_type(torch.empty(1, dtype=zeros.dtype), number)
    return zero_tensor(zeros.shape, dtype=dtype, device=zeros.device)


def _quotient(a: torch.Tensor, b: Any) -> torch.Tensor:
    if not is_zero_tensor(b):
        return _product(a, b)
    return (torch.zeros_like(a) if is_zero_tensor(a) else a) / torch.zeros_like(b)


def _sum(sign: int) -> Callable[..., torch.Tensor]:
    def call(a: torch.Tensor, b: Any, *, alpha: Any = 1) -> torch.Tensor:
        if not isinstance(b, torch.Tensor):
            return in_memory(a) + sign * alpha * b  # type: ignore[no-any-return]
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


_SCATTERS = ("aten::scatter.src", "aten::scatter.value", "aten::scatter_add", "aten::scatter_reduce.two")
_ACTIVATIONS = (
    *(f"aten::{name}" for name in ("elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh")),
    *(f"aten::{name}" for name in ("leaky_relu", "log_sigmoid", "logit", "sigmoid", "softplus")),
    *(f"aten::{name}" for name in ("softshrink", "tanh", "threshold")),
    "aten::_prelu_kernel",
)
_NORMALIZATIONS = ("aten::native_layer_norm", "aten::native_group_norm")
_LOSSES_OF_CLASSES = ("aten::nll_loss", "aten::nll_loss2d")
_ON_MEMORY = (
    *("add.Scalar", "div.Scalar", "mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "addr"),
    *("convolution", "convolution_backward", "aten::_trilinear"),
    *("complex", "aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c"),
    *("cat", "stack", "where.self", "copy_", "clone", "neg", "masked_fill.Scalar", "masked_fill.Tensor", "lerp.Scalar"),
    *("sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "trace", "addcmul", "addcdiv", "lerp.Tensor"),
    *("index_select", "index.Tensor", "aten::_unsafe_index.Tensor", "gather", "take", "masked_select", "embedding"),
    *("index_put", "aten::_unsafe_index_put", "index_add", "index_copy", "index_fill.int_Scalar", "masked_scatter"),
    *("put", "triangular_solve", "linalg_solve_triangular", "aten::_cdist_forward"),
    *("flip", "roll", "rot90", "tril", "triu", "repeat", "diag_embed", "constant_pad_nd"),
    *("select_backward", "slice_backward", "diagonal_backward", "unfold_backward", "embedding_dense_backward"),
    *("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter"),
    *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "im2col", "col2im", "affine_grid_generator"),
    *("max_unpool2d", "max_unpool3d", "aten::_softmax_backward_data", "aten::_log_softmax_backward_data"),
    *(*_SCATTERS, *PADS, *POOLS, *UPSAMPLES),
    *backward(MAX_POOLS, ADAPTIVE_MAX_POOLS, UPSAMPLES, LOSSES, _LOSSES_OF_CLASSES, _ACTIVATIONS, _NORMALIZATIONS),
)
_KERNELS: dict[str, Callable[..., torch.Tensor]] = {
    "aten::add.Tensor": _sum(1),
    "aten::sub.Tensor": _sum(-1),
    "aten::mul.Tensor": _product,
    "aten::mul.Scalar": _multiple,
    "aten::linalg_cross": _product,
    "aten::div.Tensor": _quotient,
    "aten::view": _view,
    "aten::_reshape_alias": _zeros_like,
    "aten::as_strided": _zeros_like,
}
