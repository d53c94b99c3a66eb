"""What simplification makes of whole models."""

from __future__ import annotations

import pathlib

import onnx
import torch
from torch import nn

import opbridge


def operators(model: nn.Module, x: torch.Tensor, folder: pathlib.Path, **options: bool) -> list[str]:
    path = folder / "model.onnx"
    opbridge.export(model.eval(), (x,), path, verify=True, **options)
    return [node.op_type for node in onnx.load(path).graph.node]


def normalized(conv: nn.Module, channels: int) -> nn.Sequential:
    """A convolution and a normalization with statistics that are not those of a new one."""
    norm = nn.BatchNorm2d(channels)
    for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(tensor, 0.5, 2)
    return nn.Sequential(conv, norm)


X = torch.linspace(-1, 1, 2 * 4 * 5 * 5).reshape(2, 4, 5, 5)


def test_batch_normalization_goes_into_the_convolution(tmp_path: pathlib.Path) -> None:
    for conv in (nn.Conv2d(4, 6, 3), nn.Conv2d(4, 6, 3, bias=False), nn.Conv2d(4, 6, 3, groups=2)):
        assert operators(normalized(conv, 6), X, tmp_path) == ["Conv"]
        assert "BatchNormalization" in operators(normalized(conv, 6), X, tmp_path, simplify=False)
    model = nn.Sequential(normalized(nn.Conv2d(4, 6, 3), 6), nn.ReLU())
    assert operators(model, X, tmp_path) == ["Conv", "Relu"]


def test_a_convolution_that_others_use_stays_as_it_is(tmp_path: pathlib.Path) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = normalized(nn.Conv2d(4, 4, 3, padding=1), 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            return y + self.norm(y)

    class Repeated(Shared):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.conv(self.conv(x)))

    assert operators(Shared(), X, tmp_path).count("BatchNormalization") == 1
    assert operators(Repeated(), X, tmp_path).count("BatchNormalization") == 1


def test_statistics_that_are_not_finite_stay_as_they_are(tmp_path: pathlib.Path) -> None:
    model = normalized(nn.Conv2d(4, 6, 3), 6)
    model[1].running_var[0] = -1.0
    assert operators(model, X, tmp_path) == ["Conv", "BatchNormalization"]
