"""Custom operators whose fake kernels return an argument, where the operators make new tensors."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES

import opbridge


@torch.library.custom_op("fake_kernel_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x


@torch.library.custom_op("fake_kernel_test::combined", mutates_args=())
def combined(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + y, x - y


@combined.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return y, x


@opbridge.symbolic("fake_kernel_test::doubled", opset=13)
def doubled_in_onnx(g: Any, x: Any) -> Any:
    return g.op("Add", x, x)


@opbridge.symbolic("fake_kernel_test::combined", opset=13)
def combined_in_onnx(g: Any, x: Any, y: Any) -> Any:
    return g.op("Add", x, y), g.op("Sub", x, y)


def of_an_intermediate(x: torch.Tensor) -> torch.Tensor:
    positive = x.relu()
    return doubled(positive) - 10 * positive


def of_an_input(x: torch.Tensor) -> torch.Tensor:
    return doubled(x) - 10 * x


def of_two(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    added, subtracted = combined(x, y)
    return torch.stack([added, subtracted, x, y])


@CAPTURES
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
@pytest.mark.parametrize("model", [of_an_intermediate, of_an_input, of_two])
def test_a_fake_kernel_that_returns_an_argument(
    model: Callable[..., Any], dynamic: Any, capture: Any, tmp_path: pathlib.Path
) -> None:
    opbridge.export(model, (torch.randn(3),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic, verify=True)
