"""opbridge::ps_roi_pool in both hosts against torchvision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts
from roi_cases import check_that_bad_regions_are_refused, image, regions

import opbridge

pytest.importorskip("torchvision")
GIVEN = {"spatial_scale": 0.5, "pooled_height": 3, "pooled_width": 2}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def pooled(x: np.ndarray, rois: np.ndarray) -> list[np.ndarray]:
    kinds = (x.dtype.type, np.int32)
    return in_both_hosts("ps_roi_pool", {"input": x, "rois": rois}, outputs=kinds, **GIVEN)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchvision(dtype: type) -> None:
    x, rois = image(dtype, 18), regions(dtype)
    expected = torch.ops.torchvision.ps_roi_pool(torch.from_numpy(x), torch.from_numpy(rois), **GIVEN)
    out, channels = pooled(x, rois)
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(out, expected[0].numpy(), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(channels, expected[1].numpy())


def test_nan_stays_in_its_bins_and_a_region_at_nan_is_nan() -> None:
    x, rois = image(np.float32, 12), np.float32([[0, 0, 0, 34, 26], [0, np.nan, 0, 3, 3]])
    x[0, 1, 2, 13] = np.nan
    out, _ = pooled(x, rois)
    assert np.argwhere(np.isnan(out[0])).tolist() == [[0, 0, 1]]
    assert np.isnan(out[1]).all()


@pytest.mark.parametrize(("size", "channels", "count"), [((13, 17), 6, 0), ((13, 17), 0, 2), ((0, 17), 6, 2)])
def test_zero_sizes(size: tuple[int, int], channels: int, count: int) -> None:
    out, mapping = pooled(image(np.float32, channels, size), regions(np.float32, 2)[:count])
    assert out.shape == mapping.shape == (count, channels // 6, 3, 2)
    assert not out.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    check_that_bad_regions_are_refused("ps_roi_pool")
    inputs = {"input": image(np.float32, 7), "rois": regions(np.float32, 2)}
    refused_by_both_hosts("multiple of pooled_height", "ps_roi_pool", inputs, outputs=(np.float32, np.int32), **GIVEN)


def test_fake_and_real_shapes_agree() -> None:
    x, rois = torch.from_numpy(image(np.float32, 12)), torch.from_numpy(regions(np.float32, 3)[:3])
    torch.library.opcheck(torch.ops.opbridge.ps_roi_pool.default, (x, rois, 0.5, 2, 3))
