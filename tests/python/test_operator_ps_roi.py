"""opbridge::ps_roi_align and opbridge::ps_roi_pool in both hosts against torchvision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts
from roi_cases import check_gradient_beside_nan, check_that_bad_regions_are_refused, image, regions

import opbridge

pytest.importorskip("torchvision")
GIVEN = {"spatial_scale": 0.5, "pooled_height": 3, "pooled_width": 2}
ALIGNS = [("ps_roi_align", {"sampling_ratio": ratio}) for ratio in (-1, 2, 3)]
of_both = pytest.mark.parametrize("name", ["ps_roi_align", "ps_roi_pool"])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def pooled(name: str, x: np.ndarray, rois: np.ndarray, **options: int) -> list[np.ndarray]:
    kinds = (x.dtype.type, np.int32)
    return in_both_hosts(name, {"input": x, "rois": rois}, outputs=kinds, **GIVEN, **options)


@pytest.mark.parametrize(("name", "options"), [*ALIGNS, ("ps_roi_pool", {})])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchvision(dtype: type, name: str, options: dict[str, int]) -> None:
    x, rois = image(dtype, 18), regions(dtype)
    theirs = getattr(torch.ops.torchvision, name)
    expected = theirs(torch.from_numpy(x), torch.from_numpy(rois), **GIVEN, **options)
    out, channels = pooled(name, x, rois, **options)
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(out, expected[0].numpy(), rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(channels, expected[1].numpy())


@of_both
def test_nan_stays_in_its_bins_and_a_region_at_nan_is_nan(name: str) -> None:
    x, rois = image(np.float32, 12), np.float32([[0, 0, 0, 34, 26], [0, np.nan, 0, 3, 3]])
    x[0, 1, 2, 13] = np.nan
    out, _ = pooled(name, x, rois)
    assert np.argwhere(np.isnan(out[0])).tolist() == [[0, 0, 1]]
    assert np.isnan(out[1]).all()


@pytest.mark.parametrize(("name", "options"), [*ALIGNS, ("ps_roi_pool", {})])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradient_agrees_with_torchvision(dtype: type, name: str, options: dict[str, int]) -> None:
    gradients = []
    for namespace in ("torchvision", "opbridge"):
        x = torch.from_numpy(image(dtype, 18)).requires_grad_()
        pool = getattr(getattr(torch.ops, namespace), name)
        out, _ = pool(x, torch.from_numpy(regions(dtype)), **GIVEN, **options)
        out.backward(torch.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape).cos())
        gradients.append(x.grad)
    assert gradients[0].any()
    torch.testing.assert_close(*gradients)


@of_both
def test_a_region_that_gives_nan_has_no_gradient(name: str) -> None:
    pool = getattr(torch.ops.opbridge, name)
    x, rois = image(np.float32, 12), regions(np.float32, 4)[:4]
    check_gradient_beside_nan(lambda x, rois: pool(x, rois, 1.0, 3, 2)[0], x, rois)


@of_both
@pytest.mark.parametrize(("size", "channels", "count"), [((13, 17), 6, 0), ((13, 17), 0, 2), ((0, 17), 6, 2)])
def test_zero_sizes(size: tuple[int, int], channels: int, count: int, name: str) -> None:
    x, rois = image(np.float32, channels, size), regions(np.float32, 2)[:count]
    out, mapping = pooled(name, x, rois)
    assert out.shape == mapping.shape == (count, channels // 6, 3, 2)
    assert not out.any()
    leaf = torch.from_numpy(x).requires_grad_()
    getattr(torch.ops.opbridge, name)(leaf, torch.from_numpy(rois), **GIVEN)[0].sum().backward()
    assert leaf.grad is not None
    assert not leaf.grad.any()


@of_both
def test_hostile_arguments_are_errors_in_both_hosts(name: str) -> None:
    check_that_bad_regions_are_refused(name)
    inputs = {"input": image(np.float32, 7), "rois": regions(np.float32, 2)}
    refused_by_both_hosts("multiple of pooled_height", name, inputs, outputs=(np.float32, np.int32), **GIVEN)


@of_both
def test_fake_and_real_shapes_agree(name: str) -> None:
    x, rois = torch.from_numpy(image(np.float32, 12)), torch.from_numpy(regions(np.float32, 3)[:3])
    torch.library.opcheck(getattr(torch.ops.opbridge, name).default, (x.requires_grad_(), rois, 0.5, 2, 3))
