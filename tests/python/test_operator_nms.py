"""opbridge::nms and opbridge::batched_nms in both hosts against torchvision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

torchvision = pytest.importorskip("torchvision")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def kept(boxes: np.ndarray, scores: np.ndarray, iou_threshold: float) -> np.ndarray:
    inputs = {"boxes": boxes, "scores": scores}
    return in_both_hosts("nms", inputs, outputs=(np.int64,), iou_threshold=iou_threshold)[0]


def boxes_and_scores(dtype: type, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 60, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0, 30, (count, 2))], axis=1)
    return boxes.astype(dtype), rng.integers(0, count, count).astype(dtype)  # some scores are equal


@pytest.mark.parametrize("iou_threshold", [0.0, 0.3, 0.5, 0.7, 1.0, -1.0])
@pytest.mark.parametrize("count", [1, 31, 32, 33, 700])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchvision(dtype: type, count: int, iou_threshold: float) -> None:
    boxes, scores = boxes_and_scores(dtype, count)
    expected = torchvision.ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), iou_threshold)
    np.testing.assert_array_equal(kept(boxes, scores, iou_threshold), expected.numpy())


def test_an_overlap_of_exactly_the_threshold_is_kept() -> None:
    boxes = np.float32([[0, 0, 10, 10], [0, 0, 10, 7], [0, 0, 10, 5]])  # 0.7 and 0.5 of the first
    scores = np.float32([3, 2, 1])
    for threshold in (0.5, 0.7):
        expected = torchvision.ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), threshold)
        np.testing.assert_array_equal(kept(boxes, scores, threshold), expected.numpy())


def test_boxes_without_area_or_at_nan_neither_suppress_nor_vanish() -> None:
    boxes, scores = boxes_and_scores(np.float32, 60)
    boxes[3] = boxes[4] = [5, 5, 5, 5]
    boxes[7, 2] = boxes[8, 0] = np.nan
    boxes[9] = [20, 20, 5, 5]
    scores[11] = np.nan
    scores[12] = -np.inf
    expected = torchvision.ops.nms(torch.from_numpy(boxes), torch.from_numpy(scores), 0.4).numpy()
    np.testing.assert_array_equal(kept(boxes, scores, 0.4), expected)
    assert {3, 4, 7, 8} <= set(expected)


def test_no_boxes() -> None:
    assert kept(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), 0.5).shape == (0,)


def test_hostile_shapes_are_errors_in_both_hosts() -> None:
    boxes, scores = boxes_and_scores(np.float32, 4)
    for message, inputs in {
        "boxes must have 2 dimensions": {"boxes": boxes[0], "scores": scores},
        "boxes must have .*4.* columns": {"boxes": boxes[:, :3], "scores": scores},
        "scores must have the shape": {"boxes": boxes, "scores": scores[:3]},
        "scores must have the shape .*": {"boxes": boxes, "scores": scores[:, None]},
    }.items():
        refused_by_both_hosts(message, "nms", inputs, outputs=(np.int64,), iou_threshold=0.5)


def test_torch_accepts_the_registration() -> None:
    boxes, scores = boxes_and_scores(np.float32, 20)
    torch.library.opcheck(torch.ops.opbridge.nms.default, (torch.from_numpy(boxes), torch.from_numpy(scores), 0.5))
