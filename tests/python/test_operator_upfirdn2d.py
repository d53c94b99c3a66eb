"""opbridge::upfirdn2d in both hosts against zeros, a convolution and every n-th pixel in PyTorch."""

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
    return {
        "input": rng.standard_normal((2, 3, 6, 7)).astype(dtype),
        "filter": rng.standard_normal((3, 4)).astype(dtype),
    }


def reference(
    inputs: dict[str, np.ndarray], up: list[int], down: list[int], padding: list[int], flip_filter: bool, gain: float
) -> np.ndarray:
    x, taps = (torch.from_numpy(array).double() for array in inputs.values())
    spread = torch.zeros(*x.shape[:2], x.shape[2] * up[1], x.shape[3] * up[0], dtype=torch.float64)
    spread[:, :, :: up[1], :: up[0]] = x
    padded = torch.nn.functional.pad(spread, padding)  # negative padding crops
    taps = taps if flip_filter else taps.flip(0, 1)
    out = torch.nn.functional.conv2d(padded.flatten(0, 1)[:, None], taps[None, None]) * gain
    return out[:, 0, :: down[1], :: down[0]].unflatten(0, x.shape[:2]).numpy()


@pytest.mark.parametrize(
    ("up", "down", "padding"),
    [
        ([1, 1], [1, 1], [0, 0, 0, 0]),
        ([2, 2], [1, 1], [2, 1, 2, 1]),
        ([1, 1], [2, 2], [1, 1, 0, 3]),
        ([3, 2], [2, 4], [5, -1, -2, 7]),
    ],
)
@pytest.mark.parametrize("flip_filter", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_convolution(
    dtype: type, flip_filter: bool, up: list[int], down: list[int], padding: list[int]
) -> None:
    inputs = sample(dtype)
    given = {"up": up, "down": down, "padding": padding, "flip_filter": flip_filter, "gain": 1.5}
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    out = in_both_hosts("upfirdn2d", inputs, **given)[0]
    np.testing.assert_allclose(out, reference(inputs, **given), rtol=tolerance, atol=tolerance)


def test_nan_reaches_exactly_the_pixels_whose_filter_meets_it() -> None:
    inputs = sample()
    inputs["input"][0, 0, 2, 3] = np.nan
    out = in_both_hosts("upfirdn2d", inputs, padding=[3, 3, 2, 2])[0]
    assert np.isnan(out).sum() == 12


def test_zero_sizes() -> None:
    inputs = sample()
    assert in_both_hosts("upfirdn2d", {**inputs, "input": inputs["input"][:, :0]})[0].shape == (2, 0, 4, 4)
    empty = in_both_hosts("upfirdn2d", {**inputs, "input": inputs["input"][:, :, :0]}, padding=[0, 0, 2, 2])[0]
    assert empty.shape == (2, 3, 2, 4)
    assert not empty.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    good = sample()
    for message, inputs, given in [
        ("input must have 4 dimensions", {"input": good["input"][0]}, {}),
        ("filter must have 2 dimensions", {"filter": good["filter"][0]}, {}),
        ("filter must not be empty", {"filter": good["filter"][:0]}, {}),
        ("filter is larger", {}, {"padding": [-4, 0, 0, 0]}),
        ("up and down must be positive", {}, {"up": [0, 1]}),
        ("up and down must be positive", {}, {"down": [1, -1]}),
        ("up and down are", {}, {"padding": [1, 2]}),
        ("a size overflows", {}, {"up": [2**62, 1]}),
        ("a size overflows", {}, {"padding": [2**62, 2**62, 0, 0]}),
    ]:
        refused_by_both_hosts(message, "upfirdn2d", {**good, **inputs}, **given)


def test_fake_and_real_shapes_agree() -> None:
    torch.library.opcheck(
        torch.ops.opbridge.upfirdn2d.default, (*map(torch.from_numpy, sample().values()), [2, 1], [1, 2], [1, 2, 3, 4])
    )
