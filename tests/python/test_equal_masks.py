"""Masks that a model computes more than once find the same number of elements, so what they find does not broadcast."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES

import opbridge

DYNAMIC = {0: torch.export.Dim.DYNAMIC}
SIZES = pytest.mark.parametrize("sizes", [None, (DYNAMIC,)], ids=["constant", "dynamic"])


def writes_products(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    y[x > 0] = x[x > 0] * (x * 2)[x > 0]
    return y


def of_a_column(x: torch.Tensor) -> torch.Tensor:
    return x[x[:, 0] > 0] * x.flip(1)[x[:, 0] > 0]


def of_several_tests(x: torch.Tensor) -> torch.Tensor:
    first = (x > 0) & (x.abs() < 1)
    second = (x > 0) & (x.abs() < 1)
    return (x[first] + x[second]).sum()


def indices(x: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.where(x > 0)
    return x[rows, columns] * x[x > 0] + (x > 0).nonzero()[:, 0]


def variance(x: torch.Tensor) -> torch.Tensor:
    return torch.distributions.StudentT(x.abs() + 1.5, x).variance


@CAPTURES
@SIZES
@pytest.mark.parametrize("model", [writes_products, of_a_column, of_several_tests, indices, variance])
@pytest.mark.filterwarnings("error::opbridge.capture.run_warnings.TraceWarning")
def test_equal_masks(
    model: Callable[[torch.Tensor], torch.Tensor], sizes: Any, capture: Any, tmp_path: pathlib.Path
) -> None:
    path, x = tmp_path / "model.onnx", torch.randn(4, 3)
    opbridge.export(model, (x,), path, dynamic_shapes=sizes, capture=capture)
    for example in (x, x.abs(), -x.abs(), *([] if sizes is None else [torch.randn(7, 3)])):
        opbridge.verify(path, model, (example,))


def write_between(x: torch.Tensor) -> Any:
    x = x.clone()
    found = x[x > 0]
    x.mul_(-1)
    return found, x[x > 0]


def write_to_a_view(x: torch.Tensor) -> Any:
    x = x.clone()
    rest, found = x[1:], x[x > 0]
    rest.neg_()
    return found, x[x > 0]


def write_to_data(x: torch.Tensor) -> Any:
    x = x.clone()
    found = x[x > 0]
    x.data.neg_()
    return found, x[x > 0]


def write_to_a_mask(x: torch.Tensor) -> Any:
    first, second = x > 0, x > 0
    first[0] = False
    return x[first], x[second]


@CAPTURES
@SIZES
@pytest.mark.parametrize("model", [write_between, write_to_a_view, write_to_data, write_to_a_mask])
def test_masks_that_only_look_equal(
    model: Callable[[torch.Tensor], Any], sizes: Any, capture: Any, tmp_path: pathlib.Path
) -> None:
    path, x = tmp_path / "model.onnx", torch.tensor([[1.0, 2, -3], [4, -5, 6]])
    opbridge.export(model, (x,), path, dynamic_shapes=sizes, capture=capture)
    opbridge.verify(path, model, (x,))


@CAPTURES
def test_different_masks_are_still_a_broadcast(capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(opbridge.TraceWarning, match="sizes that broadcast"):
        opbridge.export(lambda x: x[x > 0] + x[x > 0.5], (torch.randn(4, 3),), tmp_path / "m.onnx", capture=capture)
