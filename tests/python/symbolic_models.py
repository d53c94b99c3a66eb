"""Models of one call, which a symbolic function of the test maps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn

import opbridge


def export(
    symbolic: Callable[..., Any], path: Path, forward: Callable[..., Any], *inputs: torch.Tensor, **options: Any
):
    """Exports a call of `forward` that `symbolic(g, *values)` maps; returns the model, checked."""

    class Call(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *tensors: torch.Tensor) -> Any:
            return forward(*tensors)

    Call.symbolic = staticmethod(symbolic)  # type: ignore[attr-defined]

    class Model(nn.Module):
        def forward(self, *tensors: torch.Tensor) -> Any:
            return Call.apply(*tensors)

    names = [f"x{i}" for i in range(len(inputs))]
    opbridge.export(Model(), inputs, path, input_names=names, **options)
    onnx.checker.check_model(path, full_check=True)
    return onnx.load(path)
