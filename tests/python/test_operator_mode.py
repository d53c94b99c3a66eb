"""The most frequent element, in both hosts and as the export of torch.mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lowering_check import check
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def values_and_what_is_at_indices(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, ...]:
    """PyTorch does not define which of equal elements' indices it returns."""
    values, indices = torch.mode(x, dim, keepdim)
    at = indices if keepdim or x.dim() == 0 else indices.unsqueeze(dim)
    return values, torch.gather(x, dim, at)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mode(dtype: torch.dtype) -> None:
    x = torch.randint(0, 4, (3, 7, 5)).to(dtype)
    functions = {
        f"{dim} {keepdim}": lambda x, dim=dim, keepdim=keepdim: values_and_what_is_at_indices(x, dim, keepdim)
        for dim in (0, 1, -1)
        for keepdim in (False, True)
    }
    check(functions, x)
    check(torch.mode, torch.ones((), dtype=dtype))
    check(torch.mode, torch.ones((0, 3), dtype=dtype))


def test_of_an_open_number_of_rows() -> None:
    rows = torch.export.Dim("rows")
    check(lambda x: torch.mode(x, 0)[0], torch.rand(4, 3), dynamic=({1: rows},), also=[(torch.rand(4, 1),)])


def test_the_last_of_the_smallest_of_the_most_frequent() -> None:
    rows = np.array([[3, 1, 3, 1, 2], [5, 4, 3, 2, 1]], np.float32)
    values, indices = in_both_hosts("mode", {"self": rows}, outputs=(np.float32, np.int64))
    np.testing.assert_array_equal(values, [1, 1])
    np.testing.assert_array_equal(indices, [3, 4])


def test_nan_comes_last_and_equals_nothing() -> None:
    nan = np.nan
    rows = np.array([[nan, nan, nan, 2], [nan, 5, 5, 1], [nan, nan, nan, nan]], np.float32)
    values, _ = in_both_hosts("mode", {"self": rows}, outputs=(np.float32, np.int64))
    np.testing.assert_array_equal(values, [2, 5, nan])


@pytest.mark.parametrize(("shape", "message"), [((), "must have a dimension"), ((2, 0), "must have elements")])
def test_what_has_no_mode(shape: tuple[int, ...], message: str) -> None:
    refused_by_both_hosts(message, "mode", {"self": np.zeros(shape, np.float32)}, outputs=(np.float32, np.int64))
