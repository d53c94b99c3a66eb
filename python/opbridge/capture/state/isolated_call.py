"""Calls a model without lasting effects on it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.dispatch_mode import intercept_operators
from opbridge.capture.inputs import Inputs
from opbridge.capture.operators import operator_of
from opbridge.capture.rewrites.compiled import run_uncompiled
from opbridge.capture.rewrites.control_flow import patch_control_flow
from opbridge.capture.state.attributes import Attributes, restore_attributes
from opbridge.capture.state.overwritten_tensors import Originals
from opbridge.capture.traced.derivatives import with_numbers
from opbridge.torch_compat import DisablePythonDispatcher, OpOverload


@contextlib.contextmanager
def restore_model(
    model: torch.nn.Module, inputs: Inputs, note: Callable[[OpOverload, Any], None] | None = None
) -> Iterator[None]:
    """``note`` sees each operator that the model calls, and its arguments."""
    with restore_attributes(model, *inputs.others), restore_written(model, note):
        yield


@contextlib.contextmanager
def restore_written(model: torch.nn.Module, note: Callable[[OpOverload, Any], None] | None = None) -> Iterator[None]:
    """Restores the model's tensors that operators overwrite; copies only those."""
    originals = Originals()
    for tensor in Attributes(model).tensors:
        if tensor.layout is torch.strided:
            originals.watch(tensor)

    def call(function: OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        if note is not None:
            note(function, args)
        operator = operator_of(function)
        if operator.written:
            originals.keep(operator, args, kwargs)
        form, args = with_numbers(function, args, lambda compute: compute())
        with DisablePythonDispatcher():
            return form(*args, **kwargs)

    try:
        # torch.cond would refuse to run under the mode, or let Dynamo trace its branches.
        with patch_control_flow(), run_uncompiled(), intercept_operators(call):
            yield
    finally:
        originals.restore()
