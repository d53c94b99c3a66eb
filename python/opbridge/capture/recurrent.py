"""The sizes of what recurrent layers return."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor

_OPERATORS: tuple[Any, ...] = tuple(
    getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
)


@contextlib.contextmanager
def recurrent_sizes() -> Iterator[None]:
    """Fake tensors go through recurrent layers at once.

    torch itself unrolls the layer, a step for each element of the sequence, and so fixes its length.
    """
    kernels = [dict(operator.py_kernels) for operator in _OPERATORS]
    decompositions = {operator: decomposition_table[operator] for operator in _OPERATORS}
    try:
        for operator in _OPERATORS:
            for key, kernel in operator.py_kernels.items():
                operator.py_kernels[key] = _sizes_or(kernel)
            operator._dispatch_cache.clear()
            decomposition_table[operator] = _sizes_or(decompositions[operator])
        yield
    finally:
        for operator, before in zip(_OPERATORS, kernels, strict=True):
            operator.py_kernels.update(before)
            operator._dispatch_cache.clear()
        decomposition_table.update(decompositions)


def _sizes_or(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Empty results of the right sizes for fake tensors, what ``kernel`` gives for others."""

    def run(
        input: torch.Tensor,
        hx: torch.Tensor | Sequence[torch.Tensor],
        params: Sequence[torch.Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        if not isinstance(input, FakeTensor):
            return kernel(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        states = [hx] if isinstance(hx, torch.Tensor) else list(hx)
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        return input.new_empty(*input.shape[:-1], width), *(torch.empty_like(state) for state in states)

    return run
