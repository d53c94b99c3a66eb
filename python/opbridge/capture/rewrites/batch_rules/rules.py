"""What the rules of many operators share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from opbridge.torch_compat import schema_of
from opbridge.torch_compat.batching import BatchRule

Size = int | torch.SymInt


def with_batch(value: Any, axis: Any, size: Size) -> Any:
    """The tensor with the batch as axis 0, in which it is repeated if it has none; the same for a list of tensors. Any
    other value stays as it is."""
    if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
        return [with_batch(each, axis_of_each, size) for each, axis_of_each in zip(value, axis, strict=True)]
    if not isinstance(value, torch.Tensor):
        return value
    return value.expand(size, *value.shape) if axis is None else value.movedim(axis, 0)


def are_unbatched(axes: Sequence[Any], besides: Collection[int]) -> bool:
    return not any(isinstance(axis, int) for i, axis in enumerate(axes) if i not in besides)


def by_sample(*which: int, sizes: int | None = None, unless: Callable[..., bool] | None = None) -> Any:
    """The rule of an operator that computes every sample by itself. The samples are the axis 0 of the arguments
    ``which`` and of all results, and the first item of the argument ``sizes``: those of the whole batch are samples
    like any others. It does not hold for a call whose arguments ``unless`` accepts."""

    def make(operator: Any) -> BatchRule:
        def rule(size: Size, axes: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            if not are_unbatched(axes, which) or (unless is not None and unless(*args, **kwargs)):
                return NotImplemented
            given = list(args)
            for i in which:
                if isinstance(args[i], torch.Tensor):
                    given[i] = with_batch(args[i], axes[i], size).flatten(0, 1)
            if sizes is not None:
                given[sizes] = [size * args[sizes][0], *args[sizes][1:]]
            return by_batch(operator(*given, **kwargs), size)

        return rule

    return make


def by_batch(result: Any, size: Size) -> Any:
    if isinstance(result, (list, tuple)):
        return tuple(by_batch(each, size) for each in result)
    return torch.unflatten(result, 0, (size, -1)) if isinstance(result, torch.Tensor) and result.dim() > 0 else result


def as_channels(images: torch.Tensor) -> torch.Tensor:
    """The samples, axis 0, as channels of the same images."""
    return images.movedim(0, 1).flatten(1, 2)


def without_channels(images: torch.Tensor, size: Size) -> torch.Tensor:
    return torch.unflatten(images, 1, (size, -1)).movedim(1, 0)


def along(
    *dims: int,
    sizes: int | None = None,
    same: Collection[int] = (),
    unless: Callable[..., bool] | None = None,
    shorter: int | None = None,
) -> Any:
    """The rule of an operator on tensors with the same axes; the argument ``shorter`` lacks the last one. The arguments
    ``dims`` count axes from the first. The tensors ``same`` are the same for the whole batch. The argument ``sizes``
    are the sizes of the result."""

    def make(operator: Any) -> BatchRule:
        defaults = [argument.default_value for argument in schema_of(operator).arguments]

        def rule(size: Size, axes: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            everything = [i for i in range(len(args)) if i not in same]
            if not are_unbatched(axes, everything) or (unless is not None and unless(*args, **kwargs)):
                return NotImplemented
            given = [*args, *defaults[len(args) : max(dims, default=-1) + 1]]
            for i in everything:
                given[i] = with_batch(args[i], axes[i], size)
            ranks = {tensor.dim() + (i == shorter) for i in everything for tensor in tensors(given[i : i + 1])}
            # Operators treat a sample without axes as if it had one.
            if len(ranks) != 1 or 1 in ranks or (sizes is not None and not args[sizes]):
                return NotImplemented
            for dim in dims:
                given[dim] += given[dim] >= 0
            if sizes is not None:
                given[sizes] = [size, *args[sizes]]
            return operator(*given, **kwargs)

        return rule

    return make


def tensors(args: Any) -> Iterator[torch.Tensor]:
    for arg in args:
        for each in arg if isinstance(arg, (list, tuple)) else [arg]:
            if isinstance(each, torch.Tensor):
                yield each


def broadcast(*, same: Collection[int] = ()) -> Any:
    """The rule of an operator that computes every element by itself. The tensors ``same`` are the same for the whole
    batch, and no part of the broadcast."""

    def make(operator: Any) -> BatchRule:
        def rule(size: Size, axes: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            elements = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and i not in same]
            dtypes = {args[i].dtype for i in elements}
            if not are_unbatched(axes, elements) or len(dtypes) > len({dtype.is_floating_point for dtype in dtypes}):
                return NotImplemented
            rank = max(args[i].dim() - isinstance(axes[i], int) for i in elements)
            given = list(args)
            for i in elements:
                if isinstance(axes[i], int):
                    given[i] = args[i].movedim(axes[i], 0)
                    while given[i].dim() <= rank:
                        given[i] = given[i].unsqueeze(1)
            return operator(*given, **kwargs)

        return rule

    return make
