"""Fake quantization of quantization-aware training, and the quantized_decomposed operators of PT2E quantization."""

from __future__ import annotations

import functools
import itertools
import pathlib
from typing import Any

import onnx
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from lowering_check import check, operators
from torch import nn
from torch.ao import quantization
from torch.nn import functional as F

import opbridge
from checking.runtime import newest_opset

decomposed = torch.ops.quantized_decomposed

# Scales are powers of two, so that dividing by them and multiplying by their inverses is the same.
X = torch.cat([torch.linspace(-60, 60, 481), torch.tensor([0.125, 0.375, -0.125, 1e9, -1e9])]).reshape(2, 3, 81)
CHANNELS = torch.tensor([0.25, 0.5, 0.125]), torch.tensor([0, 3, 7], dtype=torch.int32)
RANGES = {
    torch.int8: [(-128, 127), (-127, 127), (-8, 7), (0, 127)],
    torch.uint8: [(0, 255), (0, 127)],
    torch.int16: [(-32768, 32767), (-32767, 32767)],
    torch.uint16: [(0, 65535)],
    torch.int32: [(-(2**20), 2**20)],
}


@pytest.mark.parametrize("opset", sorted({13, 21, min(23, newest_opset()), newest_opset()}))
def test_fake_quantization(opset: int) -> None:
    functions = {}
    for least, greatest in set(itertools.chain.from_iterable(RANGES.values())):
        name = f"[{least}, {greatest}]"
        functions[name] = lambda x, lo=least, hi=greatest: torch.fake_quantize_per_tensor_affine(x, 0.25, 3, lo, hi)
        functions[f"{name} by channel"] = lambda x, lo=least, hi=greatest: torch.fake_quantize_per_channel_affine(
            x, *CHANNELS, 1, lo, hi
        )
    functions["tensors"] = lambda x: torch.fake_quantize_per_tensor_affine(
        x, torch.tensor([0.5]), torch.tensor([2], dtype=torch.int32), 0, 255
    )
    functions["mask"] = lambda x: torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.5, 3, -128, 127)
    functions["mask by channel"] = lambda x: torch.ops.aten.fake_quantize_per_channel_affine_cachemask(
        x, *CHANNELS, 1, -8, 7
    )
    check(functions, X, opset=opset)
    check({"half": functions["tensors"]}, X.half(), opset=opset)


@pytest.mark.parametrize("activation", [torch.nn.Identity(), torch.nn.ReLU(), torch.nn.ReLU6()])
def test_float_weights_between_quantized_tensors(activation: torch.nn.Module) -> None:
    """ONNX Runtime would round them to 8 bits."""
    generator = torch.Generator().manual_seed(0)
    kernel = torch.randn(6, 8, 3, 3, generator=generator)
    kernel[0, 0, 0, 0] = 9
    matrix = kernel[:, :, 0, 0]

    def quantized(x: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, 0.25, 128, 0, 255)

    functions = {
        "convolution": lambda x: quantized(activation(F.conv2d(quantized(x), kernel))),
        "transposed": lambda x: quantized(activation(F.conv_transpose2d(quantized(x), kernel.transpose(0, 1)))),
        "linear": lambda x: quantized(activation(F.linear(quantized(x[:, :, 0, 0]), matrix, matrix[:, 0]))),
        "flattened": lambda x: quantized(
            activation(F.linear(quantized(x[:, :, :1, :1]).flatten(1), matrix, matrix[:, 0]))
        ),
    }
    check(functions, torch.randn(2, 8, 5, 5, generator=generator))


def test_fake_quantization_of_float64() -> None:
    """PyTorch multiplies by the inverse of the scale as float32: -1.25 is not halfway between two levels of 2.5."""
    scales, zeros = torch.tensor([2.5, 0.1, 1 / 3]), torch.tensor([0, 3, 2], dtype=torch.int32)
    x = torch.tensor([-1.25, 1.25, 0.05, 0.15, 1 / 6, 1e9 + 0.3, 0.7, -3.3], dtype=torch.float64)
    functions = {
        f"{operator.__name__} by {by}": functools.partial(lambda f, a, x: f(x, *a, 0, 127), operator, arguments)
        for operator, by, arguments in [
            (torch.ops.aten.fake_quantize_per_channel_affine_cachemask, "channel", (scales, zeros, 1)),
            (torch.ops.aten.fake_quantize_per_tensor_affine_cachemask, "tensor", (2.5, 0)),
        ]
    }
    check(functions, x[:, None].repeat(1, 3), rtol=0, atol=0)


@pytest.mark.parametrize("enabled", [0, 1])
def test_fake_quantization_that_can_be_switched_off(enabled: int) -> None:
    def function(x: torch.Tensor, on: torch.Tensor) -> tuple[torch.Tensor, ...]:
        operator = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        return operator(x, torch.tensor([0.5]), torch.tensor([2], dtype=torch.int32), on, -8, 7)

    check(function, X, torch.tensor([enabled]))


@pytest.mark.parametrize(
    ("least", "greatest", "dtype"), [(*levels, dtype) for dtype in RANGES for levels in RANGES[dtype]]
)
@pytest.mark.parametrize("opset", [13, 21])
def test_quantization_and_back(least: int, greatest: int, dtype: torch.dtype, opset: int) -> None:
    bounds = least, greatest, dtype
    scale, zero_point = torch.tensor(0.25), torch.tensor(2)
    x = X.clamp(-1e6, 1e6)  # larger integers are not exact in float32
    functions = {
        "numbers": lambda x: decomposed.quantize_per_tensor(x, 0.25, 2, *bounds),
        "tensors": lambda x: decomposed.quantize_per_tensor.tensor(x, scale, zero_point, *bounds),
        "channels": lambda x: decomposed.quantize_per_channel(x, *CHANNELS, 1, *bounds),
    }
    check(functions, x, opset=opset)
    functions = {
        "numbers": lambda x: decomposed.dequantize_per_tensor(x, 0.3, 2, *bounds),
        "tensors": lambda x: decomposed.dequantize_per_tensor.tensor(x, scale, zero_point, *bounds),
        "channels": lambda x: decomposed.dequantize_per_channel(x, *CHANNELS, 1, *bounds),
        "no zero": lambda x: decomposed.dequantize_per_channel(x, CHANNELS[0], None, 1, *bounds),
    }
    if dtype is torch.uint16:  # PyTorch cannot subtract from uint16
        del functions["channels"]
    check(functions, decomposed.quantize_per_tensor(x, 0.25, 2, *bounds), opset=opset)


@pytest.mark.parametrize("zero_point", [300, -1])
def test_zero_points_that_are_no_level(zero_point: int) -> None:
    scales, zeros = torch.full((3,), 0.25), torch.full((3,), zero_point)
    functions = {
        "numbers": lambda x: decomposed.quantize_per_tensor(x, 0.25, zero_point, 0, 255, torch.uint8),
        "tensors": lambda x: decomposed.quantize_per_tensor.tensor(x, scales[0], zeros[0], 0, 255, torch.uint8),
        "channels": lambda x: decomposed.quantize_per_channel(x, scales, zeros, 1, 0, 255, torch.uint8),
    }
    check(functions, X)
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 256).expand(2, 3, 256)
    check(lambda x: decomposed.dequantize_per_tensor(x, 0.25, zero_point, 0, 255, torch.uint8), levels)
    check(lambda x: decomposed.dequantize_per_channel(x, scales, zeros, 1, 0, 255, torch.uint8), levels)


def test_zero_points_of_the_input() -> None:
    def function(x: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
        return torch.fake_quantize_per_tensor_affine(x, torch.tensor([0.5]), zero_point, 0, 255)

    check(function, X, torch.tensor([2], dtype=torch.int32))


def test_half_of_a_byte() -> None:
    x = torch.arange(-128, 128).to(torch.int8)
    for dtype in (torch.float16, torch.bfloat16):
        check(lambda x, d=dtype: decomposed.dequantize_per_tensor(x, 0.3, 2, -128, 127, torch.int8, out_dtype=d), x)
        check(
            lambda x, d=dtype: decomposed.dequantize_per_tensor(x, 0.3, 2, -9, 9, torch.int16, out_dtype=d),
            x.to(torch.int16),
        )


def test_integer_products() -> None:
    a, b = torch.randint(-128, 127, (32, 16), dtype=torch.int8), torch.randint(-128, 127, (16, 8), dtype=torch.int8)
    check(torch._int_mm, a, b)


def test_what_a_model_becomes(tmp_path: pathlib.Path) -> None:
    """The pairs of nodes by which runtimes recognize a quantized model."""

    class Trained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight = torch.fake_quantize_per_channel_affine(self.conv.weight, *CHANNELS, 0, -128, 127)
            x = torch.fake_quantize_per_tensor_affine(x, 1 / 64, 0, -128, 127)
            return nn.functional.conv2d(x, weight, self.conv.bias)

    path = tmp_path / "model.onnx"
    for capture in ("export", "trace"):
        opbridge.export(Trained(), (torch.randn(1, 3, 8, 8),), path, verify=True, capture=capture)
        of_weight = ["DequantizeLinear"]  # it is quantized at export
        assert sorted(operators(onnx.load(path))) == sorted([*of_weight, "QuantizeLinear", "DequantizeLinear", "Conv"])


def trained_for_quantization() -> nn.Module:
    model = nn.Sequential(quantization.QuantStub(), nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
    quantization.fuse_modules_qat(model, [["1", "2", "3"]], inplace=True)
    quantization.prepare_qat(model, inplace=True)
    for _ in range(3):
        model(torch.randn(2, 3, 8, 8))
    return model.eval()


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated")
def test_a_model_trained_for_quantization(tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model = trained_for_quantization().apply(quantization.disable_observer)
    x = torch.randn(2, 3, 8, 8)
    for capture in ("export", "trace"):
        opbridge.export(model, (x,), tmp_path / "model.onnx", verify=True, capture=capture)
        assert operators(onnx.load(tmp_path / "model.onnx")).count("DequantizeLinear") == 3
    model.apply(quantization.disable_fake_quant)
    opbridge.export(model, (x,), tmp_path / "model.onnx", verify=True)
    assert "DequantizeLinear" not in operators(onnx.load(tmp_path / "model.onnx"))


@pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated")
def test_an_observer_that_is_on_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="disable_observer"):
        opbridge.export(trained_for_quantization(), (torch.randn(2, 3, 8, 8),), tmp_path / "model.onnx")


@pytest.mark.parametrize("zeros", [torch.float32, torch.float16])
def test_zero_points_of_floating_point(zeros: torch.dtype) -> None:
    scale, zero = torch.tensor([0.25, 0.5, 0.125]), torch.tensor([0.25, -2.75, 1.5], dtype=zeros)
    learned = torch.ops.aten
    functions = {
        "by channel": lambda x: torch.fake_quantize_per_channel_affine(x, scale, zero, 1, -8, 9),
        "and mask": lambda x: torch.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, 1, -8, 9),
        "of a tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, scale[:1], zero[1:2], -8, 9),
        "learned": lambda x: learned._fake_quantize_learnable_per_tensor_affine(x, scale[:1], zero[1:2].float(), -8, 9),
        "learned by channel": lambda x: learned._fake_quantize_learnable_per_channel_affine(
            x, scale, zero.float(), 1, -8, 9
        ),
    }
    check(functions, X, opset=21)


class Observing(nn.Module):
    """Fake quantization with a disabled observer."""

    def __init__(self, least: int, greatest: int, by_row: bool, symmetric: bool, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        extremes = torch.randn(2, 3 if by_row else 1).mul(10.0 ** (1 - seed)).sort(0).values
        self.register_buffer("low", extremes[0])
        self.register_buffer("high", extremes[1])
        self.register_buffer("scale", torch.ones_like(self.low))
        self.register_buffer("zero", torch.zeros_like(self.low, dtype=torch.int32))
        self.register_buffer("off", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("on", torch.ones(1, dtype=torch.int64))
        self.options = (0.01, least, greatest, 0, by_row, symmetric)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        observed = (self.low, self.high, self.scale, self.zero)
        return torch.ops.aten.fused_moving_avg_obs_fake_quant(x, self.off, self.on, *observed, *self.options)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(("least", "greatest"), [(0, 255), (-128, 127), (-8, 7)])
def test_scales_follow_from_what_was_observed(
    least: int, greatest: int, by_row: bool, symmetric: bool, tmp_path: pathlib.Path
) -> None:
    for seed in range(8):
        model, x = Observing(least, greatest, by_row, symmetric, seed), torch.randn(3, 4)
        with pytest.raises(opbridge.UnsupportedError, match="may change its scale and zero point"):
            opbridge.export(model, (x,), tmp_path / "model.onnx", capture="trace")
        model(x)
        opbridge.export(model, (x,), tmp_path / "model.onnx", capture="trace", verify=True)


@pytest.mark.parametrize("by_row", [False, True])
def test_a_functional_observer_returns_its_state(by_row: bool, tmp_path: pathlib.Path) -> None:
    class Functional(Observing):
        def forward(self, x: torch.Tensor) -> Any:
            state = (self.low, self.high, self.scale, self.zero)
            helper = torch.ops.aten._fused_moving_avg_obs_fq_helper_functional
            return helper(x, self.off, self.on, *state, *self.options)

    model, x = Functional(-128, 127, by_row, False, 0), torch.randn(3, 4)
    with pytest.raises(opbridge.UnsupportedError, match="may change its scale and zero point"):
        opbridge.export(model, (x,), tmp_path / "model.onnx")
    Observing.forward(model, x)
    opbridge.export(model, (x,), tmp_path / "model.onnx", verify=True)


def test_the_first_element_is_the_scale_of_a_tensor() -> None:
    learned = torch.ops.aten._fake_quantize_learnable_per_tensor_affine
    scale, zero = torch.tensor([[0.25], [3.0]]), torch.tensor([[1.0], [-4.0]])
    check(lambda x, s, z: learned(x, s, z, -8, 9), X, scale, zero)


@pytest.mark.parametrize("enabled", [-0.25, 0.5, 1.5])
def test_the_switch_is_read_as_an_integer(enabled: float) -> None:
    quantized = torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    scale, zero = torch.tensor([0.25]), torch.tensor([1.75])
    check(lambda x, on: quantized(x, scale, zero, on, -8, 9), X, torch.tensor([enabled]))


@pytest.mark.parametrize("scale", [0.0, 0.5])
def test_nan_becomes_the_least_level(scale: float) -> None:
    x = torch.cat([torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0]), torch.randn(30)])
    functions = {
        "numbers": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, scale, 1, -8, 9),
        "wide": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, scale, 1, -(1 << 20), 9),
        "tensors": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -8, 9),
    }
    check(functions, x, torch.tensor(scale), torch.tensor(2))


def test_quantization_at_the_newest_opset(tmp_path: pathlib.Path) -> None:
    levels = torch.randint(-8, 8, (6, 8), dtype=torch.int8)
    scales, points = torch.rand(6, 2), torch.randint(-3, 4, (6, 2), dtype=torch.int8)

    def product(x: torch.Tensor) -> torch.Tensor:
        weight = decomposed.dequantize_per_channel_group(levels, scales, points, -8, 7, torch.int8, 4, torch.float32)
        return torch.fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 255) @ weight.T

    check(product, torch.randn(3, 8), opset=newest_opset())
    path = tmp_path / "model.onnx"
    opbridge.export(product, (torch.randn(3, 8),), path, opset_version=newest_opset(), target="onnx")
    assert {"QuantizeLinear", "DequantizeLinear"} < set(operators(onnx.load(path)))


def test_fake_quantization_of_dynamic_sizes():
    scales, points = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, -2], dtype=torch.int32)
    functions = {
        "numbers": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
        "tensors": lambda x: torch.fake_quantize_per_tensor_affine(x, scales[0], points[1], -128, 127),
        "channels": lambda x: torch.fake_quantize_per_channel_affine(x, scales, points, 1, -128, 127),
        "learnable": lambda x: torch._fake_quantize_learnable_per_tensor_affine(x, scales[:1], scales[:1], -128, 127),
        "learnable channels": lambda x: torch._fake_quantize_learnable_per_channel_affine(
            x, scales, scales, 1, -128, 127
        ),
    }
    check(
        functions, torch.randn(4, 3), dynamic=[{0: torch.export.Dim.AUTO}], also=[(torch.randn(n, 3),) for n in (1, 7)]
    )


@pytest.mark.parametrize("opset", [18, 21, 23])
def test_dequantized_tensors_may_be_moved(opset: int) -> None:
    def dequantized(x: torch.Tensor) -> torch.Tensor:
        return decomposed.dequantize_per_tensor(x, 0.25, 3, -128, 127, torch.int8)

    def again(x: torch.Tensor) -> torch.Tensor:
        return dequantized(decomposed.quantize_per_tensor(dequantized(x) * 2, 0.5, -1, -128, 127, torch.int8))

    functions = {
        "transpose": lambda x: dequantized(x).transpose(1, 2).exp(),
        "reshape": lambda x: again(x).reshape(-1, 6).sum(0),
        "unsqueeze, squeeze": lambda x: (dequantized(x)[:, None] * 2, dequantized(x[:1]).squeeze(0)),
        "slice": lambda x: again(x)[:, 1:, ::2] + 1,
        "max_pool2d": lambda x: F.max_pool2d(again(x)[None], 2, 1) / 3,
        "vector": lambda x: dequantized(x)[0] @ again(x)[1, 0],
        "both": lambda x: dequantized(x).permute(2, 0, 1).flatten(1) @ dequantized(x).reshape(6, 4),
    }
    check(functions, torch.randint(-128, 128, (2, 3, 4), dtype=torch.int8), opset=opset)


def test_values_are_quantized_twice() -> None:
    quantize = torch.fake_quantize_per_tensor_affine
    functions = {
        "finer": lambda x: quantize(quantize(x, 1.0, 0, 0, 255), 0.125, 0, 0, 255),
        "coarser": lambda x: quantize(quantize(x, 0.125, 3, -128, 127), 0.5, 0, -128, 127),
        "of another type": lambda x: quantize(quantize(x, 0.125, 3, -128, 127), 0.5, 0, 0, 255),
        "by channels": lambda x: torch.fake_quantize_per_channel_affine(
            quantize(x, 1.0, 0, -128, 127), *CHANNELS, 1, -128, 127
        ),
        "three times": lambda x: quantize(quantize(quantize(x, 1.0, 0, 0, 255), 0.25, 0, 0, 255), 2.0, 0, 0, 255),
    }
    check(functions, X)


def test_quantized_transposes_of_outputs() -> None:
    quantize = torch.fake_quantize_per_tensor_affine

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z = x * 2, x.relu()
        return y, quantize(y.permute(1, 2, 0), 0.5, 0, 0, 255), z, quantize(z.mT.reshape(-1), 0.5, 128, 0, 255)

    check(forward, X)
    check(lambda x: torch.cond(x[0, 0, 0] < 0, forward, lambda x: forward(x + 1), (x,)), X)
