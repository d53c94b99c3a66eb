"""torch.autograd.grad with ``is_grads_batched=True``, and jacobian and hessian of torch.autograd.functional with
``vectorize=True``. torch runs them by an older vmap, whose tensors a capture cannot see.

Without it, jacobian and hessian loop over the elements of the outputs. If their number is dynamic, they are vectorized.
So are torch.func's jacrev, jacfwd and vmap with a ``chunk_size``: how many chunks there are would be constant.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.source import line_of_frame
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree
from opbridge.torch_compat.patch_points import (
    BASES_OF_OUTPUTS,
    BASIS_OF_OUTPUTS,
    CHUNKS_OF_VMAP,
    JACOBIAN,
    VMAP_OF_DERIVATIVES,
    VMAP_OF_GRADIENTS,
)


@contextlib.contextmanager
def follow_batched_gradients() -> Iterator[None]:
    """Runs them by torch.vmap, which cannot run those of forward mode: refuses these."""
    with (
        patch(VMAP_OF_GRADIENTS, _vmap),
        patch(VMAP_OF_DERIVATIVES, _refuse_forward_mode),
        patch(JACOBIAN, _vectorized_by_need(JACOBIAN.original)),
        patch(BASIS_OF_OUTPUTS, _basis),
        patch(BASES_OF_OUTPUTS, _in_one_by_need(BASES_OF_OUTPUTS.original)),
        patch(CHUNKS_OF_VMAP, _unchunked_by_need(CHUNKS_OF_VMAP.original)),
    ):
        yield


class _HasDynamicSizes:
    """Whether a tensor has a dynamic number of elements, if asked after the tensors are known."""

    def __init__(self) -> None:
        self.tensors: Any = ()

    def __bool__(self) -> bool:
        return any(isinstance(leaf.numel(), torch.SymInt) for leaf in pytree.tree_leaves(self.tensors))


def _vectorized_by_need(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def jacobian(
        func: Callable[..., Any],
        inputs: Any,
        create_graph: bool = False,
        strict: bool = False,
        vectorize: bool = False,
        strategy: str = "reverse-mode",
    ) -> Any:
        if vectorize or strict or strategy != "reverse-mode":
            return original(func, inputs, create_graph, strict, vectorize, strategy)
        outputs = _HasDynamicSizes()

        def kept(*args: Any) -> Any:
            outputs.tensors = func(*args)
            return outputs.tensors

        return original(kept, inputs, create_graph, strict, outputs, strategy)  # which asks after it has called it

    return jacobian


def _basis(tensors: Sequence[torch.Tensor], numels: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """An identity matrix, split by columns. torch fills a diagonal of each part, whose offset would become constant."""
    rows = torch.arange(sum(numels), device=tensors[0].device).unsqueeze(1)
    parts, start = [], 0
    for tensor, numel in zip(tensors, numels, strict=True):
        columns = torch.arange(start, start + numel, device=rows.device)
        parts.append((rows == columns).to(tensor))
        start = start + numel
    return tuple(parts)


def _in_one_by_need(original: Callable[..., Iterator[tuple[torch.Tensor, ...]]]) -> Callable[..., Any]:
    def bases(
        tensors: Sequence[torch.Tensor], numels: Sequence[Any], chunk_size: int | None = None
    ) -> Iterator[tuple[torch.Tensor, ...]]:
        # Chunks of one row are not run by vmap, and so cannot be joined.
        if chunk_size == 1 or not any(isinstance(numel, torch.SymInt) for numel in numels):
            yield from original(tensors, numels, chunk_size)
            return
        parts = zip(_basis(tensors, numels), tensors, strict=True)
        yield tuple(part.reshape(-1, *tensor.shape) for part, tensor in parts)

    return bases


def _unchunked_by_need(original: Callable[..., Any]) -> Callable[..., Any]:
    def chunks(args: Sequence[Any], axes: Sequence[int | None], batch_size: Any, chunk_size: int) -> Any:
        if isinstance(batch_size, torch.SymInt):
            return [tuple(args)]
        return original(args, axes, batch_size, chunk_size)

    return chunks


def _refuse_forward_mode(*_: Any) -> Any:
    raise UnsupportedError(
        "torch.autograd.functional with vectorize=True cannot be captured in forward mode; use torch.func.jacfwd",
        line_of_frame(sys._getframe(1)),
    )


def _vmap(
    function: Callable[..., tuple[torch.Tensor | None, ...]],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """torch.vmap, which itself does not take None as a result: the gradient by an input that is not used."""

    def batched(*args: Any) -> tuple[torch.Tensor | None, ...]:
        lacking: list[int] = []

        def present(*samples: Any) -> tuple[torch.Tensor, ...]:
            results = function(*samples)
            lacking[:] = [i for i, result in enumerate(results) if result is None]
            return tuple(result for result in results if result is not None)

        results: list[torch.Tensor | None] = list(torch.vmap(present, in_dims, out_dims)(*args))
        for i in lacking:
            results.insert(i, None)
        return tuple(results)

    return batched
