"""Mathematical functions of two tensors."""

import math

import pytest
import torch
from lowering_check import check

FUNCTIONS = {
    "hypot": torch.hypot,
    "ldexp": torch.ldexp,
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "xlog1py": torch.special.xlog1py,
    "xlogy": torch.xlogy,
    "atan2": torch.atan2,
}
OF_NUMBER = {
    "xlogy of a number": lambda a, b: torch.xlogy(a, 2.0),
    "xlogy by a number": lambda a, b: torch.xlogy(0, b),
    "xlog1py of a number": lambda a, b: torch.special.xlog1py(a, 2.0),
}
A = [0.0, -0.0, 1.0, -1.0, 3.0, 1e-20, 2.5, 30.0, -0.0, 0.0, -2.0]
B = [0.0, 0.0, -1.0, -1.0, 2.0, 1e-20, 0.0, 30.0, -3.0, -4.0, 5.0]


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_float32(opset):
    check(FUNCTIONS | OF_NUMBER, torch.tensor(A), torch.tensor(B), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_floats(dtype):
    check(FUNCTIONS, torch.tensor(A, dtype=dtype), torch.tensor(B, dtype=dtype))


def test_nan_and_infinity():
    odd = torch.tensor([math.nan, math.inf, -math.inf, 0.0, 1.0])
    a, b = torch.meshgrid(odd, odd, indexing="ij")
    functions = {name: f for name, f in FUNCTIONS.items() if name != "hypot"}
    check(functions, a.clone(), b.clone())
    finite = torch.isfinite(a) | torch.isinf(a)
    check(torch.hypot, a[finite & ~b.isnan()], b[finite & ~b.isnan()])


def test_hypot_neither_overflows_nor_vanishes():
    check(torch.hypot, torch.tensor([1e30, 1e-30, 3e38]), torch.tensor([1e30, 1e-30, 1.0]))
    large = torch.tensor([1e300, 1e-300, 1e308, 0.0, math.inf], dtype=torch.float64)
    check(torch.hypot, large, large.flip(0) * 0.5)


def test_atan2_of_sums_of_minus_zero():
    normal, none = -torch.rand(4, 3), torch.zeros(4, 3)
    functions = {
        "of a sum": lambda a, b: torch.atan2(torch.linalg.cross(a, b).norm(dim=1), (a * b).sum(1)),
        "of a mean": lambda a, b: torch.atan2((a * b).mean(1, keepdim=True), -torch.ones(4, 1)),
        "of products": lambda a, b: torch.atan2(torch.einsum("ij,ij->i", a, b).view(2, 2), -torch.ones(2, 2)),
        "of elements": lambda a, b: torch.atan2(a * b, -torch.ones(4, 3)),
    }
    check(functions, normal, none, opset=21)


def test_integers():
    functions = {"atan2": torch.atan2, "xlogy": torch.xlogy, "ldexp": torch.ldexp}
    check(functions, torch.tensor([1, -2, 0, 3]), torch.tensor([2, 1, 5, 4]))
