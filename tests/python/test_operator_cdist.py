"""Distances between rows, in both hosts and as the export of PyTorch's operator."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from lowering_check import check, operators
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

ORDERS = pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, math.inf])
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def rows(*shape: int, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(dtype) / 2


@BOTH
@ORDERS
def test_cdist(dtype: type, p: float) -> None:
    for first, second in [((7, 21), (5, 21)), ((2, 1, 3, 8), (4, 6, 8)), ((3, 0), (2, 0)), ((0, 4), (2, 4))]:
        a, b = rows(*first, dtype=dtype), rows(*second, dtype=dtype)
        actual = in_both_hosts("cdist", {"x1": a, "x2": b}, p=p)[0]
        expected = torch.cdist(torch.tensor(a), torch.tensor(b), p, "donot_use_mm_for_euclid_dist")
        np.testing.assert_allclose(actual, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


@BOTH
@ORDERS
def test_pdist(dtype: type, p: float) -> None:
    for shape in [(9, 19), (1, 3), (2, 3), (0, 3), (4, 0)]:
        x = rows(*shape, dtype=dtype)
        expected = torch.nn.functional.pdist(torch.tensor(x), p)
        actual = in_both_hosts("pdist", {"self": x}, p=p)[0]
        np.testing.assert_allclose(actual, expected, rtol=1e-5 if dtype == np.float32 else 1e-12)


@ORDERS
def test_nan_and_infinity(p: float) -> None:
    a = np.array([[0.0, math.nan, 1], [0.0, math.inf, 1], [0.0, 1, 1]])
    actual = in_both_hosts("cdist", {"x1": a, "x2": np.zeros((1, 3))}, p=p)[0][:, 0]
    assert math.isnan(actual[0])
    assert actual[1] == (2 if p == 0 else math.inf)


def test_small_distances_are_exact() -> None:
    near = np.float32([[1000.0, 1000.0]]).repeat(30, 0)
    far = near + np.float32([0.0, 0.001])
    expected = float(far[0, 1]) - 1000.0
    np.testing.assert_allclose(in_both_hosts("cdist", {"x1": near, "x2": far})[0], expected, rtol=1e-6)


def test_what_an_export_makes_of_many_rows_and_of_an_open_number() -> None:
    functions = {"cdist": lambda a, b: torch.cdist(a, b, 1.0), "pdist": lambda a, b: torch.nn.functional.pdist(a)}
    model = check(functions, torch.randn(200, 20), torch.randn(50, 20))
    assert [name for name in operators(model) if "dist" in name] == ["cdist", "pdist"]
    count = torch.export.Dim("count", min=2)
    check(
        functions,
        torch.randn(6, 5),
        torch.randn(4, 5),
        dynamic=({0: count}, {}),
        also=[(torch.randn(9, 5), torch.randn(4, 5))],
    )


def test_an_order_that_float32_does_not_hold() -> None:
    x = torch.rand(6, 5, dtype=torch.float64)
    own = {
        "cdist": lambda x: torch.ops.opbridge.cdist(x, x + 1, 0.1),
        "pdist": lambda x: torch.ops.opbridge.pdist(x, 0.1),
    }
    aten = {"cdist": lambda x: torch.cdist(x, x + 1, 0.1), "pdist": lambda x: torch.nn.functional.pdist(x, 0.1)}
    check(own, x, rtol=1e-13, atol=0)
    model = check(aten, torch.rand(200, 20, dtype=torch.float64), rtol=1e-13, atol=0)
    assert [name for name in operators(model) if "dist" in name] == ["cdist", "pdist"]


def test_hostile_arguments() -> None:
    x = np.zeros((2, 3))
    refused_by_both_hosts("p must not be negative", "cdist", {"x1": x, "x2": x}, p=-1.0)
    refused_by_both_hosts("p must not be negative", "pdist", {"self": x}, p=math.nan)
    refused_by_both_hosts("must have the same length", "cdist", {"x1": x, "x2": np.zeros((2, 4))})
    refused_by_both_hosts("two dimensions or more", "cdist", {"x1": x, "x2": np.zeros(3)})
    refused_by_both_hosts("do not broadcast", "cdist", {"x1": np.zeros((2, 1, 3)), "x2": np.zeros((3, 1, 3))})
    refused_by_both_hosts("must have two dimensions", "pdist", {"self": np.zeros(3)})
