"""Gradients that PyTorch composes of further operators, or of quantization-aware training, where a model calls them."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from functionalize_check import Model
from lowering_check import check

import opbridge

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def test_of_masked_select() -> None:
    mask = torch.rand(3, 4) < 0.5
    check(aten.masked_select_backward, torch.rand(12), torch.rand(3, 4), mask)
    check(aten.masked_select_backward, torch.rand(3), torch.rand(3, 1), torch.ones(3, 1, dtype=torch.bool))
    check(aten.masked_select_backward, torch.rand(8).double(), torch.rand(2, 4).double(), mask[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_of_cumprod(dtype: torch.dtype) -> None:
    def backward(dim: int) -> Any:
        return lambda g, x: aten.cumprod_backward(g, x, dim, x.cumprod(dim))

    x = torch.randn(3, 4, 2)
    x[0, 1] = x[1, 0, 0] = x[1, 2, 0] = 0
    tolerance = {"rtol": 5e-3, "atol": 5e-3} if dtype == torch.float16 else {}
    args = torch.randn(3, 4, 2).to(dtype), x.to(dtype)
    check({str(dim): backward(dim) for dim in (0, 1, -1)}, *args, **tolerance)
    check(backward(0), torch.tensor(2.0).to(dtype), torch.tensor(3.0).to(dtype))
    sizes = {0: torch.export.Dim("n", min=1)}
    check(backward(1), *args, dynamic=(sizes, sizes), also=[tuple(arg[:1] for arg in args)], **tolerance)


@pytest.mark.parametrize("align_corners", [True, False])
def test_of_affine_grid(align_corners: bool, tmp_path: pathlib.Path) -> None:
    def backward(*size: int) -> Any:
        return lambda g: aten.affine_grid_generator_backward(g, size, align_corners)

    for size in ((2, 3, 4, 5), (2, 1, 3, 4, 1)):
        args = (torch.randn(2, *size[2:], len(size) - 2),)
        opbridge.export(Model(backward(*size)), args, tmp_path / "model.onnx", capture="trace", verify=True)


@pytest.mark.parametrize("pad", [0, 1, 2])
def test_of_conv_tbc(pad: int) -> None:
    def backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
        return aten.conv_tbc_backward(g, x, w, b, pad)

    args = torch.randn(7 + 2 * pad - 2, 2, 4), torch.randn(7, 2, 5), torch.randn(3, 5, 4), torch.randn(4)
    check(backward, *args, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 3), (2, 1, 4, 4), (0, 3, 3)])
def test_of_matrix_exp(shape: tuple[int, ...]) -> None:
    opbridge.load_operators()
    check(aten.matrix_exp_backward, torch.randn(shape), torch.randn(shape))
    check(aten.matrix_exp_backward, torch.randn(shape).double(), torch.randn(shape).double())


def test_of_weight_norm() -> None:
    v, length = torch.randn(3, 4, 5), torch.rand(3, 1, 1)
    functions = {
        "first": lambda g, v, a, b: aten._weight_norm_differentiable_backward(g, v, a, a + 1, 0),
        "last": lambda g, v, a, b: aten._weight_norm_differentiable_backward(g, v, b, b + 1, 2),
    }
    check(functions, torch.randn(3, 4, 5), v, length, torch.rand(1, 1, 5))
    with pytest.raises(opbridge.UnsupportedError, match="the tensors must be of floating point"):
        check(functions, torch.ones(3, 4, 5, dtype=torch.int8), v.to(torch.int8), length, torch.rand(1, 1, 5))


@pytest.mark.parametrize("bounds", [(-8, 9), (0, 15)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_of_learned_fake_quantization(bounds: tuple[int, int], dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    def whole(g: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> Any:
        return aten._fake_quantize_learnable_per_tensor_affine_backward(g, x, scale[:1], zero[:1], *bounds, 0.75)

    def channels(g: torch.Tensor, x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> Any:
        return aten._fake_quantize_learnable_per_channel_affine_backward(g, x, scale, zero, 1, *bounds, 0.5)

    x = torch.randn(5, 4, 3) * 4
    x[0] = 0.25 * torch.arange(12).reshape(4, 3) / 2  # halfway between two levels
    args = torch.randn(5, 4, 3).to(dtype), x.to(dtype)
    args += torch.tensor([0.25, 0.3, 0.7, 1.0]).to(dtype), torch.tensor([1.0, 2.6, -20.0, 30.0]).to(dtype)
    for function in (whole, channels):
        opbridge.export(Model(function), args, tmp_path / "model.onnx", capture="trace", verify=True)
        for zeros in (torch.tensor([0.5, 1.5, 2.5, 3.5]), torch.tensor([-0.5, -1.5, -2.5, -0.75])):
            opbridge.verify(tmp_path / "model.onnx", Model(function), (*args[:3], zeros.to(dtype)))
