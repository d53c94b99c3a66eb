"""opbridge::nms_rotated and mmdeploy::NMSRotated against suppression written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts
from rotated_reference import boxes, overlap

import opbridge
from opbridge.operators import COMPAT


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)


def reference(
    dets: np.ndarray, scores: np.ndarray, threshold: float, labels: np.ndarray | None = None, direction: float = 1.0
) -> list[int]:
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        rivals = [j for j in kept if labels is None or labels[i] == labels[j]]
        if all(overlap(dets[i], dets[j], direction=direction) <= threshold for j in rivals):
            kept.append(int(i))
    return kept


def kept(inputs: dict[str, np.ndarray | None], **options: object) -> list[int]:
    return in_both_hosts("nms_rotated", inputs, outputs=(np.int64,), **options)[0].tolist()


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_definition(dtype: type, clockwise: bool, labelled: bool) -> None:
    dets = boxes(150, 0, dtype)
    rng = np.random.default_rng(2)
    scores, labels = rng.permutation(150).astype(dtype), rng.integers(0, 3, 150) if labelled else None
    for threshold in (0.05, 0.4):
        expected = reference(dets, scores, threshold, labels, 1 if clockwise else -1)
        assert 5 < len(expected) < 140
        inputs = {"dets": dets, "scores": scores, "labels": labels}
        assert kept(inputs, iou_threshold=threshold, clockwise=clockwise) == expected


def test_boxes_far_from_the_origin() -> None:
    """Coordinates at which the spacing of float32 exceeds the size of the boxes."""
    dets = np.array([[5e6 + 0.24, 5e6, 0.2, 0.2, 0.3], [5e6 + 0.26, 5e6, 0.2, 0.2, 0.3], [1e39, 0, 1, 1, 0]])
    scores = np.array([0.9, 0.8, 0.7])
    assert kept({"dets": dets, "scores": scores, "labels": None}, iou_threshold=0.5, clockwise=True) == [0, 2]
    twice = {"dets": dets[[2, 2]], "scores": scores[:2], "labels": None}
    assert kept(twice, iou_threshold=0.5, clockwise=True) == [0]


def test_operator_of_mmdeploy() -> None:
    dets = np.stack([boxes(40, 0, np.float32), boxes(40, 1, np.float32)])
    scores = np.random.default_rng(2).random((2, 3, 40)).astype(np.float32)
    given = {"iou_threshold": 0.25, "score_threshold": 0.5}
    expected = []
    for image in range(2):
        for label in range(3):
            candidates = np.flatnonzero(scores[image, label] > 0.5)
            chosen = reference(dets[image, candidates], scores[image, label, candidates], 0.25)
            expected += [[image, label, candidates[i]] for i in chosen]
    inputs = {"boxes": dets, "scores": scores}
    out = in_both_hosts("NMSRotated", inputs, domain="mmdeploy", outputs=(np.int64,), **given)[0]
    assert out.tolist() == expected
    inputs = {"boxes": dets[:, :, :4], "scores": scores}
    refused_by_both_hosts(
        "boxes must have the shape", "NMSRotated", inputs, domain="mmdeploy", outputs=(np.int64,), **given
    )


def test_boxes_without_area_or_at_nan_do_not_vanish() -> None:
    dets = boxes(20, 0)
    dets[:4, 2] = 0
    dets[4:6, 0] = np.nan
    found = kept({"dets": dets, "scores": np.arange(20.0)}, iou_threshold=0.1)
    assert set(range(6)) <= set(found)


def test_no_boxes() -> None:
    assert kept({"dets": boxes(0, 0), "scores": np.zeros(0)}, iou_threshold=0.1) == []


def test_hostile_shapes_are_errors_in_both_hosts() -> None:
    dets, scores = boxes(4, 0, np.float32), np.zeros(4, np.float32)
    for message, inputs in {
        "boxes must have 2 dimensions": {"dets": dets[0], "scores": scores},
        "boxes must have .*5.* columns": {"dets": dets[:, :4], "scores": scores},
        "scores must have the shape": {"dets": dets, "scores": scores[:3]},
        "labels must have the shape": {"dets": dets, "scores": scores, "labels": np.zeros(3, np.int64)},
    }.items():
        refused_by_both_hosts(message, "nms_rotated", inputs, outputs=(np.int64,), iou_threshold=0.1)


def test_fake_and_real_shapes_agree() -> None:
    tensors = torch.from_numpy(boxes(20, 0)), torch.arange(20.0, dtype=torch.float64), 0.1
    torch.library.opcheck(torch.ops.opbridge.nms_rotated.default, tensors)
