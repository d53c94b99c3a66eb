"""Convolutions whose number of groups is a dynamic size."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees
from torch import nn
from torch.nn import functional as F

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
