"""Rules of single operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.capture.rewrites.batch_rules.rules import (
    Size,
    along,
    are_unbatched,
    as_channels,
    by_batch,
    with_batch,
    without_channels,
)
from opbridge.torch_compat.batching import BatchRule


def group_norm(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], x: Any, weight: Any, bias: Any, samples: Any, *args: Any) -> Any:
        if not are_unbatched(axes, {0}):
            return NotImplemented
        return by_batch(operator(with_batch(x, axes[0], size).flatten(0, 1), weight, bias, size * samples, *args), size)

    return rule


def by_channel(tensors: int, unless: Callable[..., bool] | None = None) -> Any:
    """The rule of an operator that computes every channel by itself. The ``tensors`` are its first arguments. The first
    result are images, the others have an element for each channel."""

    def make(operator: Any) -> BatchRule:
        def rule(size: Size, axes: Sequence[Any], *args: Any) -> Any:
            if unless is not None and unless(*args):
                return NotImplemented
            given = zip(args[:tensors], axes, strict=False)
            images, *of_channels = operator(*(_by_channel(*each, size) for each in given), *args[tensors:])
            return without_channels(images, size), *(
                each if each is None else each.reshape(size, each.shape[0] // size) for each in of_channels
            )

        return rule

    return make


def _by_channel(value: Any, axis: Any, size: Size) -> Any:
    """The values of the channels, or of the channels of images, of all samples."""
    if value is None:
        return None
    value = with_batch(value, axis, size)
    return value.flatten() if value.dim() == 2 else as_channels(value)


def layer_norm_backward(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], *args: Any) -> Any:
        gradient, x, mean, scale = (with_batch(args[i], axes[i], size) for i in (0, 1, 3, 4))
        shape, weight, mask = args[2], args[5], args[7]
        before = range(1, x.dim() - len(shape))
        of_x = of_weight = of_bias = None
        if mask[0]:
            scaled = gradient
            if weight is not None:
                weights = with_batch(weight, axes[5], size)
                scaled = gradient * weights.reshape(size, *(1 for _ in before), *shape)
            of_x, _, _ = operator(scaled, x, shape, mean, scale, None, None, [True, False, False])
        if mask[1]:
            of_weight = _summed(gradient * (x - mean) * scale, before)
        if mask[2]:
            of_bias = _summed(gradient, before)
        return of_x, of_weight, of_bias

    return rule


def _summed(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    return x.sum(list(axes)) if axes else x


def nll_loss(operator: Any) -> BatchRule:
    def rule(
        size: Size, axes: Sequence[Any], x: Any, target: Any, weight: Any, reduction: int, ignore_index: int
    ) -> Any:
        if not are_unbatched(axes, {0, 1}):
            return NotImplemented
        x, target = with_batch(x, axes[0], size), with_batch(target, axes[1], size)
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


def loss(operator: Any) -> BatchRule:
    def rule(
        size: Size, axes: Sequence[Any], x: Any, target: Any, reduction: int = 1, *args: Any, **kwargs: Any
    ) -> Any:
        rank = max(x.dim() - (axes[0] is not None), target.dim() - (axes[1] is not None)) + 1
        x, target = (_of_rank(rank, with_batch(*each, size)) for each in ((x, axes[0]), (target, axes[1])))
        losses = operator(x, target, 0, *args, **kwargs)
        if reduction == 0 or rank == 1:
            return losses
        return losses.flatten(1).mean(1) if reduction == 1 else losses.flatten(1).sum(1)

    return rule


def _of_rank(rank: int, batch: torch.Tensor) -> torch.Tensor:
    """The batch with axes of size 1 before those of its samples."""
    return batch.reshape(batch.shape[0], *[1] * (rank - batch.dim()), *batch.shape[1:])


def new_empty_strided(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], like: Any, sizes: Any, strides: Any, **options: Any) -> Any:
        of_sample = 1 + sum((extent - 1) * stride for extent, stride in zip(sizes, strides, strict=True))
        return operator(like, [size, *sizes], [of_sample, *strides], **options)

    return rule


def solve(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], a: Any, b: Any, **options: Any) -> Any:
        a, b = with_batch(a, axes[0], size), with_batch(b, axes[1], size)
        is_vector = a.dim() == 3 and b.dim() == 2
        return operator(a, b, **options) if is_vector or a.dim() == b.dim() else NotImplemented

    return rule


def cross(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], a: Any, b: Any, *, dim: int = -1) -> Any:
        a, b = with_batch(a, axes[0], size), with_batch(b, axes[1], size)
        return operator(a, b, dim=dim + (dim >= 0)) if a.dim() == b.dim() else NotImplemented

    return rule


def embedding(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], weight: Any, indices: Any, *options: Any) -> Any:
        if axes[0] is None:
            return operator(weight, indices, *options)
        rows, indices = with_batch(weight, axes[0], size), with_batch(indices, axes[1], size)
        return operator(rows.flatten(0, 1), _in_flattened(indices, rows.shape[1]), *options)

    return rule


def embedding_dense_backward(operator: Any) -> BatchRule:
    def rule(
        size: Size, axes: Sequence[Any], gradient: Any, indices: Any, rows: Size, padding: Any, by_frequency: bool
    ) -> Any:
        gradient, indices = with_batch(gradient, axes[0], size), with_batch(indices, axes[1], size)
        if padding >= 0:
            gradient = gradient.masked_fill((indices == padding).unsqueeze(-1), 0)
        of_all = operator(gradient, _in_flattened(indices, rows), size * rows, -1, by_frequency)
        return by_batch(of_all, size)

    return rule


def _in_flattened(indices: torch.Tensor, rows: Size) -> torch.Tensor:
    """The indices of the same rows where the axis is flattened with that of the batch before it."""
    samples = torch.arange(indices.shape[0], device=indices.device)
    return indices + samples.reshape(-1, *(1 for _ in indices.shape[1:])).mul(rows)


def masked_scatter(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], x: Any, mask: Any, source: Any) -> Any:
        (x, mask), source = _broadcast(size, axes, x, mask), with_batch(source, axes[2], size).flatten(1)
        if source.shape[1] == 0:
            return NotImplemented
        return torch.where(mask, source.gather(1, _counted(mask)).view_as(mask), x)

    return rule


def masked_scatter_backward(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], gradient: Any, mask: Any, sizes: Sequence[Size]) -> Any:
        gradient, mask = _broadcast(size, axes, gradient, mask)
        of_source = gradient.new_zeros([size, math.prod(sizes)])
        return of_source.scatter_add(1, _counted(mask), (gradient * mask).flatten(1)).reshape([size, *sizes])

    return rule


def _broadcast(size: Size, axes: Sequence[Any], a: torch.Tensor, b: torch.Tensor) -> Sequence[torch.Tensor]:
    """Both with the batch as axis 0 and the axes of both samples."""
    samples = [with_batch(each, axis, size) for each, axis in zip((a, b), axes, strict=False)]
    shape = [size, *torch.broadcast_shapes(*(each.shape[1:] for each in samples))]  # type: ignore[no-untyped-call]
    rank = len(shape)
    return [each.reshape(size, *(1,) * (rank - each.dim()), *each.shape[1:]).expand(shape) for each in samples]


def _counted(mask: torch.Tensor) -> torch.Tensor:
    """For each element of a sample, how many selected ones precede it."""
    return (mask.flatten(1).cumsum(1) - 1).clamp(min=0)


def put(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
        given = (with_batch(each, axis, size) for each, axis in zip((x, index, source), axes, strict=False))
        elements, indices, values = (each.reshape(size, math.prod(each.shape[1:])) for each in given)
        indices = torch.where(indices < 0, indices + elements.shape[1], indices)
        put = elements.scatter_add if accumulate else elements.scatter
        return put(1, indices, values).reshape(with_batch(x, axes[0], size).shape)

    return rule


def searchsorted(operator: Any) -> BatchRule:
    def rule(size: Size, axes: Sequence[Any], boundaries: Any, x: Any, **options: Any) -> Any:
        if options.get("sorter") is not None:
            return NotImplemented
        x = with_batch(x, axes[1], size)
        if axes[0] is None and boundaries.dim() == 1:
            return operator(boundaries, x, **options)
        boundaries = with_batch(boundaries, axes[0], size)
        if boundaries.dim() > 2:
            return operator(boundaries, x, **options)
        return operator(boundaries, x.reshape(size, -1), **options).view_as(x)

    return rule


def index_add(operator: Any) -> BatchRule:
    """By ``scatter_add`` if the indices differ along the batch."""
    of_same_indices = along(1, same={2})(operator)

    def rule(size: Size, axes: Sequence[Any], x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
        if axes[2] is None:
            return of_same_indices(size, axes, x, dim, index, source, alpha=alpha)
        x, indices, source = (with_batch(*each, size) for each in ((x, axes[0]), (index, axes[2]), (source, axes[3])))
        if indices.dim() != 2 or x.dim() < 2 or source.dim() != x.dim():
            return NotImplemented
        dim += 1 if dim >= 0 else x.dim()
        return x.scatter_add(dim, _along_axis(indices, dim, source), source if alpha == 1 else source * alpha)

    return rule


def index_copy(operator: Any) -> BatchRule:
    of_same_indices = along(1, same={2})(operator)

    def rule(size: Size, axes: Sequence[Any], x: Any, dim: int, index: Any, source: Any) -> Any:
        if axes[2] is None:
            return of_same_indices(size, axes, x, dim, index, source)
        x, indices, source = (with_batch(*each, size) for each in ((x, axes[0]), (index, axes[2]), (source, axes[3])))
        if indices.dim() != 2 or x.dim() < 2 or source.dim() != x.dim():
            return NotImplemented
        dim += 1 if dim >= 0 else x.dim()
        return x.scatter(dim, _along_axis(indices, dim, source), source)

    return rule


def _along_axis(indices: torch.Tensor, dim: int, like: torch.Tensor) -> torch.Tensor:
    """The indices of each sample for all elements of ``like``."""
    shape = [1] * like.dim()
    shape[0], shape[dim] = -1, indices.shape[1]
    return indices.to(torch.int64).reshape(shape).expand_as(like)


def trilinear(operator: Any) -> BatchRule:
    def rule(
        size: Size, axes: Sequence[Any], a: Any, b: Any, c: Any, of_a: Any, of_b: Any, of_c: Any, summed: Any, *_: Any
    ) -> Any:
        given = (with_batch(each, axis, size) for each, axis in zip((a, b, c), axes, strict=False))
        return operator(*given, *([dim + 1 for dim in dims] for dims in (of_a, of_b, of_c, summed)))

    return rule
