"""The sizes of what recurrent layers return."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensor

from opbridge.capture.patching import patch_items

_OPERATORS: tuple[Any, ...] = tuple(
    getattr(getattr(torch.ops.aten, name), form)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for form in ("input", "data")  # that of packed sequences
)


@contextlib.contextmanager
def patch_recurrent() -> Iterator[None]:
    """Fake tensors go through recurrent layers at once.

    torch itself unrolls the layer, a step for each element of the sequence, and so fixes its length.
    """
    with contextlib.ExitStack() as until_the_end:
        for operator in _OPERATORS:
            until_the_end.callback(operator._dispatch_cache.clear)  # it holds kernels that were looked up meanwhile
            kernels = {key: _sizes_or(kernel, operator) for key, kernel in operator.py_kernels.items()}
            until_the_end.enter_context(patch_items(operator.py_kernels, kernels))
            operator._dispatch_cache.clear()
        decompositions = {operator: _sizes_or(decomposition_table[operator], operator) for operator in _OPERATORS}
        until_the_end.enter_context(patch_items(decomposition_table, decompositions))
        yield


def _sizes_or(kernel: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """Empty results of the right sizes for fake tensors, what ``kernel`` gives for others."""
    names = [argument.name for argument in operator._schema.arguments]

    def run(input: torch.Tensor, *args: Any) -> Any:
        if not isinstance(input, FakeTensor):
            return kernel(input, *args)
        arguments = dict(zip(names[1:], args, strict=True))
        states = [arguments["hx"]] if isinstance(arguments["hx"], torch.Tensor) else list(arguments["hx"])
        width = states[0].shape[-1] * (2 if arguments["bidirectional"] else 1)
        return input.new_empty(*input.shape[:-1], width), *(torch.empty_like(state) for state in states)

    return run
