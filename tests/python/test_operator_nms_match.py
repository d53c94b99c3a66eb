"""opbridge::nms_match and mmdeploy::NMSMatch against suppression written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge
from opbridge.operators import COMPAT

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])
INTS = (np.int64, np.int64)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)


def random_boxes(count: int, dtype: type, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 40, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 30, (count, 2))], axis=1)
    return boxes.astype(dtype), rng.integers(0, count, count).astype(dtype) / max(count, 1)


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = np.prod(sides.clip(0))
    with np.errstate(invalid="ignore"):
        return common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


def reference(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[list[int]]:
    left, groups = list(np.argsort(-scores, kind="stable")), []
    while left:
        groups.append([left[0]] + [i for i in left[1:] if overlap(boxes[left[0]], boxes[i]) >= threshold])
        left = [i for i in left if i not in groups[-1]]
    return groups


def matched(dets: np.ndarray, iou_threshold: float) -> list[list[int]]:
    indices, counts = in_both_hosts("nms_match", {"dets": dets}, outputs=INTS, iou_threshold=iou_threshold)
    return [group.tolist() for group in np.split(indices, counts.cumsum()[:-1])]


@pytest.mark.parametrize("count", [1, 2, 50])
@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
@BOTH
def test_groups(dtype: type, threshold: float, count: int) -> None:
    boxes, scores = random_boxes(count, dtype)
    assert matched(np.column_stack([boxes, scores]), threshold) == reference(boxes, scores, threshold)


def test_an_overlap_of_exactly_the_threshold_is_suppressed() -> None:
    dets = np.float32([[0, 0, 10, 10, 3], [0, 0, 10, 5, 2], [0, 0, 10, 2, 1]])
    assert matched(dets, 0.5) == [[0, 1], [2]]


def test_boxes_without_area_or_at_nan_match_nothing() -> None:
    dets = np.float32([[5, 5, 5, 5, 3], [5, 5, 5, 5, 2], [np.nan, 0, 1, 1, 1], [0, 0, 9, 9, 0]])
    assert matched(dets, 0.1) == [[0], [1], [2], [3]]


def test_no_boxes() -> None:
    indices, counts = in_both_hosts(
        "nms_match", {"dets": np.zeros((0, 5), np.float32)}, outputs=INTS, iou_threshold=0.5
    )
    assert indices.shape == counts.shape == (0,)


@BOTH
def test_the_name_of_mmdeploy(dtype: type) -> None:
    boxes = np.stack([random_boxes(30, dtype, seed)[0] for seed in (0, 1)])
    scores = np.stack([[random_boxes(30, dtype, 2 * i + j)[1] for j in range(3)] for i in (0, 1)])
    expected = [
        [image, label, group[0], other]
        for image in range(2)
        for label in range(3)
        for group in reference(boxes[image], scores[image, label], 0.3)
        for other in group[1:]
        if scores[image, label, group[0]] > 0.5
    ]
    inputs = {
        "boxes": boxes,
        "scores": scores,
        "iou_threshold": np.float32([0.3]),
        "score_threshold": np.float32([0.5]),
    }
    rows = in_both_hosts("NMSMatch", inputs, domain="mmdeploy", outputs=(np.int64,))[0]
    assert rows.tolist() == expected


def test_hostile_shapes_are_errors_in_both_hosts() -> None:
    for message, shape in {"dets must have 2 dimensions": (5,), "dets must have 5 columns": (3, 4)}.items():
        refused_by_both_hosts(
            message, "nms_match", {"dets": np.zeros(shape, np.float32)}, outputs=INTS, iou_threshold=0.5
        )
    inputs = {"boxes": np.zeros((1, 2, 4), np.float32), "scores": np.zeros((1, 1, 2), np.float32)}
    thresholds = {"iou_threshold": np.zeros(2, np.float32), "score_threshold": np.zeros(1, np.float32)}
    refused_by_both_hosts(
        "a threshold must be a single number", "NMSMatch", inputs | thresholds, domain="mmdeploy", outputs=(np.int64,)
    )


def test_torch_accepts_the_registration() -> None:
    dets = torch.from_numpy(np.column_stack(random_boxes(20, np.float32)))
    torch.library.opcheck(torch.ops.opbridge.nms_match.default, (dets, 0.5))
