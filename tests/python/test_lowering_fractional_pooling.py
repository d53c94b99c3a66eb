"""Fractional max pooling."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import opbridge


class Pools(nn.Module):
    """Windows that begin where the samples say: images, with and without a batch, and volumes."""

    def forward(self, x: torch.Tensor, samples: torch.Tensor) -> Any:
        two, three = samples[:, :, :2], samples
        image = functional.fractional_max_pool2d(x, (3, 2), (4, 5), None, True, two)
        one = functional.fractional_max_pool2d(x[0], 2, (1, 6), None, True, two[:1])
        whole = functional.fractional_max_pool2d(x, 2, None, (0.5, 0.7), True, two)
        volume = torch.stack([x, x * 2, -x, x + 1, x.flip(3)], 2)
        return image, one, whole, functional.fractional_max_pool3d(volume, (2, 3, 2), (3, 4, 2), None, True, three)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_given_samples(capture: Any, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    args = (torch.randn(2, 3, 9, 11).to(dtype), torch.rand(2, 3, 3).to(dtype))
    opbridge.export(Pools(), args, tmp_path / "model.onnx", capture=capture, verify=True)
    for _ in range(20):
        args = (torch.randn(2, 3, 9, 11).round().to(dtype), torch.rand(2, 3, 3).to(dtype))
        opbridge.verify(tmp_path / "model.onnx", Pools(), args)
    below_zero = torch.full((2, 3, 3), -0.2, dtype=dtype)  # PyTorch does not check the samples
    opbridge.verify(tmp_path / "model.onnx", Pools(), (args[0], below_zero))


@pytest.mark.parametrize("dynamic", [(), (0,), (1,), (0, 1)])
def test_samples_of_more_images_are_left_out(dynamic: tuple[int, ...], tmp_path: pathlib.Path) -> None:
    def pools(x: torch.Tensor, samples: torch.Tensor) -> Any:
        image = functional.fractional_max_pool2d(x, 2, (4, 5), None, True, samples[..., :2])
        return image, functional.fractional_max_pool3d(
            torch.stack([x, -x, x * 2, x + 1], 2), 2, (2, 3, 4), None, True, samples
        )

    def args(images: int, sampled: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(images, 3, 9, 11), torch.rand(sampled, 3, 3)

    axes: Any = tuple({0: torch.export.Dim.DYNAMIC} if i in dynamic else {} for i in range(2))
    path = tmp_path / "model.onnx"
    opbridge.export(pools, args(2, 4), path, dynamic_shapes=axes)
    for images in (1, 2, 3) if 0 in dynamic else (2,):
        for sampled in (3, 5) if 1 in dynamic else (4,):
            opbridge.verify(path, pools, args(images, sampled))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_dynamic_sizes(capture: Any, tmp_path: pathlib.Path) -> None:
    class Pool(nn.Module):
        def forward(self, x: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
            return functional.fractional_max_pool2d(x, 2, (3, 4), None, False, samples)

    shapes: Any = {"x": {0: "n", 2: "h", 3: "w"}, "samples": {0: "n"}}
    args = (torch.randn(2, 3, 9, 11), torch.rand(2, 3, 2))
    opbridge.export(Pool(), args, tmp_path / "model.onnx", capture=capture, dynamic_shapes=shapes)
    for n, h, w in ((1, 5, 6), (3, 17, 9)):
        opbridge.verify(tmp_path / "model.onnx", Pool(), (torch.randn(n, 3, h, w), torch.rand(n, 3, 2)))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_volumes_of_dynamic_sizes(capture: Any, tmp_path: pathlib.Path) -> None:
    def pool(x: torch.Tensor, samples: torch.Tensor) -> Any:
        return functional.fractional_max_pool3d(x, 2, (2, 3, 2), None, True, samples)

    shapes: Any = ({0: "n", 3: "h"}, {0: "n"})
    args = (torch.randn(2, 3, 5, 6, 5), torch.rand(2, 3, 3))
    opbridge.export(pool, args, tmp_path / "model.onnx", capture=capture, dynamic_shapes=shapes)
    for n, h in ((1, 5), (3, 9)):
        opbridge.verify(tmp_path / "model.onnx", pool, (torch.randn(n, 3, 5, h, 5), torch.rand(n, 3, 3)))


def test_samples_of_the_layer_are_drawn_at_each_run(tmp_path: pathlib.Path) -> None:
    model = nn.FractionalMaxPool2d(2, output_size=(17, 17))
    x = torch.arange(1600.0).reshape(1, 1, 40, 40)
    program = opbridge.export(model, (x,), tmp_path / "model.onnx")
    first, *others = (program(x)[0] for _ in range(8))  # two are equal once in 64 times
    assert first.shape == (1, 1, 17, 17)
    assert any((first != other).any() for other in others)
    steps = first[0, 0].diff()
    assert set(steps.flatten().tolist()) <= {2.0, 3.0}
    assert first[0, 0, -1, -1] == 1599


def test_half_types_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="fractional pooling is supported for float32"):
        opbridge.export(nn.FractionalMaxPool2d(2, output_size=3), (torch.rand(1, 1, 8, 8).half(),), tmp_path / "m.onnx")
