"""Searches: searchsorted, bucketize, isin."""

import math

import pytest
import torch
from lowering_check import check

FUNCTIONS = {
    "isin": torch.isin,
    "isin, inverted": lambda x, edges: torch.isin(x, edges, invert=True),
    "isin of a number": lambda x, edges: torch.isin(x, 2),
    "number isin": lambda x, edges: torch.isin(2, edges),
    "bucketize": torch.bucketize,
    "bucketize, right": lambda x, edges: torch.bucketize(x, edges, right=True),
    "bucketize to int32": lambda x, edges: torch.bucketize(x, edges, out_int32=True),
    "searchsorted": lambda x, edges: torch.searchsorted(edges, x),
    "searchsorted, right": lambda x, edges: torch.searchsorted(edges, x, side="right"),
    "searchsorted of a number": lambda x, edges: torch.searchsorted(edges, 2),
}
X = [[0.0, 2.0, 7.0], [5.0, -1.0, 2.0]]
EDGES = [0.0, 2.0, 2.0, 3.0, 5.0]


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_dynamic(opset):
    x, edges = torch.tensor(X), torch.tensor(EDGES)
    dynamic = [{0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC}]
    check(FUNCTIONS, x, edges, opset=opset, dynamic=dynamic, also=[(x.repeat(2, 1), torch.cat([edges, edges + 5]))])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float64, torch.float16])
def test_types(dtype):
    check(FUNCTIONS, torch.tensor(X).to(dtype), torch.tensor(EDGES).to(dtype))


ISIN = {
    "-2 in uint8": lambda x: torch.isin(-2, x.to(torch.uint8)),
    "2^32 in int32": lambda x: torch.isin(2**32, x.int()),
    "0.1 in float32": lambda x: torch.isin(0.1, x / 10),
    "0.1 in float32, inverted": lambda x: torch.isin(0.1, x / 10, invert=True),
    "0-d in uint8": lambda x: torch.isin(torch.tensor(-2), x.to(torch.uint8)),
    "2049 in float16": lambda x: torch.isin(2049, (x + 1794).half()),
    "float16 in 2049": lambda x: torch.isin((x + 1794).half(), 2049),
}


@pytest.mark.parametrize("dynamic", [None, [{0: torch.export.Dim.DYNAMIC}]])
def test_numbers_that_the_type_does_not_hold(dynamic):
    """PyTorch takes up to 9 tests for a number's type, and none of more."""
    few, many = torch.tensor([0, 254, 1]), torch.tensor([0, 254, 1] * 4)
    check(ISIN, few, dynamic=dynamic, also=[(many,)] if dynamic else [])
    check(ISIN, many, dynamic=dynamic, also=[(few,), (many[:9],), (many[:10],)] if dynamic else [])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_many_boundaries_of_small_integers(dtype):
    check(FUNCTIONS, torch.tensor(X).to(dtype), torch.arange(100).to(dtype))


def test_rows():
    edges = torch.tensor([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
    functions = {
        "of rows": lambda edges, x: torch.searchsorted(edges.sort(-1).values, x),
        "of rows by their order": lambda edges, x: torch.searchsorted(edges, x, sorter=edges.argsort(-1)),
    }
    check(functions, edges, torch.tensor([[1.0, 4.0], [5.5, 4.0]]))


def test_infinity_and_nothing():
    edges = torch.tensor([-math.inf, 0.0, math.inf])
    check(FUNCTIONS, torch.tensor([math.inf, -math.inf, 1.0]), edges)
    check(FUNCTIONS, torch.zeros(2, 0), edges)


def test_nan():
    functions = {name: f for name, f in FUNCTIONS.items() if "number" not in name}
    check(functions, torch.tensor([math.nan, 1.0]), torch.tensor([0.0, 2.0, 3.0]))
