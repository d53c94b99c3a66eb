"""Operators on the representation of numbers: nextafter, frexp, hash_tensor; and lcm."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from lowering_check import check
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge

ODD = [0.0, -0.0, 1.0, -1.0, 1e-40, -1e-45, 65504.0, 3.4e38, math.nan, math.inf, -math.inf]
FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


@FLOATS
def test_nextafter(dtype: torch.dtype) -> None:
    odd = torch.tensor(ODD, dtype=dtype)
    check(torch.nextafter, odd[:, None], odd, rtol=0, atol=0)
    check(torch.nextafter, torch.rand(2, 1, 3, dtype=dtype), torch.rand(4, 1, dtype=dtype), rtol=0, atol=0)
    check(torch.nextafter, torch.rand(0, 3, dtype=dtype), torch.rand(3, dtype=dtype))


def test_nextafter_is_refused_where_shapes_do_not_broadcast() -> None:
    inputs = {"self": np.zeros((2, 3), np.float32), "other": np.zeros(2, np.float32)}
    refused_by_both_hosts("do not broadcast", "nextafter", inputs)


@FLOATS
def test_frexp(dtype: torch.dtype) -> None:
    check(torch.frexp, torch.tensor(ODD, dtype=dtype), rtol=0, atol=0)
    check(torch.frexp, torch.randn(2, 3, dtype=dtype) * 100, rtol=0, atol=0)
    check(torch.frexp, torch.tensor(5.0, dtype=dtype), rtol=0, atol=0)


def test_frexp_in_both_hosts() -> None:
    values = np.array([5e-324, 0.75, -3.0])
    mantissa, exponent = in_both_hosts("frexp", {"self": values}, outputs=(np.float64, np.int32))
    np.testing.assert_array_equal(np.ldexp(mantissa, exponent), values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_hash_tensor(dtype: torch.dtype) -> None:
    functions = {
        "all": torch.hash_tensor,
        "one": lambda x: torch.hash_tensor(x, 1),
        "kept": lambda x: torch.hash_tensor(x, (0, -1), keepdim=True),
    }
    check(functions, (torch.randn(2, 3, 4) * 50).to(dtype))
    check({"all": torch.hash_tensor, "dim 0": lambda x: torch.hash_tensor(x, 0)}, torch.ones((), dtype=dtype))
    check(functions["one"], torch.ones((0, 3), dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_lcm(dtype: torch.dtype) -> None:
    numbers = torch.tensor([0, 1, 4, 6, 99, 100, 127], dtype=dtype)
    check(torch.lcm, numbers[:, None], numbers if dtype == torch.uint8 else -numbers)
