"""opbridge::roi_align in both hosts against torchvision, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts, scratch_in_torch
from roi_cases import check_gradient_beside_nan, check_that_bad_regions_are_refused, image, regions

import opbridge

torchvision = pytest.importorskip("torchvision")
GIVEN = {"spatial_scale": 0.5, "pooled_height": 3, "pooled_width": 4}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def pooled(x: np.ndarray, rois: np.ndarray, **options: object) -> np.ndarray:
    return in_both_hosts("roi_align", {"input": x, "rois": rois}, **{**GIVEN, **options})[0]


def in_torchvision(x: torch.Tensor, rois: torch.Tensor, **options: object) -> torch.Tensor:
    return torch.ops.torchvision.roi_align(x, rois, **{**GIVEN, "sampling_ratio": -1, "aligned": False, **options})


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling_ratio", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchvision(dtype: type, sampling_ratio: int, aligned: bool) -> None:
    x, rois = image(dtype), regions(dtype)
    options = {"sampling_ratio": sampling_ratio, "aligned": aligned}
    expected = in_torchvision(torch.from_numpy(x), torch.from_numpy(rois), **options).numpy()
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(pooled(x, rois, **options), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("channels", [1, 8, 64, 71, 150])
def test_any_number_of_channels(channels: int) -> None:
    x, rois = image(np.float32, channels), regions(np.float32, 5)
    expected = in_torchvision(torch.from_numpy(x), torch.from_numpy(rois)).numpy()
    np.testing.assert_allclose(pooled(x, rois), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("aligned", [False, True])
def test_gradient(aligned: bool) -> None:
    x = torch.from_numpy(image(np.float64, 2, (5, 6))).requires_grad_()
    rois = torch.from_numpy(regions(np.float64, 3) / 3 * [3, 1, 1, 1, 1])

    def pool(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.opbridge.roi_align(x, rois, 0.5, 2, 3, 2, aligned)

    assert torch.autograd.gradcheck(pool, (x,))
    grad = torch.randn(len(rois), 2, 2, 3, dtype=torch.float64)
    ours = torch.autograd.grad(pool(x), x, grad)
    theirs = torch.autograd.grad(torchvision.ops.roi_align(x, rois, (2, 3), 0.5, 2, aligned), x, grad)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_a_region_that_is_not_finite_gives_nan(value: float) -> None:
    x, rois = image(np.float32), regions(np.float32, 2)[:2]
    clean = pooled(x, rois)
    rois[0, 3] = value
    out = pooled(x, rois)
    assert np.isnan(out[0]).all()
    np.testing.assert_array_equal(out[1], clean[1])


def test_a_nan_pixel_reaches_the_bins_that_sample_it() -> None:
    x = image(np.float32)
    x[0, 1, 6, 7] = np.nan
    rois = np.float32([[0, 0, 0, 34, 26]])
    expected = in_torchvision(torch.from_numpy(x), torch.from_numpy(rois)).numpy()
    np.testing.assert_allclose(pooled(x, rois), expected, rtol=2e-5, atol=2e-5)


def test_a_huge_region_takes_no_longer() -> None:
    x = image(np.float32)
    assert np.abs(pooled(x, np.float32([[0, -1e30, -1e30, 1e30, 1e30]]))).max() < 1e-6


def test_a_region_that_is_not_finite_adds_nothing_to_the_gradient() -> None:
    x, rois = image(np.float64), regions(np.float64)[:4]
    check_gradient_beside_nan(lambda x, rois: torch.ops.opbridge.roi_align(x, rois, 0.5, 2, 3), x, rois)


def test_scratch_does_not_grow_with_the_regions() -> None:
    def scratch(count: int) -> int:
        x, rois = torch.randn(1, 64, 4, 4), torch.tensor([[0.0, 0, 0, 3, 3]]).repeat(count, 1)
        return scratch_in_torch(lambda: torch.ops.opbridge.roi_align(x, rois, 1.0, 1, 1))

    assert scratch(400) < 4 * scratch(1)


@pytest.mark.parametrize(
    ("size", "batch", "channels", "count"), [((13, 17), 2, 5, 0), ((13, 17), 2, 0, 2), ((0, 17), 2, 3, 2)]
)
def test_zero_sizes(size: tuple[int, int], batch: int, channels: int, count: int) -> None:
    out = pooled(image(np.float32, channels, size, batch), regions(np.float32, 2)[:count])
    assert out.shape == (count, channels, 3, 4)
    assert not out.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    check_that_bad_regions_are_refused("roi_align")
    inputs = {"input": image(np.float32), "rois": regions(np.float32, 2)}
    refused_by_both_hosts("sampling_ratio must be below", "roi_align", inputs, **GIVEN, sampling_ratio=2**40)


def test_torch_accepts_the_registration() -> None:
    x, rois = torch.from_numpy(image(np.float32)).requires_grad_(), torch.from_numpy(regions(np.float32, 3)[:3])
    torch.library.opcheck(torch.ops.opbridge.roi_align.default, (x, rois, 0.5, 2, 3))
