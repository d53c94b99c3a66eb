"""opbridge::soft_nms in both hosts against the algorithm written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def sample(dtype: type, count: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 40, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 30, (count, 2))], axis=1)
    return {"boxes": boxes.astype(dtype), "scores": rng.random(count).astype(dtype)}


def reference(
    boxes: np.ndarray, scores: np.ndarray, threshold: float, sigma: float, least: float, method: str, offset: int
) -> tuple[np.ndarray, list[int]]:
    boxes, scores = boxes.astype(np.float64), scores.astype(np.float64)
    left, rows, kept = list(range(len(boxes))), [], []
    areas = (boxes[:, 2:] - boxes[:, :2] + offset).prod(axis=1)
    while left:
        best = max(left, key=lambda i: scores[i])
        left.remove(best)
        kept.append(best)
        rows.append([*boxes[best], scores[best]])
        for i in left:
            common = np.minimum(boxes[best, 2:], boxes[i, 2:]) - np.maximum(boxes[best, :2], boxes[i, :2]) + offset
            shared = common.clip(0).prod()
            overlap = shared / (areas[best] + areas[i] - shared)
            if method == "gaussian":
                scores[i] *= np.exp(-(overlap**2) / sigma)
            elif overlap >= threshold:
                scores[i] *= 1 - overlap if method == "linear" else 0
        left = [i for i in left if scores[i] >= least]
    return np.array(rows).reshape(-1, 5), kept


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("method", ["naive", "linear", "gaussian"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_definition(dtype: type, method: str, offset: int) -> None:
    inputs = sample(dtype)
    given = {"iou_threshold": 0.25, "sigma": 0.5, "min_score": 0.0625, "method": method, "offset": offset}
    rows, kept = reference(*inputs.values(), *given.values())
    assert 5 < len(kept) < 60
    dets, inds = in_both_hosts("soft_nms", inputs, outputs=(dtype, np.int64), **given)
    assert inds.tolist() == kept
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(dets, rows, rtol=tolerance, atol=tolerance)


def test_no_boxes_and_boxes_at_nan() -> None:
    dets, inds = in_both_hosts("soft_nms", sample(np.float32, 0), outputs=(np.float32, np.int64))
    assert dets.shape == (0, 5)
    assert inds.shape == (0,)
    inputs = sample(np.float32)
    inputs["boxes"][3] = np.nan
    dets, inds = in_both_hosts("soft_nms", inputs, outputs=(np.float32, np.int64))
    assert len(set(inds.tolist())) == len(inds) == len(dets)
    assert 3 in inds


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    good = sample(np.float32, 4)
    for message, inputs, given in [
        ("boxes must have 2 dimensions", {"boxes": good["boxes"][0]}, {}),
        ("boxes must have .*4.* columns", {"boxes": good["boxes"][:, :3]}, {}),
        ("scores must have the shape", {"scores": good["scores"][:3]}, {}),
        ("method must be 'naive', 'linear' or 'gaussian', not 'best'", {}, {"method": "best"}),
        ("sigma must be positive", {}, {"method": "gaussian", "sigma": 0.0}),
        ("offset must be 0 or 1", {}, {"offset": 2}),
    ]:
        refused_by_both_hosts(message, "soft_nms", {**good, **inputs}, outputs=(np.float32, np.int64), **given)


def test_fake_and_real_shapes_agree() -> None:
    torch.library.opcheck(
        torch.ops.opbridge.soft_nms.default, tuple(map(torch.from_numpy, sample(np.float32).values()))
    )
