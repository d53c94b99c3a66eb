"""opbridge::batched_nms in both hosts against torchvision's, class by class."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

pytest.importorskip("torchvision")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def sample(dtype: type, count: int, classes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    low = rng.uniform(0, 60, (count, 2))
    boxes = np.concatenate([low, low + rng.uniform(0, 30, (count, 2))], axis=1)
    # Scores differ, since torchvision does not define the order of equal ones.
    scores = rng.permutation(count) / 7
    idxs = rng.integers(-5, classes - 5, count) * 1_000_000_007
    return {"boxes": boxes.astype(dtype), "scores": scores.astype(dtype), "idxs": idxs}


def kept(inputs: dict[str, np.ndarray], iou_threshold: float = 0.4) -> np.ndarray:
    return in_both_hosts("batched_nms", inputs, outputs=(np.int64,), iou_threshold=iou_threshold)[0]


@pytest.mark.parametrize("classes", [1, 4, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_torchvision(dtype: type, classes: int) -> None:
    from torchvision.ops.boxes import _batched_nms_vanilla

    inputs = sample(dtype, 500, classes)
    expected = _batched_nms_vanilla(*map(torch.from_numpy, inputs.values()), 0.4)
    np.testing.assert_array_equal(kept(inputs), expected.numpy())


def test_of_equal_scores_the_first_box_comes_first() -> None:
    boxes = np.float32([[9, 9, 12, 12], [0, 0, 5, 5], [0, 0, 5, 5], [0, 0, 5, 5]])
    inputs = {"boxes": boxes, "scores": np.ones(4, np.float32), "idxs": np.array([3, 1, 1, 0])}
    assert kept(inputs).tolist() == [0, 1, 3]


def test_no_boxes() -> None:
    inputs = {"boxes": np.zeros((0, 4), np.float32), "scores": np.zeros(0, np.float32), "idxs": np.zeros(0, np.int64)}
    assert kept(inputs).shape == (0,)


def test_boxes_at_nan_do_not_vanish() -> None:
    inputs = sample(np.float32, 50, 3)
    inputs["boxes"][:5] = np.nan
    assert set(range(5)) <= set(kept(inputs))


def test_hostile_shapes_are_errors_in_both_hosts() -> None:
    inputs = sample(np.float32, 4, 2)
    for message, changed in {
        "boxes must have 2 dimensions": {"boxes": inputs["boxes"][0]},
        "boxes must have .*4.* columns": {"boxes": inputs["boxes"][:, :3]},
        "scores must have the shape": {"scores": inputs["scores"][:3]},
        "idxs must have the shape": {"idxs": inputs["idxs"][:3]},
    }.items():
        refused_by_both_hosts(message, "batched_nms", {**inputs, **changed}, outputs=(np.int64,), iou_threshold=0.5)


def test_torch_accepts_the_registration() -> None:
    tensors = [torch.from_numpy(array) for array in sample(np.float32, 20, 3).values()]
    torch.library.opcheck(torch.ops.opbridge.batched_nms.default, (*tensors, 0.5))
