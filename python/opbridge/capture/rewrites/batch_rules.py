"""Rules of torch.vmap that keep the size of the batch symbolic. torch's own rules for these operators read it as a
number."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.operators import aten_overload
from opbridge.torch_compat import schema_of
from opbridge.torch_compat.batching import BatchRule, add_batch_rule
from opbridge.torch_compat.symbols import scoped_library

Size = int | torch.SymInt


@contextlib.contextmanager
def keep_batches_symbolic() -> Iterator[None]:
    """Replaces the rules, for all threads: they are right for any call."""
    with scoped_library("aten", "IMPL") as library:
        for name, make in _RULES.items():
            operator = aten_overload(name.removeprefix("aten::"))
            add_batch_rule(library, operator, make(operator))
        yield


def _with_batch(value: Any, axis: Any, size: Size) -> Any:
    """The tensor with the batch as axis 0, in which it is repeated if it has none; the same for a list of tensors. Any
    other value stays as it is."""
    if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
        return [_with_batch(each, axis_of_each, size) for each, axis_of_each in zip(value, axis, strict=True)]
    if not isinstance(value, torch.Tensor):
        return value
    return value.expand(size, *value.shape) if axis is None else value.movedim(axis, 0)


def _are_unbatched(axes: Sequence[Any], besides: Collection[int]) -> bool:
    return not any(isinstance(axis, int) for i, axis in enumerate(axes) if i not in besides)


def _by_sample(*which: int, sizes: int | None = None, unless: Callable[..., bool] | None = None) -> Any:
    """The rule of an operator that computes every sample by itself. The samples are the axis 0 of the arguments
    ``which`` and of all results, and the first item of the argument ``sizes``: those of the whole batch are samples
    like any others. It does not hold for a call whose arguments ``unless`` accepts."""

    def make(operator: Any) -> BatchRule:
        def rule(size: Size, axes: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if not _are_unbatched(axes, which) or (unless is not None and unless(*args, **kwargs)):
                return NotImplemented
            given = list(args)
            for i in which:
                if isinstance(args[i], torch.Tensor):
                    given[i] = _with_batch(args[i], axes[i], size).flatten(0, 1)
            if sizes is not None:
                given[sizes] = [size * args[sizes][0], *args[sizes][1:]]
            return _by_batch(operator(*given, **kwargs), size)

        return rule

    return make


def _by_batch(result: Any, size: Size) -> Any:
    if isinstance(result, (list, tuple)):
        return tuple(_by_batch(each, size) for each in result)
    return torch.unflatten(result, 0, (size, -1)) if isinstance(result, torch.Tensor) and result.dim() > 0 else result


def _along(
    *dims: int, sizes: int | None = None, same: Collection[int] = (), unless: Callable[..., bool] | None = None
) -> Any:
    """The rule of an operator on tensors with the same axes, which the arguments ``dims`` count from the first. The
    tensors ``same`` are the same for the whole batch. The argument ``sizes`` are the sizes of the result."""

    def make(operator: Any) -> BatchRule:
        defaults = [argument.default_value for argument in schema_of(operator).arguments]

        def rule(size: Size, axes: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            everything = [i for i in range(len(args)) if i not in same]
            if not _are_unbatched(axes, everything) or (unless is not None and unless(*args, **kwargs)):
                return NotImplemented
            given = [*args, *defaults[len(args) : max(dims, default=-1) + 1]]
            for i in everything:
                given[i] = _with_batch(args[i], axes[i], size)
            ranks = {tensor.dim() for tensor in _tensors(given[i] for i in everything)}
            if len(ranks) != 1 or 1 in ranks:  # a sample without axes has one all the same
                return NotImplemented
            for dim in dims:
                given[dim] += given[dim] >= 0
            if sizes is not None:
                given[sizes] = [size, *args[sizes]]
            return operator(*given, **kwargs)

        return rule

    return make


def _tensors(args: Any) -> Iterator[torch.Tensor]:
    for arg in args:
        for each in arg if isinstance(arg, (list, tuple)) else [arg]:
            if isinstance(each, torch.Tensor):
                yield each


def _group_norm(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], x: Any, weight: Any, bias: Any, samples: Any, *args: Any) -> Any:
        if not _are_unbatched(axes, {0}):
            return NotImplemented
        return _by_batch(
            operator(_with_batch(x, axes[0], size).flatten(0, 1), weight, bias, size * samples, *args), size
        )

    return rule


def _nll_loss(operator: Any) -> BatchRule:
    def rule(
        size: Size, axes: Sequence[Any], x: Any, target: Any, weight: Any, reduction: int, ignore_index: int
    ) -> Any:
        if not _are_unbatched(axes, {0, 1}):
            return NotImplemented
        x, target = _with_batch(x, axes[0], size), _with_batch(target, axes[1], size)
        has_samples = x.dim() > 2
        if not has_samples:
            x, target = x.unsqueeze(1), target.unsqueeze(1)
        losses, _ = operator(x.flatten(0, 1), target.flatten(0, 1), weight, 0, ignore_index)
        losses = losses.unflatten(0, (size, -1))
        counts = target != ignore_index
        weights = counts.to(x.dtype) if weight is None else weight[torch.where(counts, target, 0)] * counts
        total = weights.sum(1)
        if reduction == 0:
            return losses if has_samples else losses.squeeze(1), torch.zeros_like(total)
        return losses.sum(1) / total if reduction == 1 else losses.sum(1), total

    return rule


def _solve(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], a: Any, b: Any, **options: Any) -> Any:
        a, b = _with_batch(a, axes[0], size), _with_batch(b, axes[1], size)
        is_vector = a.dim() == 3 and b.dim() == 2
        return operator(a, b, **options) if is_vector or a.dim() == b.dim() else NotImplemented

    return rule


def _is_training(*args: Any) -> bool:
    return bool(args[5])


def _asks_for_weights(*args: Any) -> bool:
    *_, mask = args
    return any(mask[1:])


def _is_training_or_asks_for_weights(*args: Any) -> bool:
    return bool(args[7]) or _asks_for_weights(*args)


_PADS = tuple(f"aten::{mode}_pad{rank}d" for mode in ("reflection", "replication") for rank in (1, 2, 3))
_POOLS = ("aten::avg_pool2d", "aten::avg_pool3d", "aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
_POOLS_WITH_INDICES = (
    "aten::max_pool2d_with_indices",
    "aten::max_pool3d_with_indices",
    "aten::adaptive_max_pool2d",
    "aten::adaptive_max_pool3d",
)
_UPSAMPLES = (
    *(f"{mode}{rank}d" for mode in ("aten::upsample_nearest", "aten::_upsample_nearest_exact") for rank in (1, 2, 3)),
    *("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d", "aten::upsample_trilinear3d"),
    *("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa"),
)
_RULES: dict[str, Callable[[Any], BatchRule]] = {
    **dict.fromkeys((*_POOLS, *_POOLS_WITH_INDICES, *_UPSAMPLES, *_PADS, "aten::convolution"), _by_sample(0)),
    "aten::convolution_backward": _by_sample(0, 1, unless=_asks_for_weights),
    **{f"{pool}_backward": _by_sample(0, 1) for pool in (*_POOLS, *_PADS)},
    **{f"{pool}_backward": _by_sample(0, 1, 7) for pool in _POOLS_WITH_INDICES[:2]},
    **{f"{pool}_backward": _by_sample(0, 1, 2) for pool in _POOLS_WITH_INDICES[2:]},
    **{f"{upsample}_backward": _by_sample(0, sizes=2) for upsample in _UPSAMPLES},
    **dict.fromkeys(("aten::grid_sampler_2d", "aten::grid_sampler_3d"), _by_sample(0, 1)),
    **dict.fromkeys(("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"), _by_sample(0, 1, 2)),
    "aten::native_batch_norm": _by_sample(0, unless=_is_training),
    "aten::native_batch_norm_backward": _by_sample(0, 1, 5, 6, unless=_is_training_or_asks_for_weights),
    "aten::_scaled_dot_product_flash_attention_for_cpu": _by_sample(0, 1, 2),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _by_sample(0, 1, 2, 3, 4, 5),
    "aten::native_group_norm": _group_norm,
    "aten::nll_loss_forward": _nll_loss,
    "aten::native_layer_norm": _along(same={2, 3}),
    "aten::native_layer_norm_backward": _along(same={5, 6}, unless=_asks_for_weights),
    **dict.fromkeys(
        (
            "aten::cat",
            "aten::gather",
            "aten::scatter.src",
            "aten::scatter.value",
            "aten::scatter_add",
            "aten::scatter_reduce.two",
        ),
        _along(1),
    ),
    **dict.fromkeys(("aten::index_add", "aten::index_copy"), _along(1, same={2})),
    "aten::gelu_backward": _along(),
    "aten::glu_backward": _along(2),
    **dict.fromkeys(("aten::slice_backward", "aten::unfold_backward"), _along(2, sizes=1)),
    "aten::diagonal_backward": _along(3, 4, sizes=1),
    "aten::_linalg_solve_ex": _solve,
}
