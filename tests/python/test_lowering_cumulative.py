import math

import pytest
import torch
from lowering_check import check

FUNCTIONS = {
    "cumsum": lambda x: x.cumsum(1),
    "cumsum in float64": lambda x: x.cumsum(-1, dtype=torch.float64),
    "cumprod": lambda x: x.cumprod(1),
    "cumprod over the last": lambda x: x.cumprod(-1),
    "cummax": lambda x: tuple(x.cummax(0)),
    "cummin": lambda x: tuple(x.cummin(1)),
}
OF_FLOATS = {"logcumsumexp": lambda x: x.logcumsumexp(1)}


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_opsets(opset):
    check(FUNCTIONS | OF_FLOATS, torch.randn(3, 4, 5), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_other_floats(dtype):
    tolerance = {"rtol": 5e-3, "atol": 5e-3} if dtype == torch.float16 else {}
    check(FUNCTIONS | OF_FLOATS, torch.randn(3, 4, 2).to(dtype), **tolerance)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool])
def test_integers(dtype):
    check(FUNCTIONS, torch.tensor([[3, 1, 3, 0], [2, 2, 1, 5]]).to(dtype))


def test_nan_and_infinity():
    x = torch.tensor([[1.0, math.nan, 3.0, math.inf], [-math.inf, -math.inf, 2.0, 2.0]])
    check(FUNCTIONS | OF_FLOATS, x)


def test_dynamic_shapes():
    check(FUNCTIONS | OF_FLOATS, torch.randn(2, 3, 4), dynamic=({0: "a", 1: "b"},), also=[(torch.randn(4, 6, 4),)])


@pytest.mark.parametrize("empty", [(0, 3, 4), (2, 0, 4), (0, 0, 4)])
def test_axes_that_become_empty(empty):
    functions = FUNCTIONS | OF_FLOATS
    check(functions, torch.randn(2, 3, 4), dynamic=({0: "a", 1: "b"},), also=[(torch.randn(empty),)])


@pytest.mark.parametrize("shape", [(), (0, 3), (1,)])
def test_no_dims_and_no_elements(shape):
    functions = {
        "cumsum": lambda x: x.cumsum(0),
        "cumprod": lambda x: x.cumprod(0),
        "cummax": lambda x: tuple(x.cummax(0)),
        "logcumsumexp": lambda x: x.logcumsumexp(0),
    }
    check(functions, torch.ones(shape))


def test_sums_and_products_that_overflow_on_the_way():
    x = torch.tensor([[3e38, 3e38, -3e38, 1.0], [1e30, 1e30, 1e-30, 0.0], [3e38, 3e38, -math.inf, 0.0]])
    check({"cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(1)}, x)
