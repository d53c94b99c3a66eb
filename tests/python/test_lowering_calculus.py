"""Differences and integrals along a dim."""

import pytest
import torch
from lowering_check import check

DIFFERENCES = {
    "diff": torch.diff,
    "diff of dim 0": lambda x: torch.diff(x, dim=0),
    "diff twice": lambda x: torch.diff(x, n=2),
    "diff more often than there are elements": lambda x: torch.diff(x, n=9),
    "diff no times with ends": lambda x: torch.diff(x, n=0, dim=0, prepend=x[:1], append=x),
    "diff with ends": lambda x: torch.diff(x, dim=0, prepend=x[:1], append=x),
}
INTEGRALS = {
    "trapezoid": torch.trapezoid,
    "trapezoid of dim 0": lambda x: torch.trapezoid(x, dim=0),
    "trapezoid of steps": lambda x: torch.trapezoid(x, dx=0.25),
    "trapezoid at coordinates": lambda x: torch.trapezoid(x, x[0] * x[0], dim=-1),
    "trapezoid at coordinates of each row": lambda x: torch.trapezoid(x, x.cumsum(-1)),
    "cumulative_trapezoid": torch.cumulative_trapezoid,
    "cumulative_trapezoid at coordinates": lambda x: torch.cumulative_trapezoid(x, x[:, 0], dim=0),
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


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
def test_gradient(dtype, edge_order):
    coordinates = [torch.tensor([0.0, 1, 3, 4.5]), torch.tensor([2.0, 3, 3.5, 5, 8])]
    if dtype == torch.float64:
        coordinates = [of_axis.double() for of_axis in coordinates]
    functions = {
        "plain": lambda x: torch.gradient(x, edge_order=edge_order),
        "spacing": lambda x: torch.gradient(x, spacing=2.5, edge_order=edge_order),
        "one dim": lambda x: torch.gradient(x, spacing=2.0, dim=-1, edge_order=edge_order),
        "spacings": lambda x: torch.gradient(x, spacing=[0.5, 2.0], dim=[1, 0], edge_order=edge_order),
        "coordinates": lambda x: torch.gradient(x, spacing=coordinates, edge_order=edge_order),
        "coordinates of one": lambda x: torch.gradient(x, spacing=coordinates[1:], dim=1, edge_order=edge_order),
    }
    # PyTorch computes bfloat16 step by step.
    tolerance = {"rtol": 0.1, "atol": 0.1} if dtype == torch.bfloat16 else {}
    check(functions, (torch.randn(4, 5) * 9).to(dtype), **tolerance)


def test_small_integers_wrap_before_they_are_divided():
    x = torch.tensor([[250, 3, 200, 7], [0, 255, 255, 1]], dtype=torch.uint8)
    functions = {
        "trapezoid": lambda y: (torch.trapezoid(y), torch.trapezoid(y, y.flip(1)), torch.cumulative_trapezoid(y)),
        "pairwise_distance": lambda y: torch.nn.functional.pairwise_distance(y, y.flip(1)),
    }
    check(functions, x)
    check(
        lambda y: torch.gradient(y, spacing=2.5), torch.tensor([[0, 9, 32767, 7], [-32768, 0, 1, 1]], dtype=torch.int16)
    )


def test_trapezoid_between_infinite_ends():
    check(torch.trapezoid, torch.tensor([[-0.75, 1.0, torch.inf], [torch.inf, 2.0, 1.0], [1.0, torch.inf, 2.0]]))


def test_gradient_between_equal_coordinates():
    same = torch.zeros(2, dtype=torch.int64)
    check(lambda x: torch.gradient(x, spacing=(same,), dim=1), torch.tensor([[0, 0], [0, 1], [1, 0]]))


def test_trapezoid_at_places_of_more_or_fewer_dims():
    """PyTorch counts the dim of the samples among those of the coordinates, from the first."""
    more = {"more": lambda y, x: (torch.trapezoid(y, x), torch.cumulative_trapezoid(y, x, dim=0))}
    check(more, torch.randn(2, 3), torch.randn(2, 3, 1))
    fewer = {
        "fewer": lambda y, x: (torch.trapezoid(y, x), torch.trapezoid(y, x, dim=1)),
        "along a dim that the coordinates lack": lambda y, x: torch.trapezoid(y, x, dim=0),
    }
    check(fewer, torch.randn(2, 2, 3), torch.randn(2, 3))


def test_trapezoid_of_no_samples():
    """PyTorch does not compare the sizes of the coordinates then."""
    check(torch.trapezoid, torch.rand(1, 3, 2, 0), torch.rand(1, 2, 1, 1))
    check(torch.trapezoid, torch.rand(1, 3, 2, 0), torch.rand(1, 2, 1, 1), dynamic=({}, {1: "n"}))
    check(lambda y: torch.trapezoid(y, dx=2.0), torch.rand(3, 0))


def test_gradient_and_integral_of_integers_that_wrap():
    x = torch.tensor([[0, 2147483647, 0, 5], [-2147483647, 1, 7, 1]], dtype=torch.int32)
    coordinates = torch.tensor([0, 9223372036854775806, 1, 3])
    functions = {
        "ends": lambda x, at: torch.gradient(x, edge_order=2, dim=1),
        "coordinates": lambda x, at: torch.gradient(x, spacing=[at], dim=1),
        "ends at coordinates": lambda x, at: torch.gradient(x, spacing=[at], dim=1, edge_order=2),
        "integral": lambda x, at: (torch.cumulative_trapezoid(x, at), torch.trapezoid(x, at)),
    }
    check(functions, x, coordinates)


def test_infinite_steps_times_nothing():
    functions = {str(step): lambda y, dx=step: torch.cumulative_trapezoid(y, dx=dx) for step in (torch.inf, 0.5, 3)}
    check(functions, torch.tensor([[0, 0, 1, 5], [2147483647, 2147483647, 1, -1]]))


def test_gradient_of_complex_numbers_at_real_coordinates():
    at = torch.tensor([-0.5, 2.0, 3.0, 3.5])
    check(lambda x: torch.view_as_real(torch.gradient(torch.view_as_complex(x), spacing=(at,))[0]), torch.randn(4, 2))
