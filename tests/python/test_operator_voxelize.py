"""opbridge::voxelize and opbridge::dynamic_voxelize against their definitions in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])
GRID = {"voxel_size": [0.5, 0.25, 1.0], "coors_range": [-1.0, -1.0, 0.0, 1.0, 1.0, 3.0]}
OUTPUTS = (np.int32, np.int32)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def cloud(count: int, dtype: type = np.float32, features: int = 4) -> np.ndarray:
    points = np.random.default_rng(0).uniform(-1.2, 1.2, (count, features)).astype(dtype)
    points[:, 2] += 1
    return points


def indices_of(points: np.ndarray) -> np.ndarray:
    low, high = np.split(np.array(GRID["coors_range"]), 2)
    counts = np.round((high - low) / GRID["voxel_size"])
    found = np.floor((points[:, :3] - low.astype(points.dtype)) / np.array(GRID["voxel_size"], points.dtype))
    inside = ((found >= 0) & (found < counts)).all(1)
    return np.where(inside[:, None], found, -1)[:, ::-1].astype(np.int32)


def voxels_of(points: np.ndarray, max_points: int, max_voxels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    groups: dict[tuple[int, ...], list[np.ndarray]] = {}
    for point, index in zip(points, indices_of(points).tolist(), strict=True):
        if index[0] >= 0 and (tuple(index) in groups or len(groups) < max_voxels):
            groups.setdefault(tuple(index), []).append(point)
    voxels = np.zeros((len(groups), max_points, points.shape[1]), points.dtype)
    for voxel, members in zip(voxels, groups.values(), strict=True):
        voxel[: len(members)] = members[:max_points]
    counts = [min(len(members), max_points) for members in groups.values()]
    return voxels, np.array(list(groups), np.int32).reshape(-1, 3), np.array(counts, np.int32)


@BOTH
def test_dynamic(dtype: type) -> None:
    points = cloud(500, dtype)
    out = in_both_hosts("dynamic_voxelize", {"points": points}, outputs=(np.int32,), **GRID)[0]
    np.testing.assert_array_equal(out, indices_of(points))
    assert (out == -1).any()
    assert (out >= 0).any()


@pytest.mark.parametrize(("max_points", "max_voxels"), [(35, 20000), (2, 40), (1, 1), (100, 7)])
@BOTH
def test_voxels(dtype: type, max_points: int, max_voxels: int) -> None:
    points = cloud(400, dtype)
    sizes = {"max_points": max_points, "max_voxels": max_voxels}
    out = in_both_hosts("voxelize", {"points": points}, outputs=(dtype, *OUTPUTS), **GRID, **sizes)
    for actual, expected in zip(out, voxels_of(points, max_points, max_voxels), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_points_outside_at_the_border_and_at_nan() -> None:
    points = np.float32([[-1, -1, 0], [1, 0, 0], [0, 0, 3], [np.nan, 0, 0], [0, np.inf, 0], [0.999, 0.999, 2.999]])
    out = in_both_hosts("dynamic_voxelize", {"points": points}, outputs=(np.int32,), **GRID)[0]
    assert out.tolist() == [[0, 0, 0], *[[-1, -1, -1]] * 4, [2, 7, 3]]


def test_no_points() -> None:
    voxels, coors, counts = in_both_hosts("voxelize", {"points": cloud(0)}, outputs=(np.float32, *OUTPUTS), **GRID)
    assert (voxels.shape, coors.shape, counts.shape) == ((0, 35, 4), (0, 3), (0,))


@pytest.mark.parametrize(
    ("message", "shape", "changed"),
    [
        ("points must have 2 dimensions", (3,), {}),
        ("points must have columns x, y and z", (3, 2), {}),
        ("voxel_size must have three numbers", (3, 3), {"voxel_size": [1.0]}),
        ("coors_range must have six numbers", (3, 3), {"coors_range": [0.0, 1.0]}),
        ("must be positive", (3, 3), {"voxel_size": [0.5, 0.0, 1.0]}),
        ("coors_range must ascend", (3, 3), {"coors_range": [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]}),
        ("span fewer than", (3, 3), {"voxel_size": [1e-300, 1.0, 1.0]}),
        ("overflow", (3, 3), {"voxel_size": [2e-9, 2e-9, 2e-9]}),
        ("max_points and max_voxels must be positive", (3, 3), {"max_points": -1}),
    ],
)
def test_hostile_arguments_are_errors_in_both_hosts(message: str, shape: tuple[int, ...], changed: dict) -> None:
    inputs = {"points": np.zeros(shape, np.float32)}
    refused_by_both_hosts(message, "voxelize", inputs, outputs=(np.float32, *OUTPUTS), **(GRID | changed))


def test_torch_accepts_the_registration() -> None:
    points = torch.from_numpy(cloud(30))
    torch.library.opcheck(torch.ops.opbridge.voxelize.default, (points, *GRID.values(), 3, 10))
    torch.library.opcheck(torch.ops.opbridge.dynamic_voxelize.default, (points, *GRID.values()))
