"""Result sizes of recurrent layers on fake tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch_items
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import FakeTensor, decomposition_table, forget_dispatched, kernels_of, schema_of
from opbridge.torch_compat.patch_points import RECURRENT_OPERATORS


@contextlib.contextmanager
def patch_recurrent() -> Iterator[None]:
    """Runs recurrent layers on fake tensors as one operator.

    torch itself unrolls the layer step by step, which fixes the length of the sequence.
    """
    with contextlib.ExitStack() as until_the_end:
        for operator in RECURRENT_OPERATORS:
            until_the_end.callback(forget_dispatched, operator)  # its cache holds kernels that were looked up meanwhile
            kernels = {key: _sizes_or(kernel, operator) for key, kernel in kernels_of(operator).items()}
            until_the_end.enter_context(patch_items(kernels_of(operator), kernels))
            forget_dispatched(operator)
        decompositions = {
            operator: _sizes_or(decomposition_table[operator], operator) for operator in RECURRENT_OPERATORS
        }
        until_the_end.enter_context(patch_items(decomposition_table, decompositions))
        yield


def refuse_in_autocast(operator: Any, line: str) -> None:
    """Refuses a recurrent layer in torch.autocast, which casts in the steps of the layer."""
    if operator in RECURRENT_OPERATORS:
        raise UnsupportedError(
            "a recurrent layer runs in torch.autocast, which casts in each of its steps; run it within "
            'torch.autocast("cpu", enabled=False), or convert the layer (lstm.to(torch.bfloat16))',
            line,
        )


def _sizes_or(kernel: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """For fake tensors, returns empty results of the right sizes; for others, calls ``kernel``."""
    names = [argument.name for argument in schema_of(operator).arguments]

    def run(input: torch.Tensor, *args: Any) -> Any:
        if not isinstance(input, FakeTensor):
            return kernel(input, *args)
        arguments = dict(zip(names[1:], args, strict=True))
        states = [arguments["hx"]] if isinstance(arguments["hx"], torch.Tensor) else list(arguments["hx"])
        width = states[0].shape[-1] * (2 if arguments["bidirectional"] else 1)
        return input.new_empty(*input.shape[:-1], width), *(torch.empty_like(state) for state in states)

    return run
