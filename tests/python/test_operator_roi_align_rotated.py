"""opbridge::roi_align_rotated in both hosts against samples written out in NumPy, and against roi_align at angle 0."""

from __future__ import annotations

import resource
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, in_onnxruntime, refused_by_both_hosts, scratch_in_torch
from roi_cases import check_gradient_beside_nan, image

import opbridge
from opbridge.operators import COMPAT

GIVEN = {"output_size": [3, 4], "spatial_scale": 0.5}


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)


def regions(dtype: type, count: int = 12) -> np.ndarray:
    rng = np.random.default_rng(1)
    rows = [
        rng.integers(0, 2, (count, 1)),
        rng.uniform(-3, 36, (count, 2)),
        rng.uniform(0.2, 30, (count, 2)),
        rng.uniform(-4, 4, (count, 1)),
    ]
    special = [[0, 17, 13, 0, 6, 1], [1, -90, -90, 4, 4, 0.3], [1, 34, 26, 2, 2, 0.5]]
    return np.concatenate([np.concatenate(rows, axis=1), special]).astype(dtype)


def bilinear(plane: np.ndarray, y: float, x: float) -> np.ndarray:
    height, width = plane.shape[-2:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros(plane.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = min(int(y), max(height - 2, 0)), min(int(x), max(width - 2, 0))
    dy, dx = y - top, x - left
    return (
        plane[:, top, left] * (1 - dy) * (1 - dx)
        + plane[:, top, left + 1] * (1 - dy) * dx
        + plane[:, top + 1, left] * dy * (1 - dx)
        + plane[:, top + 1, left + 1] * dy * dx
    )


def reference(
    x: np.ndarray,
    rois: np.ndarray,
    sampling_ratio: int = 0,
    aligned: bool = True,
    clockwise: bool = False,
    bins: Sequence[int] = GIVEN["output_size"],
) -> np.ndarray:
    """The definition, in float64."""
    scale = GIVEN["spatial_scale"]
    out = np.zeros((len(rois), x.shape[1], *bins))
    for k, (index, *center, width, height, angle) in enumerate(rois.astype(np.float64)):
        shift = 0.5 if aligned else 0.0
        center_x, center_y = (c * scale - shift for c in center)
        lengths = [height * scale, width * scale]
        if not aligned:
            lengths = [max(length, 1) for length in lengths]
        sizes = [length / count for length, count in zip(lengths, bins, strict=True)]
        grid = [sampling_ratio or int(np.ceil(size)) for size in sizes]
        angle = -angle if clockwise else angle
        for i in range(bins[0]):
            for j in range(bins[1]):
                for p in range(grid[0]):
                    for q in range(grid[1]):
                        y = -lengths[0] / 2 + (i + (p + 0.5) / grid[0]) * sizes[0]
                        along = -lengths[1] / 2 + (j + (q + 0.5) / grid[1]) * sizes[1]
                        out[k, :, i, j] += bilinear(
                            x[int(index)],
                            y * np.cos(angle) - along * np.sin(angle) + center_y,
                            y * np.sin(angle) + along * np.cos(angle) + center_x,
                        ) / max(grid[0] * grid[1], 1)
    return out


def pooled(x: np.ndarray, rois: np.ndarray, **options: object) -> np.ndarray:
    return in_both_hosts("roi_align_rotated", {"input": x, "rois": rois}, **{**GIVEN, **options})[0]


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_definition(dtype: type, sampling_ratio: int, aligned: bool, clockwise: bool) -> None:
    x, rois = image(dtype), regions(dtype)
    options = {"sampling_ratio": sampling_ratio, "aligned": aligned, "clockwise": clockwise}
    tolerance = 1e-4 if dtype is np.float32 else 1e-11
    np.testing.assert_allclose(
        pooled(x, rois, **options), reference(x, rois, **options), rtol=tolerance, atol=tolerance
    )


def test_name_of_mmdeploy() -> None:
    x, rois = image(np.float32, 71), regions(np.float32)
    given = {"output_height": 3, "output_width": 4, "spatial_scale": 0.5, "sampling_ratio": 2, "aligned": True}
    (out,) = in_onnxruntime(
        "MMCVRoIAlignRotated",
        {"input": x, "rois": rois},
        domain="mmdeploy",
        outputs=(np.float32,),
        clockwise=True,
        **given,
    )
    np.testing.assert_array_equal(out, pooled(x, rois, sampling_ratio=2, clockwise=True))


def test_angle_zero_is_roi_align() -> None:
    x, rois = image(np.float64), regions(np.float64)
    rois[:, 5] = 0
    boxes = np.concatenate([rois[:, :1], rois[:, 1:3] - rois[:, 3:5] / 2, rois[:, 1:3] + rois[:, 3:5] / 2], axis=1)
    given = {"spatial_scale": 0.5, "pooled_height": 3, "pooled_width": 4, "aligned": True}
    expected = in_both_hosts("roi_align", {"input": x, "rois": boxes}, **given)[0]
    np.testing.assert_allclose(pooled(x, rois), expected, rtol=1e-10, atol=1e-10)


def test_gradient() -> None:
    x = torch.from_numpy(image(np.float64, 2, (5, 6))).requires_grad_()
    rois = torch.from_numpy(regions(np.float64, 3) / [1, 3, 3, 3, 3, 1])

    def pool(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.opbridge.roi_align_rotated(x, rois, [2, 3], 0.5, 2)

    assert torch.autograd.gradcheck(pool, (x,))


def test_a_region_that_is_not_finite_gives_nan() -> None:
    x, rois = image(np.float32), regions(np.float32)
    clean = pooled(x, rois)
    for column, value in ((1, np.nan), (3, np.inf), (5, np.nan), (5, -np.inf)):
        bad = rois.copy()
        bad[0, column] = value
        out = pooled(x, bad)
        assert np.isnan(out[0]).all()
        np.testing.assert_array_equal(out[1:], clean[1:])


def test_a_region_that_is_not_finite_adds_nothing_to_the_gradient() -> None:
    x, rois = image(np.float64), regions(np.float64)[:4]
    check_gradient_beside_nan(lambda x, rois: torch.ops.opbridge.roi_align_rotated(x, rois, [2, 3], 0.5), x, rois)


def test_scratch_does_not_grow_with_the_regions() -> None:
    def scratch(count: int) -> int:
        x, rois = torch.randn(1, 64, 4, 4), torch.tensor([[0.0, 2, 2, 3, 3, 0.5]]).repeat(count, 1)
        return scratch_in_torch(lambda: torch.ops.opbridge.roi_align_rotated(x, rois, [1, 1], 1.0))

    assert scratch(400) < 4 * scratch(1)


def test_a_bin_of_millions_of_samples() -> None:
    x, rois = image(np.float64, 2, (40, 50)), np.float64([[0, 46, 36, 60, 40, 0.5], [1, 50, 40, 300, 400, 1]])
    for count in (16, 25):
        out = pooled(x, rois, output_size=[1, 1], sampling_ratio=count)
        np.testing.assert_allclose(out, reference(x, rois, count, bins=[1, 1]), rtol=1e-11)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pooled(x, rois[:1], output_size=[1, 1], sampling_ratio=2000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


@pytest.mark.parametrize(("size", "channels", "count"), [((13, 17), 5, 0), ((13, 17), 0, 2), ((0, 17), 3, 2)])
def test_zero_sizes(size: tuple[int, int], channels: int, count: int) -> None:
    out = pooled(image(np.float32, channels, size), regions(np.float32)[:count])
    assert out.shape == (count, channels, 3, 4)
    assert not out.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    x, rois = image(np.float32), regions(np.float32)
    outside, huge = rois.copy(), rois.copy()
    outside[0, 0], huge[0, 3:5] = 2, 1e6
    for message, inputs, given in [
        ("input must have 4 dimensions", {"input": x[0]}, {}),
        ("rois must have .*6.* columns", {"rois": rois[:, :5]}, {}),
        ("an image that the input does not have", {"rois": outside}, {}),
        ("more than 2.26 samples", {"rois": huge}, {}),
        ("pooled height must be positive", {}, {"output_size": [0, 2]}),
        ("output_size must be a height and a width", {}, {"output_size": [1, 2, 3]}),
        ("sampling_ratio must be below", {}, {"sampling_ratio": 2**40}),
    ]:
        refused_by_both_hosts(message, "roi_align_rotated", {"input": x, "rois": rois, **inputs}, **{**GIVEN, **given})


def test_torch_accepts_the_registration() -> None:
    x, rois = torch.from_numpy(image(np.float32)).requires_grad_(), torch.from_numpy(regions(np.float32))
    torch.library.opcheck(torch.ops.opbridge.roi_align_rotated.default, (x, rois, [2, 3], 0.5))
