"""Result sizes of maxima along one dim on fake tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch.nn import functional

from opbridge.capture.patching import ByThread
from opbridge.torch_compat import forget_dispatched, kernels_of
from opbridge.torch_compat.patch_points import COMPOSITE, MAX_POOL1D, MAX_POOL1D_OF_NUMBERS


@contextlib.contextmanager
def patch_pooling() -> Iterator[None]:
    """Gives ``max_pool1d`` a rule for dynamic sizes; torch's own kernel makes them numbers."""
    kernels = kernels_of(MAX_POOL1D)
    if COMPOSITE in kernels:
        yield
        return
    rule = ByThread(_max_pool1d, MAX_POOL1D_OF_NUMBERS)
    kernels[COMPOSITE] = rule
    forget_dispatched(MAX_POOL1D)
    try:
        yield
    finally:
        rule.end()
        del kernels[COMPOSITE]
        forget_dispatched(MAX_POOL1D)  # its cache holds kernels that were looked up meanwhile


def _max_pool1d(
    input: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> torch.Tensor:
    strides = [1, *(stride or kernel_size)]
    pooled = functional.max_pool2d(
        input.unsqueeze(-2), [1, *kernel_size], strides, [0, *padding], [1, *dilation], ceil_mode
    )
    return pooled.squeeze(-2)
