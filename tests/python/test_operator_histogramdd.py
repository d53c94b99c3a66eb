"""Histograms, in both hosts and as the export of PyTorch's operator."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from dynamic_check import CAPTURES, agrees
from lowering_check import check
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


@BOTH
@pytest.mark.parametrize("density", [False, True])
def test_histogram(dtype: torch.dtype, density: bool) -> None:
    x, weight = torch.randn(4, 25, dtype=dtype), torch.rand(4, 25, dtype=dtype)
    edges = torch.tensor([-1.5, -0.1, 0.0, 0.7, 2.0], dtype=dtype)
    functions = {
        "steps": lambda x, w, e: torch.histogram(x, 7, density=density),
        "range": lambda x, w, e: torch.histogram(x, 5, range=(-1.1, 0.3), weight=w, density=density),
        "edges": lambda x, w, e: torch.histogram(x, e, weight=w, density=density),
    }
    check(functions, x, weight, edges)


@BOTH
def test_histogramdd(dtype: torch.dtype) -> None:
    points, weight = torch.randn(30, 2, 3, dtype=dtype), torch.rand(30, 2, dtype=dtype)
    edges = [torch.linspace(-1, 1, count, dtype=dtype) for count in (3, 5, 2)]
    functions = {
        "steps": lambda p, w, *e: tuple(torch.histogramdd(p, [2, 3, 4], density=True)),
        "one": lambda p, w, *e: tuple(torch.histogramdd(p, 3, weight=w)),
        "range": lambda p, w, *e: tuple(torch.histogramdd(p, [2, 3, 4], range=[-1, 1.1, 0, 1, -0.3, 2.0])),
        "edges": lambda p, w, *e: tuple(torch.histogramdd(p, e, weight=w)),
    }
    check(functions, points, weight, *edges)


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.histogram(x, 4),
        lambda x: torch.histogram(x, torch.linspace(-1, 1, 5), weight=x.abs(), density=True),
        lambda x: torch.histogramdd(x, [3, 4]),
        lambda x: torch.histogramdd(x, [torch.linspace(-1, 1, 5), torch.linspace(-2, 1, 3)]),
    ],
)
def test_dynamic_sizes(function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [((rows, 2),) for rows in (6, 1, 2, 9)]
    agrees(function, shapes, ({0: "n"},), capture, tmp_path, torch.randn)


@BOTH
def test_values_at_edges_and_beyond(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.0, 1.5, -0.1, 1.6, math.nan, math.inf, -math.inf], dtype=dtype)
    check(lambda x, e: torch.histogram(x, e), x, torch.tensor([0.0, 1.0, 1.5], dtype=dtype))
    check(lambda x: torch.histogram(x, 3, range=(0.0, 1.5)), x)


@BOTH
def test_nothing_and_a_single_value(dtype: torch.dtype) -> None:
    check(lambda x: torch.histogram(x, 2), torch.empty(0, dtype=dtype))
    check(lambda x: torch.histogram(x, 2), torch.tensor([2.0, 2.0], dtype=dtype))


def test_numbers_in_both_hosts() -> None:
    points = np.random.default_rng(0).normal(size=(50, 2))
    edges = {"x": np.array([-1.0, 0.0, 0.5, 2.0]), "y": np.array([-2.0, 0.3, 0.9])}
    expected = np.histogramdd(points, list(edges.values()))[0]
    library = torch.ops.opbridge.histogramdd(torch.tensor(points), None, [torch.tensor(e) for e in edges.values()])
    np.testing.assert_array_equal(library, expected)


HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bins must be positive": ({}, {"bins": [0, 1]}),
    "bins must hold a number for each coordinate": ({}, {"bins": [3]}),
    "must be finite where no range": ({"self": np.array([[np.nan, 1]])}, {"bins": [1, 1]}),
    "must hold points": ({"self": np.zeros(3)}, {"bins": [1]}),
    "not end before it begins": ({"range": np.array([[1.0, 0.0], [0.0, 1.0]])}, {"bins": [1, 1]}),
    "range must have the shape": ({"range": np.zeros((2, 3))}, {"bins": [1, 1]}),
}


@pytest.mark.parametrize("message", HOSTILE)
def test_edges_of_hostile_arguments(message: str) -> None:
    inputs, arguments = HOSTILE[message]
    inputs = {"self": np.zeros((4, 2)), "range": None} | inputs
    refused_by_both_hosts(message, "histogramdd_edges", inputs, outputs=(np.float64,) * 2, **arguments)


def test_edges_in_both_hosts() -> None:
    inputs = {"self": np.zeros((4, 2)), "range": np.array([[0.0, 1.0], [-1.0, 3.0]])}
    first, second = in_both_hosts("histogramdd_edges", inputs, outputs=(np.float64,) * 2, bins=[2, 4])
    np.testing.assert_array_equal(first, [0, 0.5, 1])
    np.testing.assert_array_equal(second, [-1, 0, 1, 2, 3])


def test_edges_of_integers_are_refused(tmp_path: pathlib.Path) -> None:
    edges = torch.ops.aten._histogramdd_bin_edges
    with pytest.raises(opbridge.UnsupportedError, match="in float32 or float64 alone"):
        opbridge.export(lambda x: edges(x, [2]), (torch.zeros(0, 1, dtype=torch.int32),), tmp_path / "m.onnx")


def test_points_without_coordinates_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="without coordinates"):
        opbridge.export(lambda x: torch.ops.aten.histogramdd(x, [])[0], (torch.zeros(5, 0),), tmp_path / "m.onnx")


def test_edges_that_do_not_ascend() -> None:
    edges = torch.tensor([0.2, -1.0, 0.9, 0.1, 2.0, 0.5, 3.0])
    check(lambda x, e: tuple(torch.histogramdd(x, [e, e])), torch.randn(50, 2), edges)


@BOTH
def test_edges_that_are_no_steps_of_one_size(dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    x = torch.cat([torch.randn(200, dtype=dtype) * 3, torch.tensor([0, 1, 1e9, most, -most], dtype=dtype)])
    for edges in ([-1, 0, 0, 1e-3, 0.5, 1, 1e9], [-most, -1, 0, most], [0, 0], [-math.inf, 0, 1, math.inf]):
        check(lambda x, e: torch.histogram(x, e), x, torch.tensor(edges, dtype=dtype))


def test_too_few_edges() -> None:
    with pytest.raises(RuntimeError, match="edges must be two or more"):
        torch.ops.opbridge.histogramdd(torch.zeros(3, 1), None, [torch.zeros(1)])
