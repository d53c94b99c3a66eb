"""Convolutions and pools whose groups, windows, steps or padding are computed from dynamic sizes."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees
from torch import nn
from torch.nn import functional as F

import opbridge

BLUR = torch.tensor([[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]) / 16
SIZES: dict[int, Any] = {0: "b", 1: "c", 2: "h", 3: "w"}


def blurs(x: torch.Tensor) -> torch.Tensor:
    """As kornia does."""
    channels = x.shape[1]
    padded = F.pad(x, (1, 1, 1, 1), mode="reflect")
    return F.conv2d(padded, BLUR.expand(channels, 1, -1, -1), groups=channels, padding=0, stride=1)


def sharpens_one_image(x: torch.Tensor) -> torch.Tensor:
    kernel = BLUR[None, None].repeat(x.size(1), 1, 1, 1)
    return x[0] * 2 - torch.conv2d(x[0], kernel, None, 1, "same", 2, x.size(1))


@CAPTURES
@pytest.mark.parametrize("model", [blurs, sharpens_one_image])
def test_a_kernel_for_each_channel(model: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(2, 3, 8, 9)], [(1, 1, 5, 5)], [(4, 6, 6, 7)], [(3, 2, 9, 4)]]
    agrees(model, shapes, (SIZES,), capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize(
    "options",
    [{"stride": 2, "padding": (1, 0)}, {"padding": "same"}, {"dilation": (1, 2), "padding": "valid"}],
    ids=str,
)
def test_weights_that_are_inputs(options: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, weight, bias, groups=x.shape[1] // 2, **options)

    shapes = [[(2, 2 * n, 7, 8), (3 * n, 2, 4, 3), (3 * n,)] for n in (3, 1, 4)]
    dynamic = ({0: "b", 1: 2 * torch.export.Dim("c")}, {0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    agrees(model, shapes, dynamic if capture == "export" else ({0: "b", 1: "c"}, {0: "m"}, {0: "m"}), capture, tmp_path)


@CAPTURES
def test_sequences(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.conv1d(x, weight, padding=1, groups=x.shape[1])

    shapes: Any = [[(2, n, 9), (n, 1, 3)] for n in (3, 1, 4)]
    agrees(model, shapes, ({0: "b", 1: "c"}, {0: "c"}), capture, tmp_path)


@CAPTURES
def test_weights_of_each_image(capture: Any, tmp_path: pathlib.Path) -> None:
    """As in StyleGAN 2."""

    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        images, weights = x.reshape(1, batch * channels, height, width), weight.reshape(batch * 5, channels, 3, 3)
        return F.conv2d(images, weights, padding=1, groups=batch).reshape(batch, 5, height, width)

    shapes: Any = [[(b, 4, 8, 9), (b, 5, 4, 3, 3)] for b in (3, 1, 4)]
    agrees(model, shapes, ({0: "b"}, {0: "b"}), capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize(
    "options",
    [{"stride": 2}, {"stride": (2, 3), "padding": (1, 2), "output_padding": 1}, {"dilation": (1, 2), "padding": 2}],
    ids=str,
)
def test_transposed_with_weights_of_each_image(options: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    """As in the layers of StyleGAN 2 that enlarge the image."""

    def model(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        images, weights = x.reshape(1, batch * channels, height, width), weight.reshape(batch * channels, 5, 3, 2)
        made = F.conv_transpose2d(images, weights, bias.flatten(), groups=batch, **options)
        return made.reshape(batch, 5, *made.shape[2:])

    shapes: Any = [[(b, 4, h, h + 2), (b, 4, 5, 3, 2), (b, 5)] for b, h in ((3, 6), (1, 4), (4, 3), (2, 7))]
    agrees(model, shapes, ({0: "b", 2: "h", 3: "w"}, {0: "b"}, {0: "b"}), capture, tmp_path)


@CAPTURES
def test_transposed_sequences(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        without_batch = torch.conv_transpose1d(x[0], weight, None, 1, 1, 0, x.shape[1])
        return F.conv_transpose1d(x, weight, stride=2, padding=1, groups=x.shape[1])[..., : x.shape[2]] + without_batch

    shapes: Any = [[(2, n, length), (n, 1, 3)] for n, length in ((3, 9), (1, 4), (4, 1))]
    agrees(model, shapes, ({0: "b", 1: "c", 2: "n"}, {0: "c"}), capture, tmp_path)


@CAPTURES
def test_volumes(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        options: dict[str, Any] = {"stride": (2, 1, 2), "padding": (1, 0, 1), "groups": x.shape[1]}
        made = F.conv3d(x, weight, bias, dilation=(2, 1, 1), **options)
        return F.conv_transpose3d(made, weight, bias, dilation=(1, 2, 1), output_padding=(1, 0, 0), **options)

    shapes: Any = [[(2, n, h, 6, 5), (n, 1, 2, 3, 2), (n,)] for n, h in ((3, 5), (1, 4), (4, 7))]
    agrees(model, shapes, ({0: "b", 1: "c", 2: "h"}, {0: "c"}, {0: "c"}), capture, tmp_path)


@CAPTURES
def test_a_constant_number_of_groups_is_one_node(capture: Any, tmp_path: pathlib.Path) -> None:
    layer = nn.Conv2d(4, 4, 3, groups=4)
    model = agrees(layer, [[(2, 4, 8, 9)], [(1, 4, 5, 6)]], ({0: "b", 2: "h", 3: "w"},), capture, tmp_path)
    assert [node.op_type for node in model.graph.node] == ["Conv"]


def pyramid(x: torch.Tensor) -> torch.Tensor:
    """As spatial pyramid pooling does."""
    levels = []
    for level in (1, 2, 3):
        kernel = [-(-size // level) for size in x.shape[2:]]
        padding = [(size * level - whole + 1) // 2 for size, whole in zip(kernel, x.shape[2:], strict=True)]
        levels.append(F.max_pool2d(x, kernel, kernel, padding).flatten(1))
    return torch.cat(levels, 1)


OF_IMAGES: dict[int, Any] = {0: "b", 2: "h", 3: "w"}
WEIGHT = torch.linspace(-1, 1, 4 * 3 * 3 * 2).reshape(4, 3, 3, 2)
BY_SIZE: dict[str, Any] = {
    "a pyramid": pyramid,
    "mean": lambda x: F.avg_pool2d(x, (x.shape[2] // 4, x.shape[3] // 4)),
    "mean by steps": lambda x: nn.AvgPool2d(2, stride=x.shape[2] // 4)(x),
    "mean of the image": lambda x: F.avg_pool2d(x, 4, 2, x.shape[2] // 8, count_include_pad=False),
    "mean, ceil mode": lambda x: F.avg_pool2d(x, x.shape[2] // 4 + 1, 3, padding=1, ceil_mode=True),
    "mean of the image, ceil mode": lambda x: F.avg_pool2d(x, 3, x.shape[2] // 4, 1, True, False),
    "mean with a divisor": lambda x: F.avg_pool2d(x, x.shape[2] // 4, divisor_override=3),
    "mean of one volume": lambda x: F.avg_pool3d(x, (1, x.shape[2] // 2, 2)),
    "mean of sequences": lambda x: F.avg_pool1d(x[:, :, 0], 3, x.shape[-1] // 4),
    "power": lambda x: F.lp_pool2d(x, 2, x.shape[2] // 4),
    "maximum, dilation": lambda x: F.max_pool2d(x, 2, 1, dilation=x.shape[2] // 4),
    "maximum, ceil mode": lambda x: F.max_pool2d(x, 2, x.shape[2] // 4 + 1, 1, ceil_mode=True),
    "maximum of sequences": lambda x: F.max_pool1d(x[:, :, 0], x.shape[-1] // 2),
    "convolution, stride": lambda x: F.conv2d(x, WEIGHT, torch.ones(4), (x.shape[2] // 4, 1), 1),
    "convolution, padding": lambda x: F.conv2d(x, WEIGHT, torch.ones(4), padding=(x.shape[2] // 2, 1)),
    "convolution, dilation": lambda x: torch.conv2d(x, WEIGHT, dilation=[1, x.shape[3] // 4]),
    "convolution with itself": lambda x: F.conv2d(x, x[:1], padding=(x.shape[2] // 2, x.shape[3] // 2)),
    "convolution of volumes": lambda x: F.conv3d(x[:, None], WEIGHT[None, :1], stride=(1, x.shape[2] // 4, 2)),
    "transposed, padding": lambda x: F.conv_transpose2d(x, WEIGHT[:3], None, 2, padding=x.shape[2] // 8),
    "columns": lambda x: F.unfold(x, (x.shape[2] // 4, 2), padding=(0, 1), stride=x.shape[3] // 4),
    "greatest of parts": lambda x: F.adaptive_max_pool2d(x, (x.shape[2] // 2, 3)),
    "greatest of more parts than there are": lambda x: nn.AdaptiveMaxPool2d((x.shape[3] * 2, None))(x),
    "greatest of columns": nn.AdaptiveMaxPool2d((1, None)),
    "greatest of parts of rows": lambda x: F.adaptive_max_pool2d(x[0], (None, 3)),
    "greatest of parts of volumes, one axis whole": lambda x: F.adaptive_max_pool3d(x, (None, 2, None)),
    "greatest of parts of a sequence": lambda x: F.adaptive_max_pool1d(x[0, 0], x.shape[3] // 3),
    "greatest of parts of volumes": lambda x: F.adaptive_max_pool3d(x, (2, x.shape[3] // 2, 1)),
    "shuffled": lambda x: F.pixel_shuffle(x.repeat(1, (x.shape[2] // 4) ** 2, 1, 1), x.shape[2] // 4),
    "shuffled back": lambda x: nn.PixelUnshuffle(x.shape[2])(torch.cat([x, x], 2).repeat(2, 1, 1, x.shape[2])),
    "shuffled back, of one image": lambda x: F.pixel_unshuffle(x[0].repeat(1, 2, x.shape[2]), x.shape[2]),
    "columns of one image": lambda x: F.unfold(x[0], 2, dilation=x.shape[2] // 4),
}


@CAPTURES
@pytest.mark.parametrize("name", BY_SIZE)
def test_options_by_size(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    sizes = ((8, 12), (8, 8), (5, 7), (4, 4), (16, 9), (17, 17))
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        agrees(BY_SIZE[name], [[(2, 3, *size)] for size in sizes], (OF_IMAGES,), capture, tmp_path)


@CAPTURES
def test_a_convolution_of_infinity(capture: Any, tmp_path: pathlib.Path) -> None:
    def make(*shape: int) -> torch.Tensor:
        return torch.full(shape, torch.inf)

    def model(x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(x, WEIGHT.abs(), dilation=x.shape[2] // 4)

    agrees(model, [[(1, 3, 8, 9)], [(2, 3, 13, 12)]], (OF_IMAGES,), capture, tmp_path, make)


@CAPTURES
def test_a_dynamic_stride_of_a_transposed_convolution_is_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return F.conv_transpose2d(x, WEIGHT[:3], stride=x.shape[2] // 4)

    with pytest.raises(opbridge.UnsupportedError, match=r"conv_transpose2d(.|\n)*test_dynamic_windows.py:"):
        agrees(model, [[(1, 3, 8, 9)]], (OF_IMAGES,), capture, tmp_path)


ROUNDED_UP: dict[str, Any] = {
    "maximum": lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True),
    "maximum of every other": lambda x: nn.MaxPool2d(1, 2, ceil_mode=True)(x),
    "maximum, dilation": lambda x: F.max_pool2d(x, (2, 3), 4, 1, (2, 1), ceil_mode=True),
    "maximum of sequences": lambda x: F.max_pool1d(x[:, 0], 3, 5, 1, ceil_mode=True),
    "maximum of volumes": lambda x: F.max_pool3d(x, 2, 3, 1, ceil_mode=True),
    "mean": lambda x: F.avg_pool2d(x, 2, 3, 1, ceil_mode=True),
    "mean of the image": lambda x: F.avg_pool2d(x[0], 2, 4, (0, 1), True, False),
    "mean with a divisor": lambda x: F.avg_pool2d(x, 2, 3, 1, ceil_mode=True, divisor_override=3),
    "mean of sequences": lambda x: F.avg_pool1d(x[:, 0], 3, 5, 1, ceil_mode=True),
    "power": lambda x: F.lp_pool2d(x, 2, 2, 3, ceil_mode=True),
}


@CAPTURES
@pytest.mark.parametrize("name", ROUNDED_UP)
def test_a_last_window_that_some_sizes_drop(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    sizes = [(8, 12), (8, 8), *((h, 5 + h % 4) for h in range(3, 12))]
    model = agrees(ROUNDED_UP[name], [[(2, 3, *size)] for size in sizes], (OF_IMAGES,), capture, tmp_path)
    kinds = {node.op_type for node in model.graph.node}
    assert kinds & {"MaxPool", "AveragePool"}


@CAPTURES
@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.int8, torch.uint8])
@pytest.mark.parametrize("name", [name for name in ROUNDED_UP if "maximum" in name and "sequences" not in name])
def test_a_last_window_of_integers_that_some_sizes_drop(name: str, dtype: Any, capture: Any, tmp_path: Any) -> None:
    sizes = [(8, 12), (8, 8), *((h, 5 + h % 4) for h in range(3, 12))]
    model: Any = lambda x: ROUNDED_UP[name]((100 * x.abs().clamp(max=1)).to(dtype) - (100 if dtype.is_signed else 0))  # noqa: E731
    agrees(model, [[(2, 3, *size)] for size in sizes], (OF_IMAGES,), capture, tmp_path)


def test_a_dilation_that_is_read_from_a_constant_is_an_attribute(tmp_path: pathlib.Path) -> None:
    dilations = 2 ** torch.arange(3)

    def model(x: torch.Tensor) -> torch.Tensor:
        dilation = dilations[1].item()
        return F.conv1d(x, WEIGHT[:, :, 0], dilation=dilation, padding=dilation)

    made = agrees(model, [[(2, 3, 9)], [(1, 3, 9)]], ({0: "b"},), "trace", tmp_path)
    assert [node.op_type for node in made.graph.node] == ["Conv"]
