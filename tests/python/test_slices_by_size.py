"""Slices up to an index that is computed from the size have a size that follows from it, not one that is data."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees

import opbridge
from opbridge.capture.symbolic_sizes.bounds import is_never_negative
from opbridge.torch_compat import FakeTensorMode
from opbridge.torch_compat.symbols import ShapeEnv


def interleaved(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    y = x.new_zeros(x.shape)
    y[::2] += x[: n - n // 2]
    y[1::2] += x.flip([0])[: n // 2]
    return y


def middle(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[0]
    width = min(4, n)
    start = n // 2 - width // 2
    return x[start : start + width] * torch.arange(1, width + 1)[:, None]


@CAPTURES
@pytest.mark.parametrize("function", [interleaved, middle])
def test_slices(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(function, [[(n, 3)] for n in (9, 2, 3, 4, 5, 8)], ({0: "n"},), capture, tmp_path)


def diagonal_filled(x: torch.Tensor) -> torch.Tensor:
    products = x @ x.T
    products.view(-1)[:: len(x) + 1].fill_(-1)  # as DINOv2's KoLeo loss
    return products


def every_nth(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x.clone()
    y[:, :: len(x)] = y[:, :: len(x)] * 2 + 1
    return y, x.flatten()[1 :: len(x)]


@CAPTURES
@pytest.mark.parametrize("function", [diagonal_filled, every_nth])
def test_steps(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(function, [[(n, 6)] for n in (3, 1, 2, 5, 9)], ({0: "n"},), capture, tmp_path)


@CAPTURES
def test_copies(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(n, 2)] for n in (3, 1, 0, 5)]
    model = agrees(lambda x: torch.slice_copy(x, 0, 0, 2), shapes, ({0: "n"},), capture, tmp_path)
    rows, columns = model.graph.output[0].type.tensor_type.shape.dim
    assert not rows.HasField("dim_value")
    assert columns.dim_value == 2


def test_numbers() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    n = mode.from_tensor(torch.rand(9)).shape[0]
    m = mode.from_tensor(torch.rand(7)).shape[0]
    for certain in (n - n // 2, n - (n + 1) // 2, n // 2 - torch.sym_min(n, m) // 2, torch.sym_max(n, m) - m, 3):
        assert is_never_negative(certain)
    for uncertain in (n - m, n // 2 - m // 2, n - (n + 6) // 2, n // 2 - torch.sym_max(n, m) // 2, n * m - n, -3):
        assert not is_never_negative(uncertain)


@CAPTURES
@pytest.mark.parametrize("lag", [2, 3])
def test_differences_at_a_lag_cause_no_warning(lag: int, capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"

    def differences(x: torch.Tensor) -> torch.Tensor:
        return x[lag:] - x[:-lag]

    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(differences, (torch.rand(6),), path, capture=capture, dynamic_shapes=({0: "n"},))
    for size in (9, 4, 3, 2, 1):
        opbridge.verify(path, differences, (torch.rand(size),))


def center(x: torch.Tensor) -> torch.Tensor:
    """As torchvision's center crop, and one that truncates, along the other axis."""
    height, width = x.shape
    top, left = round((height - 8) / 2.0), int((width - 4) * 0.5)
    return x[top : top + 8, left : left + 4] + torch.ones(8, 4)


def windows(x: torch.Tensor) -> torch.Tensor:
    """Overlapping windows of a fixed size and number, as in the inference of medical images."""
    height, width = x.shape
    result = x.new_zeros(x.shape)
    for part in (0.0, 0.25, 1.0):
        top, left = int((height - 8) * part), min(2, width - 4)
        result[top : top + 8, left : left + 4] += x[top : top + 8, left : left + 4] * torch.ones(8, 4)
    return result


def pyramid(x: torch.Tensor) -> torch.Tensor:
    """Crops what a U-Net skips to the size of what it has upsampled."""
    up = torch.nn.functional.max_pool2d(x[None, 1:], 2).repeat_interleave(2, 1).repeat_interleave(2, 2)[0]
    top, left = (x.shape[0] - up.shape[0]) // 2, (x.shape[1] - up.shape[1]) // 2
    return x[top : top + up.shape[0], left : left + up.shape[1]] + up


@CAPTURES
@pytest.mark.parametrize("function", [center, windows, pyramid])
def test_windows_have_the_size_that_was_cut_out(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    dims = {0: torch.export.Dim("h", min=8), 1: torch.export.Dim("w", min=4)}
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        agrees(function, [[(13, 9)], [(8, 4)], [(9, 5)], [(14, 20)], [(31, 7)]], (dims,), capture, tmp_path)


def last_of_last(x: torch.Tensor) -> torch.Tensor:
    x = x[::8]  # torch takes the quotient for a number that may be anything
    for _ in range(3):
        x = x[-2:] + x[-2:].cumsum(0)
    return x


def without_ends(x: torch.Tensor) -> torch.Tensor:
    x = x[::8]
    for _ in range(3):
        x = x[1:][:-1] + x[1:][:-1].cumsum(0)
    return x


@CAPTURES
@pytest.mark.parametrize("function", [last_of_last, without_ends])
def test_sizes_of_slices_of_slices_stay_short(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(function, [[(n, 2)] for n in (60, 0, 1, 9, 20, 70)], ({0: "rows"},), capture, tmp_path)
    exported = opbridge.export(function, (torch.rand(60, 2),), dynamic_shapes=({0: "rows"},), capture=capture)
    (size, _) = exported.model_proto.graph.output[0].type.tensor_type.shape.dim
    assert size.dim_param.count("rows") == 1
