"""opbridge::heatmaps_to_keypoints in both hosts against torchvision's loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

roi_heads = pytest.importorskip("torchvision.models.detection.roi_heads")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def maps_and_rois(count: int, size: tuple[int, int], seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(-5, 40, (count, 2))
    rois = np.concatenate([low, low + rng.uniform(0, 90, (count, 2))], axis=1)
    return {
        "maps": rng.standard_normal((count, 3, *size)).astype(np.float32),
        "rois": rois.astype(np.float32),
    }


def found(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    dtype = inputs["maps"].dtype
    return in_both_hosts("heatmaps_to_keypoints", inputs, outputs=(dtype, dtype))


@pytest.mark.parametrize("size", [(56, 56), (7, 12), (3, 2)])
@pytest.mark.parametrize("count", [1, 9])
def test_agrees_with_torchvision(count: int, size: tuple[int, int]) -> None:
    inputs = maps_and_rois(count, size)
    expected = roi_heads.heatmaps_to_keypoints(*map(torch.from_numpy, inputs.values()))
    for actual, wanted in zip(found(inputs), expected, strict=True):
        np.testing.assert_allclose(actual, wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_float64_agrees_with_float32() -> None:
    inputs = maps_and_rois(5, (14, 14))
    wide = found({name: array.astype(np.float64) for name, array in inputs.items()})
    for narrow, exact in zip(found(inputs), wide, strict=True):
        np.testing.assert_allclose(narrow, exact, rtol=1e-5, atol=1e-5)


def test_a_box_of_no_size_is_a_pixel() -> None:
    inputs = {"maps": np.ones((1, 1, 4, 4), np.float32), "rois": np.float32([[3, 4, 3, 4]])}
    keypoints, scores = found(inputs)
    np.testing.assert_allclose(keypoints[:, 0], [[3.5, 4.5, 1]])
    np.testing.assert_allclose(scores, 1)


def test_nan_is_the_greatest() -> None:
    inputs = maps_and_rois(1, (6, 6))
    inputs["maps"][0, 1, 3, 3] = np.nan
    scores = found(inputs)[1]
    assert np.isnan(scores).tolist() == [[False, True, False]]


def test_no_boxes() -> None:
    keypoints, scores = found(maps_and_rois(0, (5, 5)))
    assert (keypoints.shape, scores.shape) == ((0, 3, 3), (0, 3))


@pytest.mark.parametrize(
    ("message", "maps", "rois"),
    [
        ("maps must have 4 dimensions", (3, 5, 5), (3, 4)),
        ("rois must have the shape", (3, 1, 5, 5), (2, 4)),
        ("maps must not be empty", (3, 1, 0, 5), (3, 4)),
    ],
)
def test_hostile_shapes_are_errors_in_both_hosts(message: str, maps: tuple[int, ...], rois: tuple[int, ...]) -> None:
    inputs = {"maps": np.zeros(maps, np.float32), "rois": np.zeros(rois, np.float32)}
    refused_by_both_hosts(message, "heatmaps_to_keypoints", inputs, outputs=(np.float32, np.float32))


@pytest.mark.parametrize("far", [np.inf, np.nan, 1e9])
def test_boxes_without_an_end_are_errors_in_both_hosts(far: float) -> None:
    inputs = maps_and_rois(1, (5, 5))
    inputs["rois"][0, 2] = far
    refused_by_both_hosts("must be finite", "heatmaps_to_keypoints", inputs, outputs=(np.float32, np.float32))


@pytest.mark.parametrize(("box", "size"), [((1e6, 1e6), (5, 5)), ((8193, 8193), (5, 5)), ((1e6, 1), (100, 1))])
def test_boxes_of_too_many_pixels_are_errors_in_both_hosts(box: tuple[float, ...], size: tuple[int, int]) -> None:
    inputs = {"maps": np.zeros((1, 1, *size), np.float32), "rois": np.float32([[0, 0, *box]])}
    refused_by_both_hosts("more than 2.26 pixels", "heatmaps_to_keypoints", inputs, outputs=(np.float32, np.float32))


def test_torch_accepts_the_registration() -> None:
    tensors = tuple(map(torch.from_numpy, maps_and_rois(2, (5, 5)).values()))
    torch.library.opcheck(torch.ops.opbridge.heatmaps_to_keypoints.default, tensors)
