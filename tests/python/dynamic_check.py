"""Functions that the tests of dynamic sizes share."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import pytest
import torch

import opbridge


def agrees(
    model: Callable[..., torch.Tensor],
    shapes: Sequence[Sequence[tuple[int, ...]]],  # of all arguments: first those exported, then the others
    dynamic: Any,
    capture: Any,
    folder: pathlib.Path,
    make: Callable[..., torch.Tensor] = torch.rand,
) -> onnx.ModelProto:
    torch.manual_seed(0)
    path = folder / "model.onnx"
    args = tuple(make(*shape) for shape in shapes[0])
    opbridge.export(model, args, path, dynamic_shapes=dynamic, capture=capture)
    for sizes in shapes:
        opbridge.verify(path, model, tuple(make(*shape) for shape in sizes))
    return onnx.load(path)


def agrees_without_warnings(*args: Any) -> onnx.ModelProto:
    """``agrees``, where nothing is taken from the example."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        return agrees(*args)


def agrees_on(
    function: Callable[..., Any], inputs: Sequence[torch.Tensor], folder: pathlib.Path, dynamic: Any
) -> onnx.ModelProto:
    """Exports with the first of the inputs, and compares on all that the model takes."""
    path = folder / "model.onnx"
    example = inputs[0]
    opbridge.export(function, (example,), path, dynamic_shapes=dynamic)
    for x in inputs:
        if dynamic is not None or x.shape == example.shape:
            assert opbridge.verify(path, function, (x,)).ok
    return onnx.load(path)


CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
