"""A call of a model that leaves no trace in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.dispatch_mode import operators_seen_by
from opbridge.capture.inputs import Inputs
from opbridge.capture.operators import operator_of
from opbridge.capture.rewrites.control_flow import control_flow_followed
from opbridge.capture.state.attributes import Attributes, attributes_kept
from opbridge.capture.state.overwritten_tensors import Originals


@contextlib.contextmanager
def undisturbed(model: torch.nn.Module, inputs: Inputs) -> Iterator[None]:
    with attributes_kept(model, *inputs.others), writes_taken_back(model):
        yield


@contextlib.contextmanager
def writes_taken_back(model: torch.nn.Module) -> Iterator[None]:
    """Puts back what operators overwrite of the tensors that the model holds, and copies no others."""
    originals = Originals()
    for tensor in Attributes(model).tensors:
        if tensor.layout is torch.strided:
            originals.watch(tensor)

    def call(function: torch._ops.OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
        operator = operator_of(function)
        if operator.written:
            originals.keep(operator, args, kwargs)
        with torch._C._DisablePythonDispatcher():
            return function(*args, **kwargs)

    try:
        with control_flow_followed(), operators_seen_by(call):  # a torch.cond would not run beside the mode
            yield
    finally:
        originals.restore()
