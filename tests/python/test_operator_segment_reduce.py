"""Reductions of segments, in both hosts and as the export of torch.segment_reduce."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from lowering_check import check
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

REDUCTIONS = ("sum", "mean", "max", "min", "prod")


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("initial", [None, 0.1])
def test_along_the_first_dim(dtype: torch.dtype, initial: float | None) -> None:
    data = torch.randn(9, 2, 3, dtype=dtype)
    data[4, 1, 2] = math.nan
    lengths, offsets = torch.tensor([3, 0, 4, 2]), torch.tensor([0, 3, 3, 7, 9])
    for name, function in {
        "lengths": lambda x, p, how: torch.segment_reduce(x, how, lengths=p, initial=initial, unsafe=True),
        "offsets": lambda x, p, how: torch.segment_reduce(x, how, offsets=p, initial=initial),
    }.items():
        functions = {how: lambda x, p, f=function, how=how: f(x, p, how) for how in REDUCTIONS}
        check(functions, data, lengths if name == "lengths" else offsets)


def test_along_a_later_dim() -> None:
    lengths = torch.tensor([[1, 2, 2], [5, 0, 0]])
    functions = {
        how: lambda x, p, how=how: torch.segment_reduce(x, how, lengths=p, axis=1, unsafe=True) for how in REDUCTIONS
    }
    check(functions, torch.randn(2, 5, 3), lengths)
    check(functions, torch.randn(2, 5, 0), lengths)


def test_an_open_number_of_segments() -> None:
    count = torch.export.Dim("count")
    check(
        lambda x, p: torch.segment_reduce(x, "sum", lengths=p, unsafe=True),
        torch.rand(6),
        torch.tensor([1, 2, 3]),
        dynamic=({}, {0: count}),
        also=[(torch.rand(6), torch.tensor([6, 0]))],
    )


def test_in_both_hosts() -> None:
    inputs = {
        "data": np.array([3.0, 4.0, 5.0]),
        "offsets": np.array([0, 2, 2]),
        "initial": np.array(2.0),
    }
    np.testing.assert_array_equal(in_both_hosts("segment_reduce", inputs, reduce="prod")[0], [24, 2])


HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "reduce must be sum": ({}, "median"),
    "must ascend from 0 to 3": ({"offsets": np.array([0, 4])}, "sum"),
    "must ascend from 0": ({"offsets": np.array([2, 1])}, "sum"),
    "must ascend": ({"offsets": np.array([-1, 3])}, "sum"),
    "must hold the end of the last segment": ({"offsets": np.zeros(0, np.int64)}, "sum"),
    "at most as many as data": ({"offsets": np.zeros((3, 1), np.int64)}, "sum"),
    "must be a scalar": ({"initial": np.zeros(2)}, "sum"),
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_arguments(message: str) -> None:
    changed, reduce = HOSTILE[message]
    inputs = {"data": np.ones(3), "offsets": np.array([0, 3]), "initial": None} | changed
    refused_by_both_hosts(message, "segment_reduce", inputs, reduce=reduce)


def test_lengths_and_offsets_that_disagree_are_refused() -> None:
    """If both are given, PyTorch's kernel reads one of them, and its shape rule reads the other."""
    reduce = torch.ops.aten.segment_reduce.default
    data, offsets = torch.rand(4), torch.tensor([0, 1, 4])
    check(lambda x, n, at: reduce(x, "sum", lengths=n, offsets=at), data, torch.tensor([1, 3]), offsets)
    with pytest.raises(opbridge.UnsupportedError, match="different numbers of segments"):
        check(lambda x, n, at: reduce(x, "sum", lengths=n, offsets=at), data, torch.tensor([4]), offsets)
