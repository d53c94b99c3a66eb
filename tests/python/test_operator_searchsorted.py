"""searchsorted, in both hosts and as the export of PyTorch's operator."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from lowering_check import check, operators
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

INT = (np.int64,)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_one_sequence_and_one_for_each_row(dtype: type, right: bool) -> None:
    rng = np.random.default_rng(0)
    edges = np.sort(rng.integers(-5, 5, (2, 3, 20)).astype(dtype))
    values = rng.integers(-7, 7, (2, 3, 9)).astype(dtype)
    for sequence in (edges, edges[0, 0], edges[..., :0], edges[0, 0, :0]):
        inputs = {"sorted_sequence": sequence, "self": values}
        expected = torch.searchsorted(torch.tensor(sequence), torch.tensor(values), right=right)
        np.testing.assert_array_equal(in_both_hosts("searchsorted", inputs, outputs=INT, right=right)[0], expected)


def test_what_an_export_makes_of_long_sequences() -> None:
    functions = {
        "bucketize": torch.bucketize,
        "right, int32": lambda x, edges: torch.bucketize(x, edges, right=True, out_int32=True),
        "rows": lambda x, edges: torch.searchsorted(edges.expand(3, 100), x),
        "number": lambda x, edges: torch.searchsorted(edges, 2),
    }
    x = torch.randn(3, 4)
    x[0] = torch.tensor([math.nan, math.inf, -math.inf, 0.0])
    model = check(functions, x, torch.randn(100).sort().values)
    assert operators(model).count("searchsorted") == 4
    check(torch.bucketize, x.half(), torch.arange(100))
    assert "searchsorted" not in operators(check(torch.bucketize, x, torch.arange(64.0)))


def test_hostile_shapes() -> None:
    x = np.zeros((2, 3))
    refused_by_both_hosts(
        "must have a dimension", "searchsorted", {"sorted_sequence": np.zeros(()), "self": x}, outputs=INT
    )
    refused_by_both_hosts("or as many", "searchsorted", {"sorted_sequence": x[None], "self": x}, outputs=INT)
    refused_by_both_hosts("must agree", "searchsorted", {"sorted_sequence": x[:1], "self": x}, outputs=INT)
