"""Backward operators that a captured program calls."""

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge

aten = torch.ops.aten


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_of_softmax_and_dropout(dtype):
    functions = {
        "softmax": lambda x, y: aten._softmax_backward_data(x, y.softmax(1), 1, dtype),
        "log_softmax": lambda x, y: aten._log_softmax_backward_data(x, y.log_softmax(-1), -1, dtype),
        "of a number": lambda x, y: aten._softmax_backward_data(x[0, 0], y[0, 0].softmax(0), 0, dtype),
        "dropout": lambda x, y: aten.native_dropout_backward(x, y > 0, 1.25),
    }
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}
    check(functions, torch.randn(3, 5, dtype=dtype), torch.randn(3, 5, dtype=dtype), **tolerance)


def test_of_softmax_at_infinity():
    y = torch.tensor([[torch.inf, 0.5, 0.25], [1.0, torch.inf, torch.nan]])
    functions = {
        "softmax": lambda x, y: aten._softmax_backward_data(x, y, 0, torch.float32),
        "log_softmax": lambda x, y: aten._log_softmax_backward_data(x, y, 0, torch.float32),
    }
    check(functions, torch.tensor([[2.0, -1.0, 3.0], [4.0, 0.5, torch.inf]]), y)


def test_of_softmax_in_another_type_is_refused():
    x = torch.ones(2, 3, dtype=torch.float64)
    with pytest.raises(opbridge.UnsupportedError, match="input_dtype"):
        check(lambda x: aten._softmax_backward_data(x, x, 1, torch.float32), x)


@pytest.mark.parametrize("shape", [(2, 3, 8, 7), (3, 8, 7)])
def test_of_max_pool(shape):
    def backward(x):
        pooled, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
        return aten.max_pool2d_with_indices_backward(pooled * 2, x, [3, 3], [2, 2], [1, 1], [1, 1], False, places)

    check(backward, torch.randn(shape))
