"""``torch.func.vjp``, whose derivative a model computes after the transform has ended, of functions of numbers."""

import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees

pytestmark = pytest.mark.filterwarnings("error::opbridge.capture.run_warnings.TraceWarning")
SIZES = [[(size, 2)] for size in (4, 1, 3, 7)]
ROWS: Any = ({0: torch.export.Dim("n")},)


def with_a_written_part(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    y[:, 0] = 0.5
    return y * x


FUNCTIONS = {
    "product": lambda x: x**2 * 2.5,
    "difference": lambda x: 2.5 - x,
    "quotient": lambda x: x / 3,
    "in place": lambda x: (x * 1).mul_(2.5).add_(1, alpha=2).div_(3).sub_(0.5),
    "size": lambda x: x * x.shape[0] / 2,
    "length": lambda x: (x**2).sum() / len(x),
    "element": lambda x: x * x.sum().item() + float(x.max()),
    "integer": lambda x: x / (x.argmax().item() + 1),
    "count": lambda x: x * int((x > 0.5).sum()),
    "flag": lambda x: x * True,
    "where": lambda x: torch.where(x > 0.5, 0.1, x * x),
    "power": lambda x: 2.0**x,
    "written part": with_a_written_part,
    "constant": lambda x: torch.ones_like(x),
    "detached": lambda x: x.detach() * 2,
}


@CAPTURES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        y, pull_back = torch.func.vjp(FUNCTIONS[name], x)
        return y, pull_back(torch.ones_like(y))[0]

    agrees(model, SIZES, ROWS, capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"flag"}))
def test_derivatives_of_derivatives(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        y, pull_back = torch.func.vjp(torch.func.grad(lambda x: FUNCTIONS[name](x).sum()), x)
        return y, pull_back(torch.ones_like(y))[0]

    agrees(model, SIZES, ROWS, capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_the_derivative(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(lambda x: torch.func.vjp(FUNCTIONS[name], x)[0], SIZES, ROWS, capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.jacrev, torch.func.hessian])
def test_lengths_in_transforms(transform: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    def mean(x: torch.Tensor) -> torch.Tensor:
        return (x**3).sum() / len(x)

    agrees(lambda x: transform(mean)(x[0]) + len(x), SIZES, ROWS, capture, tmp_path)


@CAPTURES
def test_lengths_in_vmap(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(2, size, 3)] for size in (4, 1, 7)]
    dims: Any = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("n")},)
    agrees(lambda x: torch.vmap(lambda rows: rows.sum(0) / len(rows))(x), shapes, dims, capture, tmp_path)
