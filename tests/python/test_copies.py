"""Models that copy tensors, modules and containers with Python's module ``copy``."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES
from torch import nn

import opbridge
from checking.models import compare, loaded


class Copying(nn.Module):
    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("scale", torch.rand(4))

    def forward(self, x: torch.Tensor) -> Any:
        raise NotImplementedError


class Deep(Copying):
    def forward(self, x: torch.Tensor) -> Any:
        linear, scale, kept = copy.deepcopy(self.linear), copy.deepcopy(self.scale), copy.deepcopy({"x": [x, 2 * x]})
        linear.weight.data.mul_(2)
        scale += 1
        kept["x"][0] += 1
        return linear(x), self.linear(x), scale, self.scale * x, kept, x * 3


class DeepOfOne(Copying):
    def forward(self, x: torch.Tensor) -> Any:
        y = 2 * x
        first, second = copy.deepcopy((y, y))
        first += 1
        return second, y


class Shallow(Copying):
    def forward(self, x: torch.Tensor) -> Any:
        y = 2 * x
        alias, scale, linear = copy.copy(y), copy.copy(self.scale), copy.copy(self.linear)
        alias += 1
        return y, scale * x, linear(x)


@CAPTURES
@pytest.mark.parametrize("rows", [None, ({0: "n"},)], ids=["constant", "dynamic"])
@pytest.mark.parametrize("model", [Deep, DeepOfOne, Shallow])
def test_copies(model: type[Copying], rows: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    copying, path = model().eval(), tmp_path / "model.onnx"
    opbridge.export(copying, (torch.randn(3, 4),), path, capture=capture, dynamic_shapes=rows)
    sizes = (3, 1, 4) if rows else (3,)
    compare(copying, loaded(path), [(torch.randn(each, 4),) for each in sizes])
