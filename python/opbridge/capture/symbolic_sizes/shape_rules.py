"""Shape rules for symbolic sizes that torch lacks or has wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.operators import aten_overload
from opbridge.capture.patching import patch, patch_items
from opbridge.torch_compat import decomposition_table
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.kernels import replace_shape_rule
from opbridge.torch_compat.symbols import has_shape_rule, scoped_library

_TOO_HARD = 2  # the answer of torch._debug_has_internal_overlap if it does not know


def _of_first(first: torch.Tensor, second: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    shape: Any = torch.broadcast_shapes(first.shape, second.shape)  # type: ignore[no-untyped-call]
    return first.new_empty(shape)


# Operators that have only CPU kernels.
_like: Any = torch.empty_like
_RULES: dict[str, Callable[..., Any]] = {
    "fake_quantize_per_tensor_affine_cachemask": lambda x, *_: (_like(x), _like(x, dtype=torch.bool)),
    "fake_quantize_per_channel_affine_cachemask": lambda x, *_: (_like(x), _like(x, dtype=torch.bool)),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": lambda x, *_: (_like(x), _like(x, dtype=torch.bool)),
    "_fake_quantize_learnable_per_tensor_affine": lambda x, *_: _like(x),
    "_fake_quantize_learnable_per_channel_affine": lambda x, *_: _like(x),
    "glu_jvp": lambda x, *_: _like(x),
    "glu_backward_jvp": lambda x, *_: _like(x),
    "multilabel_margin_loss_backward": lambda gradient, x, *_: x.new_empty(x.shape),
    "binomial": _of_first,
    "_aminmax": lambda x: (x.new_empty(()), x.new_empty(())),
    "geqrf": lambda x: (_like(x), x.new_empty((*x.shape[:-2], torch.sym_min(*x.shape[-2:])))),
    "histogram.bin_ct": lambda x, bins=100, **_: (x.new_empty(bins), x.new_empty(bins + 1)),
    "histogram.bins_tensor": lambda x, bins, **_: (x.new_empty(bins.shape[0] - 1), _like(bins)),
    # torch decomposes it in C++, where a slice ends at the given index, also beyond the axis.
    "slice_copy.Tensor": lambda *args: _like(torch.ops.aten.slice(*args)),
    "_histogramdd_bin_edges": lambda x, bins, **_: [x.new_empty(count + 1) for count in bins],
    "_histogramdd_from_bin_cts": lambda x, bins, **_: x.new_empty(bins),
    "_histogramdd_from_bin_tensors": lambda x, bins, **_: x.new_empty([edges.shape[0] - 1 for edges in bins]),
}


def _fractional_pool_3d(
    x: torch.Tensor, _: Any, made: Sequence[int], *samples: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = (*x.shape[:-3], *made)
    return x.new_empty(sizes), x.new_empty(sizes, dtype=torch.int64)


def _of_each(tensors: Sequence[torch.Tensor], *_: Any) -> list[torch.Tensor]:
    return [_like(tensor) for tensor in tensors]


# Operators whose rules in torch read the sizes, want the factors on the CPU, where nothing is in a capture, or promote
# element types that eager mode does not.
_INSTEAD: dict[str, Callable[..., Any]] = {
    "fractional_max_pool3d": _fractional_pool_3d,
    "normal.Tensor_Tensor": _of_first,
    "_foreach_addcdiv.Tensor": _of_each,
    "_foreach_addcmul.Tensor": _of_each,
    "_foreach_addcdiv_.Tensor": lambda *_: None,
    "_foreach_addcmul_.Tensor": lambda *_: None,
}


@contextlib.contextmanager
def add_missing_shapes() -> Iterator[None]:
    """Adds the rules that torch lacks or has wrong, for all threads: they are right for any call."""
    with contextlib.ExitStack() as until_the_end:
        library = until_the_end.enter_context(scoped_library("aten", "FRAGMENT"))
        for name, rule in _INSTEAD.items():
            until_the_end.enter_context(replace_shape_rule(library, aten_overload(name), rule))
        for name, rule in _RULES.items():
            if has_shape_rule(aten_overload(name)):
                continue
            with contextlib.suppress(RuntimeError):  # another library has added it
                torch.library.register_fake(f"aten::{name}", rule, lib=library)
        yield


def leave_overlap_open() -> contextlib.AbstractContextManager[None]:
    """Makes torch's answer "unknown" to the question whether elements of a tensor of dynamic sizes share memory. torch
    would compare sizes to 1 and assume the result for all sizes. Writes to shared memory are refused later."""
    original = points.OVERLAP.original

    def overlap(tensor: torch.Tensor) -> int:
        is_static = all(isinstance(number, int) for number in (*tensor.shape, *tensor.stride()))
        return original(tensor) if is_static else _TOO_HARD

    return patch(points.OVERLAP, overlap)


def patch_shapes_of_unique() -> contextlib.AbstractContextManager[None]:
    """Corrects torch's own shapes of ``unique_consecutive`` along a dim that is counted from the last."""
    original = points.UNIQUE_SHAPES.original

    def shapes(mode: Any, operator: Any, tensor: Any, dim: int | None, *args: Any, **kwargs: Any) -> Any:
        if dim is not None and dim < 0:
            dim += max(tensor.dim(), 1)
        return original(mode, operator, tensor, dim, *args, **kwargs)

    return patch(points.UNIQUE_SHAPES, shapes)


def keep_sizes_beside_complex() -> contextlib.AbstractContextManager[None]:
    """Keeps symbolic a size that is combined with complex tensors, or by which their mean is divided: torch's rules
    convert it with ``complex()``, which makes it the number of the example."""
    original = points.NUMBER_OF_TYPE.original

    def converted(value: Any, dtype: torch.dtype) -> Any:
        is_symbol = isinstance(value, (torch.SymInt, torch.SymFloat))
        return torch.sym_float(value) if is_symbol and dtype.is_complex else original(value, dtype)

    return patch(points.NUMBER_OF_TYPE, converted)


def patch_shapes_of_unbind() -> contextlib.AbstractContextManager[None]:
    """Corrects torch's own shapes of ``unbind`` along a size like ``Min(3, n)``: torch splits the tensor into as many
    pieces as in the example, but keeps their axis since it cannot prove that its size is 1. If there are none, torch
    only asks whether the size is 0, and nothing would tell that the number of pieces is the example's."""
    operator = torch.ops.aten.unbind.int
    original = decomposition_table[operator]

    def shapes(tensor: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, ...]:
        size: Any = tensor.shape[dim] if tensor.dim() else 1
        if isinstance(size, torch.SymInt) and size.node.hint == 0:
            size.node.guard_int("", 0)
        pieces = original(tensor, dim)
        if not pieces or pieces[0].dim() < tensor.dim():
            return tuple(pieces)
        return tuple(tensor.select(dim, i) for i in range(len(pieces)))

    return patch_items(decomposition_table, {operator: shapes})


def patch_element_type_of_normal() -> contextlib.AbstractContextManager[None]:
    """Corrects the element type of ``normal(mean, std)`` where torch prefers its decomposition to the rule."""
    return patch_items(decomposition_table, {torch.ops.aten.normal.Tensor_Tensor: _of_first})
