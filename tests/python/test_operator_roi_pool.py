"""opbridge::roi_pool in both hosts against torchvision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts
from roi_cases import check_that_bad_regions_are_refused, image, regions

import opbridge

pytest.importorskip("torchvision")
GIVEN = {"spatial_scale": 0.5, "pooled_height": 3, "pooled_width": 4}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def pooled(x: np.ndarray, rois: np.ndarray) -> list[np.ndarray]:
    return in_both_hosts("roi_pool", {"input": x, "rois": rois}, outputs=(x.dtype.type, np.int32), **GIVEN)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchvision(dtype: type) -> None:
    x, rois = image(dtype), regions(dtype)
    expected = torch.ops.torchvision.roi_pool(torch.from_numpy(x), torch.from_numpy(rois), **GIVEN)
    for ours, theirs in zip(pooled(x, rois), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy())


def test_nan_is_no_maximum_and_a_region_at_nan_is_nan() -> None:
    x, rois = image(np.float32), np.float32([[0, 0, 0, 34, 26], [0, np.nan, 0, 3, 3]])
    x[0, 1, 6] = np.nan
    out, argmax = pooled(x, rois)
    expected = torch.ops.torchvision.roi_pool(torch.from_numpy(x), torch.from_numpy(rois[:1]), **GIVEN)
    np.testing.assert_array_equal(out[:1], expected[0].numpy())
    assert np.isnan(out[1]).all()
    assert (argmax[1] == -1).all()


@pytest.mark.parametrize(("size", "channels", "count"), [((13, 17), 5, 0), ((13, 17), 0, 2), ((0, 17), 3, 2)])
def test_zero_sizes(size: tuple[int, int], channels: int, count: int) -> None:
    out, argmax = pooled(image(np.float32, channels, size), regions(np.float32, 2)[:count])
    assert out.shape == argmax.shape == (count, channels, 3, 4)
    assert not out.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    check_that_bad_regions_are_refused("roi_pool")


def test_fake_and_real_shapes_agree() -> None:
    x, rois = torch.from_numpy(image(np.float32)), torch.from_numpy(regions(np.float32, 3)[:3])
    torch.library.opcheck(torch.ops.opbridge.roi_pool.default, (x, rois, 0.5, 2, 3))
