"""quantized_decomposed and torchao's operators, called directly with edge values, compared with eager PyTorch."""

from __future__ import annotations

import contextlib
import pathlib
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch import nn

import opbridge
from checking.runtime import run_plain

with contextlib.suppress(ImportError):
    import torchao.quantization.quant_primitives  # noqa: F401

decomposed = torch.ops.quantized_decomposed
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
EIGHT = (-128, 127, torch.int8)


class Calling(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def check(function: Any, *args: torch.Tensor, also: tuple[tuple[torch.Tensor, ...], ...] = (), **options: Any) -> None:
    """Equal in every bit, in both captures."""
    path = pathlib.Path(check.folder) / "model.onnx"  # type: ignore[attr-defined]
    model = Calling(function)
    for capture in ("trace", "export"):
        opbridge.export(model, args, path, capture=capture, **options)
        running = opbridge.runtime.session(path)
        names = [value.name for value in running.get_inputs()]
        for inputs in (args, *also):
            expected = model(*inputs)
            expected = expected if isinstance(expected, tuple) else (expected,)
            actual = opbridge.runtime.run(running, dict(zip(names, inputs, strict=True)))
            for got, wanted in zip(actual, expected, strict=True):
                torch.testing.assert_close(got.double(), wanted.double(), rtol=0, atol=0)


@pytest.fixture(autouse=True)
def _folder(tmp_path: pathlib.Path) -> None:
    check.folder = str(tmp_path)  # type: ignore[attr-defined]


def edges(scale: float, zero: int, least: int, greatest: int) -> torch.Tensor:
    """Levels and the halves between them, beyond both ends, at the least scale and far away."""
    levels = torch.arange(2 * least - 4, 2 * greatest + 5) / 2
    return torch.cat([(levels - zero) * scale, torch.tensor([0.0, -0.0, 1e9, -1e9, 1e-30])])


@pytest.mark.parametrize("seed", range(4))
def test_parameters_of_a_tensor(seed: int) -> None:
    torch.manual_seed(seed)
    inputs = [torch.randn(3, 5) * 10.0 ** (seed - 1), torch.zeros(2, 2), torch.rand(4) + 1, -torch.rand(4) - 1]
    for dtype in FLOATS:
        for x in inputs:
            for least, greatest, kind in (EIGHT, (0, 255, torch.uint8), (-127, 127, torch.int8)):
                eps = 2.0**-12

                def choose(x: torch.Tensor, bounds: Any = (least, greatest, eps, kind)) -> Any:
                    return *decomposed.choose_qparams(x, *bounds), *decomposed.choose_qparams_symmetric(x, *bounds)

                check(choose, x.to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_parameters_of_tokens(dtype: torch.dtype) -> None:
    def choose(x: torch.Tensor) -> Any:
        return (
            *decomposed.choose_qparams_per_token(x, torch.int8),
            *decomposed.choose_qparams_per_token_asymmetric(x, torch.int8),
            *decomposed._choose_qparams_per_token_asymmetric_impl(x, torch.int8),
        )

    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 6, 16) * torch.logspace(-3, 3, 6).unsqueeze(-1)
        x[0, 0] = 0
        x[1] = x[1].abs() + 1
        x[2] = -x[2].abs() - 1
        also = ((torch.randn(2, 3, 16).to(dtype),), (torch.randn(1, 1, 16).to(dtype),))
        check(choose, x.to(dtype), also=also, dynamic_shapes={"args": [{0: "batch", 1: "length"}]})


def test_tokens_there_and_back() -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(4, 6, 16) * 3

        def symmetric(x: torch.Tensor) -> Any:
            scale, zero = decomposed.choose_qparams_per_token(x, torch.int8)
            q = decomposed.quantize_per_token(x, scale, zero, *EIGHT)
            return q, decomposed.dequantize_per_token(q, scale, zero, *EIGHT, torch.float32)

        def asymmetric(x: torch.Tensor) -> Any:
            scale, zero = decomposed.choose_qparams_per_token_asymmetric(x, torch.int8)
            q = decomposed.quantize_per_token(x, scale, zero, *EIGHT)
            return q, decomposed.dequantize_per_token(q, scale, zero, *EIGHT, torch.float16)

        dims = {"args": [{0: "batch", 1: "length"}]}
        for function in (symmetric, asymmetric):
            check(function, x, also=((torch.randn(2, 1, 16),), (-torch.rand(1, 9, 16),)), dynamic_shapes=dims)


@pytest.mark.parametrize("zero_type", [torch.int64, torch.int32, torch.int8, torch.float32])
def test_levels_of_tokens(zero_type: torch.dtype) -> None:
    x = torch.stack([edges(0.25, 3, -128, 127), edges(0.3, -7, -128, 127)])
    scale, zero = torch.tensor([[0.25], [0.3]]), torch.tensor([[3], [-7]], dtype=zero_type)
    check(lambda x: decomposed.quantize_per_token(x, scale, zero, *EIGHT), x)
    check(lambda x, s, z: decomposed.quantize_per_token(x, s, z, -8, 7, torch.int8), x, scale.double(), zero)
    q = torch.arange(-128, 128, dtype=torch.int8).repeat(2, 1)
    for kind in FLOATS:
        check(lambda q, s, z, to=kind: decomposed.dequantize_per_token(q, s, z, *EIGHT, to), q, scale, zero)


@pytest.mark.parametrize("opset", [13, 20, 21, 23])
@pytest.mark.parametrize("zero_type", [None, torch.int32, torch.int8])
def test_groups(zero_type: torch.dtype | None, opset: int) -> None:
    torch.manual_seed(0)
    scale = torch.rand(6, 4) + 0.1
    zero = None if zero_type is None else torch.randint(-8, 8, (6, 4), dtype=zero_type)
    for least, greatest, kind in (EIGHT, (-8, 7, torch.int8), (0, 15, torch.uint8), (0, 255, torch.uint8)):
        bounds = (least, greatest, kind, 8)
        x = torch.randn(6, 32) * 10
        if zero is not None:
            check(lambda x, b=bounds: decomposed.quantize_per_channel_group(x, scale, zero, *b), x, opset_version=opset)
        q = torch.randint(least, greatest + 1, (6, 32), dtype=kind)
        for to in FLOATS:
            check(lambda q, b=bounds, t=to: decomposed.dequantize_per_channel_group(q, scale, zero, *b, t), q)
            check(
                lambda x, b=bounds, t=to, q=q: decomposed.dequantize_per_channel_group(q, scale, zero, *b, t) + x * 0,
                torch.ones(6, 32, dtype=to),
                opset_version=opset,
            )
    one = torch.tensor([[0.5]] * 6)
    check(
        lambda x: decomposed.quantize_per_channel_group(x, one, torch.zeros(6, 1), *EIGHT, 128),
        torch.randn(6, 32) * 100,
    )


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_bounds_that_are_tensors(kind: torch.dtype) -> None:
    least, greatest = (0, 200) if kind == torch.uint8 else (-100, 100)
    x = edges(0.25, 3, least, greatest)
    scale, zero, low, high = torch.tensor([0.25]), torch.tensor([3]), torch.tensor(least), torch.tensor(greatest)
    check(lambda x: decomposed.quantize_per_tensor.tensor2(x, scale, zero, low, high, kind), x)
    check(lambda x, lo, hi: decomposed.quantize_per_tensor.tensor2(x, scale, zero, lo, hi, kind), x, low, high)
    q = torch.arange(least, greatest).to(kind)
    for to in (None, *FLOATS):
        check(lambda q, t=to: decomposed.dequantize_per_tensor.tensor2(q, scale, zero, low, high, kind, out_dtype=t), q)
        check(lambda q, t=to: decomposed.dequantize_per_tensor(q, 0.3, 3, least, greatest, kind, out_dtype=t), q)


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_float8(kind: torch.dtype) -> None:
    greatest = int(torch.finfo(kind).max)
    bounds = (-greatest, greatest, kind)
    x = torch.cat([torch.linspace(-700, 700, 801), torch.tensor([1e6, -1e6, 0.0, -0.0])])
    check(lambda x: decomposed.quantize_per_tensor(x, 0.5, 1, *bounds).float(), x)
    check(lambda x: decomposed.dequantize_per_tensor(x.to(kind), 0.5, 1, *bounds), x.clamp(-400, 400))


def test_conversions() -> None:
    x = torch.tensor([0.5, 1.5, -1.5, 100.7])
    for kind in (torch.int8, torch.int32, torch.float16, torch.bool, torch.bfloat16):
        check(lambda x, to=kind: decomposed.convert_element_type.no_fuse(x, to), x)


def test_weights_are_quantized_as_by_pytorch() -> None:
    """The extrema of a symmetric range are halfway between two levels, where a division would round otherwise."""
    for seed in range(5):
        torch.manual_seed(seed)
        weight = torch.randn(40, 64)
        weight[:, 0] = -weight.abs().amax(1) * 1.01
        scale, zero = weight.abs().amax(1) / 127.5, torch.zeros(40, dtype=torch.int32)
        first = float(scale[0])
        functions = (
            lambda x, w=weight, s=scale, z=zero: torch.fake_quantize_per_channel_affine(w, s, z, 0, -128, 127) * x,
            lambda x, w=weight, s=scale, z=zero: decomposed.quantize_per_channel(w, s, z, 0, *EIGHT) * x,
            lambda x, w=weight, s=first: torch.fake_quantize_per_tensor_affine(w, s, 0, -8, 7) * x,
        )
        for function in functions:
            check(function, torch.ones(64))
    path = pathlib.Path(check.folder) / "model.onnx"  # type: ignore[attr-defined]
    opbridge.export(Calling(functions[0]), (torch.ones(64),), path)
    assert path.stat().st_size < 2 * weight.numel()


ao = pytest.mark.skipif(not hasattr(torch.ops.torchao, "quantize_affine"), reason="torchao is not installed")


@ao
@pytest.mark.parametrize("mapping", ["SYMMETRIC", "ASYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_affine_blocks(mapping: str, dtype: torch.dtype) -> None:
    from torchao.quantization.quant_primitives import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    for seed, block in enumerate([(1, 32), (1, 8), (4, 32), (2, 8), (6, 1), (1, 1, 32), (2, 3, 4)]):
        for bounds in ((-128, 127), (-8, 7)):

            def function(x: torch.Tensor, block: Any = block, bounds: Any = bounds) -> Any:
                scale, zero = choose_qparams_affine(
                    x, MappingType[mapping], block, torch.int8, *bounds, zero_point_dtype=torch.int8
                )
                q = quantize_affine(x, block, scale, zero, torch.int8, *bounds)
                return scale, zero, q, dequantize_affine(q, block, scale, zero, torch.int8, *bounds, output_dtype=dtype)

            torch.manual_seed(seed)
            x = torch.randn(12, 32) if len(block) == 2 else torch.randn(4, 6, 32)
            check(function, x.to(dtype))


@ao
@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_affine_float8(kind: torch.dtype) -> None:
    ops = torch.ops.torchao
    for block in ((1, 32), (12, 32), (4, 8)):

        def function(x: torch.Tensor, block: Any = block) -> Any:
            scale = ops.choose_scale_float8(x, block, kind)
            q = ops.quantize_affine_float8_non_decomposed(x, scale, kind)
            return scale, q.float(), ops.dequantize_affine_float8_non_decomposed(q, scale)

        check(function, torch.randn(12, 32) * 5)


def test_products_with_packed_bytes() -> None:
    torch.manual_seed(0)
    weight, scale = torch.randint(-128, 128, (8, 16), dtype=torch.int8), torch.rand(8)
    path = pathlib.Path(check.folder) / "model.onnx"  # type: ignore[attr-defined]
    model = Calling(lambda x: torch.ops.aten._weight_int8pack_mm(x, weight, scale))
    x = torch.randn(3, 16)
    opbridge.export(model, (x,), path)
    [actual] = run_plain(path, x)
    np.testing.assert_allclose(actual, model(x).numpy(), rtol=1e-5, atol=1e-4)
