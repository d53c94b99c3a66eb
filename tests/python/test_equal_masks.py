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


def selects(x: torch.Tensor) -> torch.Tensor:
    mask = x > 0
    return torch.masked_select(x, mask) * (x * 2).masked_select(x > 0) + x[mask]


def derivatives_of_selected(x: torch.Tensor) -> Any:
    def selected(x: torch.Tensor) -> torch.Tensor:
        return torch.masked_select(x.sin(), x > 0)

    return torch.func.jvp(selected, (x,), (x,)), torch.func.grad(lambda x: selected(x).sum())(x)


def variance(x: torch.Tensor) -> torch.Tensor:
    return torch.distributions.StudentT(x.abs() + 1.5, x).variance


MODELS = [writes_products, of_a_column, of_several_tests, indices, selects, derivatives_of_selected, variance]


@CAPTURES
@SIZES
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.filterwarnings("error::opbridge.capture.run_warnings.TraceWarning")
def test_equal_masks(model: Callable[[torch.Tensor], Any], sizes: Any, capture: Any, tmp_path: pathlib.Path) -> None:
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
def test_a_mask_of_another_shape_than_the_tensor(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.masked_select(x, x[:, :1] > 0) + torch.masked_select(x[0], x > 0).sum()

    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.randn(4, 3),), path, dynamic_shapes=(DYNAMIC,), capture=capture)
    for rows in (4, 1, 7):
        opbridge.verify(path, model, (torch.randn(rows, 3),))


@CAPTURES
def test_different_masks_are_still_a_broadcast(capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(opbridge.TraceWarning, match="sizes that broadcast"):
        opbridge.export(lambda x: x[x > 0] + x[x > 0.5], (torch.randn(4, 3),), tmp_path / "m.onnx", capture=capture)
