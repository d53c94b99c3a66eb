"""opbridge::correlation in both hosts against its definition in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def sample(dtype: type = np.float32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal((2, 3, 7, 8)).astype(dtype) for name in ("input1", "input2")}


def reference(
    inputs: dict[str, np.ndarray],
    kernel_size: int = 1,
    max_displacement: int = 1,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    dilation_patch: int = 1,
) -> np.ndarray:
    first, second = (array.astype(np.float64) for array in inputs.values())
    images, _, *size = first.shape
    patch, reach = 2 * max_displacement + 1, max_displacement * dilation_patch
    frame = padding + reach
    wide = ((0, 0), (0, 0), (frame, frame), (frame, frame))
    first, second = np.pad(first, wide), np.pad(second, wide)
    out_h, out_w = ((s + 2 * padding - (kernel_size - 1) * dilation - 1) // stride + 1 for s in size)
    out = np.zeros((images, patch, patch, out_h, out_w))
    for i, j, y, x in np.ndindex(patch, patch, out_h, out_w):
        for p, q in np.ndindex(kernel_size, kernel_size):
            row, column = reach + y * stride + p * dilation, reach + x * stride + q * dilation
            away_y, away_x = (i - max_displacement) * dilation_patch, (j - max_displacement) * dilation_patch
            pair = first[:, :, row, column] * second[:, :, row + away_y, column + away_x]
            out[:, i, j, y, x] += pair.sum(1)
    return out


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"max_displacement": 3},
        {"kernel_size": 3, "max_displacement": 2, "padding": 1},
        {"kernel_size": 2, "max_displacement": 1, "stride": 2, "padding": 3, "dilation": 2, "dilation_patch": 3},
        {"max_displacement": 0},
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_definition(dtype: type, given: dict[str, int]) -> None:
    inputs = sample(dtype)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    out = in_both_hosts("correlation", inputs, **given)[0]
    np.testing.assert_allclose(out, reference(inputs, **given), rtol=tolerance, atol=tolerance)


def test_nan_reaches_exactly_the_pixels_that_meet_it() -> None:
    inputs = sample()
    inputs["input2"][0, 1, 3, 4] = np.nan
    assert np.isnan(in_both_hosts("correlation", inputs)[0]).sum() == 9


def test_zero_sizes() -> None:
    inputs = {name: array[:, :0] for name, array in sample().items()}
    out = in_both_hosts("correlation", inputs)[0]
    assert out.shape == (2, 3, 3, 7, 8)
    assert not out.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    good = sample()
    for message, inputs, given in [
        ("input1 must have 4 dimensions", {"input1": good["input1"][0]}, {}),
        ("input1 and input2 must have the same shape", {"input2": good["input2"][:, 1:]}, {}),
        ("kernel is larger", {}, {"kernel_size": 9}),
        ("kernel_size must be below", {}, {"kernel_size": 2**20, "padding": 2**21}),
        ("must be positive", {}, {"stride": 0}),
        ("must be positive", {}, {"dilation": -1}),
        ("must not be negative", {}, {"max_displacement": -1}),
        ("a size overflows", {}, {"max_displacement": 2**62}),
        ("more elements than memory|a size overflows", {}, {"padding": 2**60}),
    ]:
        refused_by_both_hosts(message, "correlation", {**good, **inputs}, **given)


def test_fake_and_real_shapes_agree() -> None:
    torch.library.opcheck(torch.ops.opbridge.correlation.default, tuple(map(torch.from_numpy, sample().values())))
