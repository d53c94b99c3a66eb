"""The operators on sets of points, in both hosts against their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

INT = (np.int32,)
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def points(count: int, seed: int = 0, dtype: type = np.float32, batch: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (batch, count, 3)).astype(dtype)


def squared_distances(centers: np.ndarray, all_points: np.ndarray) -> np.ndarray:
    return ((centers[:, :, None].astype(np.float64) - all_points[:, None]) ** 2).sum(-1)


@BOTH
def test_three_nn(dtype: type) -> None:
    target, source = points(20, 0, dtype), points(30, 1, dtype)
    distances = np.sqrt(squared_distances(target, source))
    expected = np.argsort(distances, axis=-1)[..., :3]
    distance, index = in_both_hosts("three_nn", {"target": target, "source": source}, outputs=(dtype, np.int32))
    np.testing.assert_array_equal(index, expected)
    np.testing.assert_allclose(distance, np.take_along_axis(distances, expected, -1), rtol=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("k", [1, 5, 30])
@BOTH
def test_knn(dtype: type, k: int, transposed: bool) -> None:
    xyz, centers = points(30, 0, dtype), points(11, 1, dtype)
    expected = np.argsort(squared_distances(centers, xyz), axis=-1)[..., :k].swapaxes(1, 2)
    inputs = {"xyz": xyz, "center_xyz": centers}
    if transposed:
        inputs = {name: np.ascontiguousarray(array.swapaxes(1, 2)) for name, array in inputs.items()}
    out = in_both_hosts("knn", inputs, outputs=INT, k=k, transposed=transposed)[0]
    np.testing.assert_array_equal(out, expected)


def test_of_equally_near_points_the_first_comes_first_and_nan_is_near_nothing() -> None:
    xyz = np.float32([[[1, 0, 0], [0, 1, 0], [np.nan, 0, 0], [0, 0, 1], [5, 5, 5]]])
    center = np.zeros((1, 1, 3), np.float32)
    assert in_both_hosts("knn", {"xyz": xyz, "center_xyz": center}, outputs=INT, k=4)[0].ravel().tolist() == [
        0,
        1,
        3,
        4,
    ]


def test_points_too_far_for_the_square_of_their_distance() -> None:
    xyz = np.float32([[[1e20, 0, 0], [np.nan, 0, 0], [2e20, 0, 0], [3e20, 0, 0], [3.5e20, 0, 0]]])
    center = np.float32([[[3e20, 0, 0]]])
    (knn,) = in_both_hosts("knn", {"xyz": xyz, "center_xyz": center}, outputs=INT, k=5)
    assert knn.ravel().tolist() == [3, 0, 2, 4, 0]
    inputs = {"target": center, "source": xyz}
    distance, index = in_both_hosts("three_nn", inputs, outputs=(np.float32, np.int32))
    assert index.ravel().tolist() == [3, 0, 2]
    assert distance.ravel().tolist() == [0, np.inf, np.inf]


@BOTH
def test_ball_query(dtype: type) -> None:
    xyz, centers = points(60, 0, dtype), points(9, 1, dtype)
    centers[0, 0] = 9  # far from all points
    centers[0, 1] = xyz[0, 7]  # at a point, which counts for every minimum distance
    given = {"min_radius": 0.25, "max_radius": 0.75, "sample_num": 6}
    squared = squared_distances(centers, xyz)
    expected = np.zeros((2, 9, 6), np.int32)
    for i, j in np.ndindex(2, 9):
        row = squared[i, j]
        found = np.flatnonzero((row == 0) | ((row >= 0.0625) & (row < 0.5625)))[:6]
        if len(found):
            expected[i, j] = found[0]
            expected[i, j, : len(found)] = found
    out = in_both_hosts("ball_query", {"xyz": xyz, "center_xyz": centers}, outputs=INT, **given)[0]
    np.testing.assert_array_equal(out, expected)


@BOTH
def test_furthest_point_sample(dtype: type) -> None:
    xyz = points(40, 0, dtype)
    expected = np.zeros((2, 12), np.int32)
    for batch in range(2):
        nearest = np.full(40, np.inf)
        for k in range(1, 12):
            last = xyz[batch, expected[batch, k - 1]].astype(np.float64)
            nearest = np.minimum(nearest, ((xyz[batch] - last) ** 2).sum(-1))
            expected[batch, k] = nearest.argmax()
    out = in_both_hosts("furthest_point_sample", {"points_xyz": xyz}, outputs=INT, num_points=12)[0]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(("at_nan", "expected"), [(0, [0, 1, 4, 3, 2]), (2, [0, 2, 4, 3, 1])])
def test_furthest_point_sample_takes_a_point_at_nan_once(at_nan: int, expected: list[int]) -> None:
    xyz = np.float32([[[0, 0, 0], [1, 0, 0], [3, 0, 0], [5, 0, 0], [9, 0, 0]]])
    xyz[0, at_nan] = np.nan
    out = in_both_hosts("furthest_point_sample", {"points_xyz": xyz}, outputs=INT, num_points=5)[0]
    assert out.ravel().tolist() == expected


def features(dtype: type, channels: int = 5, count: int = 12) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((2, channels, count)).astype(dtype)


@pytest.mark.parametrize(("op", "shape"), [("gather_points", (2, 7)), ("group_points", (2, 4, 3))])
@BOTH
def test_gather_and_group(dtype: type, op: str, shape: tuple[int, ...]) -> None:
    x, indices = features(dtype), np.random.default_rng(1).integers(0, 12, shape).astype(np.int32)
    expected = np.stack([x[batch][:, indices[batch]] for batch in range(2)])
    inputs = {"features": x, "indices": indices}
    np.testing.assert_array_equal(in_both_hosts(op, inputs)[0], expected)
    operator = getattr(torch.ops.opbridge, op)
    double = torch.from_numpy(x).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: operator(x, torch.from_numpy(indices)), double)
    for empty in ({"features": x[:, :0]}, {"indices": indices[:, :0]}):
        assert in_both_hosts(op, {**inputs, **empty})[0].size == 0
    for bad in (12, -1):
        refused_by_both_hosts("there are only 12 points", op, {"features": x, "indices": np.full_like(indices, bad)})
    refused_by_both_hosts("indices must have", op, {"features": x, "indices": indices.ravel()})
    refused_by_both_hosts("the same batch", op, {"features": x, "indices": indices[:1]})


@BOTH
def test_three_interpolate(dtype: type) -> None:
    x, rng = features(dtype), np.random.default_rng(1)
    indices, weight = rng.integers(0, 12, (2, 7, 3)).astype(np.int32), rng.random((2, 7, 3)).astype(dtype)
    expected = np.einsum("bcnk,bnk->bcn", np.stack([x[b][:, indices[b]] for b in range(2)]), weight)
    inputs = {"features": x, "indices": indices, "weight": weight}
    np.testing.assert_allclose(in_both_hosts("three_interpolate", inputs)[0], expected, rtol=1e-5, atol=1e-6)
    double = [torch.from_numpy(array).double().requires_grad_() for array in (x, weight)]
    op = torch.ops.opbridge.three_interpolate
    assert torch.autograd.gradcheck(lambda x, w: op(x, torch.from_numpy(indices), w), double)
    refused_by_both_hosts("there are only 12 features", "three_interpolate", {**inputs, "indices": indices + 12})
    refused_by_both_hosts("indices and weight must have", "three_interpolate", {**inputs, "weight": weight[:, 1:]})
    refused_by_both_hosts("indices must have the shape", "three_interpolate", {**inputs, "indices": indices[:, :, :2]})


@BOTH
def test_points_in_boxes(dtype: type) -> None:
    xyz, rng = points(300, 0, dtype), np.random.default_rng(1)
    boxes = np.concatenate(
        [rng.uniform(-1, 0.5, (2, 6, 3)), rng.uniform(0.2, 1.2, (2, 6, 3)), rng.uniform(-4, 4, (2, 6, 1))], axis=-1
    ).astype(dtype)
    inside = np.zeros((2, 300, 6), np.int32)
    for batch, box in np.ndindex(2, 6):
        x, y, z, length, width, height, angle = boxes[batch, box].astype(np.float64)
        away = xyz[batch] - [x, y, z]
        along = away[:, 0] * np.cos(angle) + away[:, 1] * np.sin(angle)
        across = away[:, 1] * np.cos(angle) - away[:, 0] * np.sin(angle)
        upright = (away[:, 2] >= 0) & (away[:, 2] <= height)
        inside[batch, :, box] = upright & (np.abs(along) < length / 2) & (np.abs(across) < width / 2)
    first = np.where(inside.any(-1), inside.argmax(-1), -1)
    assert 0 < (first >= 0).mean() < 1
    inputs = {"points": xyz, "boxes": boxes}
    np.testing.assert_array_equal(in_both_hosts("points_in_boxes_all", inputs, outputs=INT)[0], inside)
    np.testing.assert_array_equal(in_both_hosts("points_in_boxes_part", inputs, outputs=INT)[0], first)
    inputs["points"][:] = np.nan
    assert not in_both_hosts("points_in_boxes_all", inputs, outputs=INT)[0].any()
    inputs["boxes"] = boxes[:, :0]
    assert (in_both_hosts("points_in_boxes_part", inputs, outputs=INT)[0] == -1).all()
    for op in ("points_in_boxes_all", "points_in_boxes_part"):
        refused_by_both_hosts("boxes must have the shape", op, {"points": xyz, "boxes": boxes[..., :6]}, outputs=INT)
        refused_by_both_hosts("points must have the shape", op, {"points": xyz[..., :2], "boxes": boxes}, outputs=INT)


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    xyz, few = points(9), points(2)
    two = {"xyz": xyz, "center_xyz": few}
    ball = {"min_radius": 0.0, "max_radius": 1.0, "sample_num": 3}
    for message, op, inputs, given in [
        ("source must have three points", "three_nn", {"target": xyz, "source": few}, {}),
        ("target must have 3 dimensions", "three_nn", {"target": xyz[0], "source": xyz}, {}),
        ("source must have the shape", "three_nn", {"target": xyz, "source": xyz[:1]}, {}),
        ("k must be from 1 to 100", "knn", two, {"k": 0}),
        ("k must be from 1 to 100", "knn", two, {"k": 2**40}),
        ("xyz must have k points", "knn", two, {"k": 10}),
        ("xyz must hold points", "knn", two, {"k": 1, "transposed": True}),
        ("max_radius must be greater", "ball_query", two, {**ball, "min_radius": 2.0}),
        ("sample_num must be positive", "ball_query", two, {**ball, "sample_num": 0}),
        ("more elements than memory", "ball_query", two, {**ball, "sample_num": 2**62}),
        ("num_points must be at most", "furthest_point_sample", {"points_xyz": xyz}, {"num_points": 10}),
        ("num_points must be positive", "furthest_point_sample", {"points_xyz": xyz}, {"num_points": 0}),
    ]:
        outputs = (np.float32, np.int32) if op == "three_nn" else INT
        refused_by_both_hosts(message, op, inputs, outputs=outputs, **given)


def test_fake_and_real_shapes_agree() -> None:
    xyz, x = torch.from_numpy(points(9)), torch.from_numpy(features(np.float32))
    ops, indices = torch.ops.opbridge, torch.zeros(2, 4, dtype=torch.int32)
    torch.library.opcheck(ops.three_nn.default, (xyz, xyz))
    torch.library.opcheck(ops.knn.default, (3, xyz, xyz))
    torch.library.opcheck(ops.ball_query.default, (0.0, 1.0, 4, xyz, xyz))
    torch.library.opcheck(ops.furthest_point_sample.default, (xyz, 4))
    torch.library.opcheck(ops.gather_points.default, (x.requires_grad_(), indices))
    torch.library.opcheck(ops.points_in_boxes_all.default, (xyz, torch.rand(2, 3, 7)))
