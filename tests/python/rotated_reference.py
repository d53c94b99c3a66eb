"""Overlaps of rotated boxes, from their definition: polygons cut by half planes, in float64."""

from __future__ import annotations

import numpy as np


def corners(box: np.ndarray, direction: float = 1.0) -> np.ndarray:
    x, y, width, height, angle = np.asarray(box, np.float64)
    turn = np.array([[np.cos(angle), -np.sin(angle) * direction], [np.sin(angle) * direction, np.cos(angle)]])
    around = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * [width / 2, height / 2]
    return around @ turn.T + [x, y]


def area(polygon: np.ndarray) -> float:
    if len(polygon) < 3:
        return 0.0
    x, y = polygon.T
    return abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))) / 2


def intersection(a: np.ndarray, b: np.ndarray) -> float:
    """The intersection of two convex polygons with the same orientation."""
    kept = list(a)
    for start, end in zip(b, np.roll(b, -1, axis=0), strict=True):
        points, kept = kept, []
        edge = end - start

        def side(point: np.ndarray, start: np.ndarray = start, edge: np.ndarray = edge) -> float:
            return float(edge[0] * (point[1] - start[1]) - edge[1] * (point[0] - start[0]))

        for i, point in enumerate(points):
            after = points[(i + 1) % len(points)]
            here, there = side(point), side(after)
            if here >= 0:
                kept.append(point)
            if here * there < 0:
                kept.append(point + (after - point) * here / (here - there))
    return area(np.array(kept).reshape(-1, 2))


def overlap(a: np.ndarray, b: np.ndarray, mode: str = "iou", direction: float = 1.0) -> float:
    first, second = corners(a, direction), corners(b, direction)
    common, first_area, second_area = intersection(first, second), area(first), area(second)
    if first_area == 0 or second_area == 0:
        return 0.0
    return common / (first_area + second_area - common if mode == "iou" else first_area)


def boxes(count: int, seed: int, dtype: type = np.float64) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = [rng.uniform(0, 30, (count, 2)), rng.uniform(1, 20, (count, 2)), rng.uniform(-4, 4, (count, 1))]
    return np.concatenate(rows, axis=1).astype(dtype)
