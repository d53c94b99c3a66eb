"""opbridge::box_iou_rotated in both hosts against polygons cut in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts
from rotated_reference import boxes, overlap

import opbridge


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def overlaps(a: np.ndarray, b: np.ndarray, **options: object) -> np.ndarray:
    return in_both_hosts("box_iou_rotated", {"bboxes1": a, "bboxes2": b}, **options)[0]


@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("mode", ["iou", "iof"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_definition(dtype: type, mode: str, clockwise: bool) -> None:
    a, b = boxes(12, 0, dtype), boxes(15, 1, dtype)
    direction = 1 if clockwise else -1
    expected = np.array([[overlap(x, y, mode, direction) for y in b] for x in a])
    assert (expected > 0).mean() > 0.2
    tolerance = 1e-6 if dtype is np.float32 else 1e-12
    out = overlaps(a, b, mode=mode, clockwise=clockwise)
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    aligned = overlaps(a, b[:12], mode=mode, clockwise=clockwise, aligned=True)
    np.testing.assert_allclose(aligned, np.diag(expected[:, :12]), rtol=tolerance, atol=tolerance)


def test_boxes_that_share_sides_and_corners() -> None:
    box = np.array([10, 10, 8, 4, 0.3])
    turned = box + np.array([0, 0, -4, 4, np.pi / 2])  # the same box
    quarter = np.array([10, 10, 4, 2, 0.3])
    beside = box + np.array([8 * np.cos(0.3), 8 * np.sin(0.3), 0, 0, 0])
    out = overlaps(box[None], np.stack([box, turned, quarter, beside]))
    np.testing.assert_allclose(out, [[1, 1, 0.25, 0]], atol=1e-12)


def test_boxes_without_area_overlap_nothing_and_nan_stays_nan() -> None:
    a = boxes(3, 0)
    a[0, 2] = 0
    a[1, 3] = np.nan
    out = overlaps(a, boxes(4, 1))
    assert not out[0].any()
    assert np.isnan(out[1]).all()
    assert np.isfinite(out[2]).all()


@pytest.mark.parametrize(("first", "second"), [(0, 3), (3, 0), (0, 0)])
def test_zero_sizes(first: int, second: int) -> None:
    assert overlaps(boxes(first, 0), boxes(second, 1)).shape == (first, second)


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    a, b = boxes(3, 0, np.float32), boxes(4, 1, np.float32)
    for message, first, second, options in [
        ("bboxes1 must have 2 dimensions", a[0], b, {}),
        ("bboxes1 must have the shape", a[:, :4], b, {}),
        ("bboxes2 must have the shape", a, b[:, :4], {}),
        ("bboxes2 must have the shape", a, b, {"aligned": True}),
        ("mode must be 'iou' or 'iof', not 'giou'", a, b, {"mode": "giou"}),
    ]:
        refused_by_both_hosts(message, "box_iou_rotated", {"bboxes1": first, "bboxes2": second}, **options)


def test_fake_and_real_shapes_agree() -> None:
    tensors = torch.from_numpy(boxes(3, 0)), torch.from_numpy(boxes(4, 1))
    torch.library.opcheck(torch.ops.opbridge.box_iou_rotated.default, tensors)
