"""Differences and integrals along a dim."""

import pytest
import torch
from lowering_check import check

DIFFERENCES = {
    "diff": torch.diff,
    "diff of dim 0": lambda x: torch.diff(x, dim=0),
    "diff twice": lambda x: torch.diff(x, n=2),
    "diff more often than there are elements": lambda x: torch.diff(x, n=9),
    "diff with ends": lambda x: torch.diff(x, dim=0, prepend=x[:1], append=x),
}
INTEGRALS = {
    "trapezoid": torch.trapezoid,
    "trapezoid of dim 0": lambda x: torch.trapezoid(x, dim=0),
    "trapezoid of steps": lambda x: torch.trapezoid(x, dx=0.25),
    "trapezoid at places": lambda x: torch.trapezoid(x, x[0] * x[0], dim=-1),
    "trapezoid at places of each row": lambda x: torch.trapezoid(x, x.cumsum(-1)),
    "cumulative_trapezoid": torch.cumulative_trapezoid,
    "cumulative_trapezoid at places": lambda x: torch.cumulative_trapezoid(x, x[:, 0], dim=0),
}
X = [[1.0, 3.0, -2.0, 5.0, 4.0], [0.5, 0.25, 7.0, -1.0, 2.0]]


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_dynamic(opset):
    x = torch.tensor(X)
    dynamic = [{1: torch.export.Dim.DYNAMIC}]
    functions = {name: f for name, f in (DIFFERENCES | INTEGRALS).items() if "more often" not in name}
    check(functions, x, opset=opset, dynamic=dynamic, also=[(torch.cat([x, x + 1], 1),)])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_types(dtype):
    check(DIFFERENCES, (torch.tensor(X) * 2).to(dtype))


def test_one_element():
    check(DIFFERENCES | {"trapezoid": torch.trapezoid}, torch.ones(1, 1))
