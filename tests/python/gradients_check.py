"""What the tests of derivatives inside of a model share."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import opbridge
from checking.models import compare, loaded

Function = Callable[..., Any]
CAPTURES = ["export", "trace"]


def check(
    model: Function,
    path: pathlib.Path,
    *args: torch.Tensor,
    capture: str,
    dynamic: Any = None,
    others: tuple[tuple[torch.Tensor, ...], ...] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Exports ``model`` and compares it with PyTorch for other inputs of the same sizes, and for ``others``."""
    if isinstance(model, nn.Module):
        model.eval()
    opbridge.export(model, args, path / "model.onnx", capture=capture, dynamic_shapes=dynamic)
    another = tuple(torch.randn_like(arg) if arg.is_floating_point() else arg.flip(0) for arg in args)
    compare(model, loaded(path / "model.onnx"), (args, another, *others), rtol=rtol, atol=atol)
