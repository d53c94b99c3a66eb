"""Simplification of whole models."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Callable
from random import Random
from typing import Any

import onnx
import onnxruntime
import pytest
import torch
from lowering_check import check
from torch import nn
from torch_versions import since_torch_2_15

import opbridge


def operators(model: nn.Module, x: torch.Tensor, folder: pathlib.Path, **options: bool) -> list[str]:
    path = folder / "model.onnx"
    opbridge.export(model.eval(), (x,), path, verify=True, **options)
    return [node.op_type for node in onnx.load(path).graph.node]


def normalized(conv: nn.Module, channels: int) -> nn.Sequential:
    """A convolution and a normalization whose statistics are not the initial ones."""
    norm = nn.BatchNorm2d(channels)
    for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(tensor, 0.5, 2)
    return nn.Sequential(conv, norm)


X = torch.linspace(-1, 1, 2 * 4 * 5 * 5).reshape(2, 4, 5, 5)


def test_batch_normalization_goes_into_the_convolution(tmp_path: pathlib.Path) -> None:
    for conv in (nn.Conv2d(4, 6, 3), nn.Conv2d(4, 6, 3, bias=False), nn.Conv2d(4, 6, 3, groups=2)):
        assert operators(normalized(conv, 6), X, tmp_path) == ["Conv"]
        assert "BatchNormalization" in operators(normalized(conv, 6), X, tmp_path, simplify=False)
    model = nn.Sequential(normalized(nn.Conv2d(4, 6, 3), 6), nn.ReLU())
    assert operators(model, X, tmp_path) == ["Conv", "Relu"]


@since_torch_2_15("torch.export refuses the model")
def test_branches_are_simplified_too(tmp_path: pathlib.Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = normalized(nn.Conv2d(3, 4, 3), 4), normalized(nn.Conv2d(3, 4, 3), 4)
            self.scale = nn.Parameter(torch.rand(4, 1, 1) + 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def then(x: torch.Tensor) -> torch.Tensor:
                return self.one(x).neg().neg() * (torch.full((2,), 3.0) * 2).sum()

            def otherwise(x: torch.Tensor) -> torch.Tensor:
                turned: torch.Tensor = (self.other(x) * self.scale).transpose(1, 2).unsqueeze(0).transpose(2, 3)
                return turned.squeeze(0)

            result: torch.Tensor = torch.cond(x.sum() > 0, then, otherwise, (x,))
            return result

    path = tmp_path / "model.onnx"
    torch.manual_seed(0)
    model, x = Model().eval(), torch.rand(1, 3, 8, 8)
    for sign in (1, -1):
        opbridge.export(model, (sign * x,), path, verify=True)
    opbridge.verify(path, model, (x,))
    (chosen,) = (node for node in onnx.load(path).graph.node if node.op_type == "If")
    bodies = {body.name: [node.op_type for node in body.g.node] for body in chosen.attribute}
    for operators_of in bodies.values():
        assert not {"BatchNormalization", "Neg", "Transpose"} & set(operators_of), bodies
        assert operators_of.count("Conv") == 1


def test_a_bias_that_goes_may_equal_one_that_stays(tmp_path: pathlib.Path) -> None:
    folded, staying = normalized(nn.Conv2d(4, 4, 3, bias=False), 4), nn.BatchNorm2d(4)
    nn.init.zeros_(folded[1].bias)
    model = nn.Sequential(folded, nn.ReLU(), staying)
    assert operators(model, X, tmp_path) == ["Conv", "Relu", "BatchNormalization"]


def test_a_convolution_that_others_use_stays_as_it_is(tmp_path: pathlib.Path) -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = normalized(nn.Conv2d(4, 4, 3, padding=1), 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            return y + self.norm(y)

    class Repeated(Shared):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.conv(self.conv(x)))

    assert operators(Shared(), X, tmp_path).count("BatchNormalization") == 1
    assert operators(Repeated(), X, tmp_path).count("BatchNormalization") == 1


def test_statistics_that_are_not_finite_stay_as_they_are(tmp_path: pathlib.Path) -> None:
    model = normalized(nn.Conv2d(4, 6, 3), 6)
    model[1].running_var[0] = -1.0
    assert operators(model, X, tmp_path) == ["Conv", "BatchNormalization"]


class LayerScale(nn.Module):
    """The result of `branch`, optionally permuted, times a factor for each channel."""

    def __init__(self, branch: nn.Module, factors: torch.Tensor, permutation: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self.branch, self.permutation = branch, permutation
        self.factors = nn.Parameter(factors)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.branch(x)
        return self.factors * (y.permute(self.permutation) if self.permutation else y)


FACTORS = torch.linspace(-2, 3, 6)


@pytest.mark.parametrize(
    ("model", "x", "expected"),
    [
        (LayerScale(nn.Linear(5, 6), FACTORS), X, ["MatMul", "Add"]),
        (LayerScale(nn.Linear(5, 6, bias=False), FACTORS), X, ["MatMul"]),
        (LayerScale(nn.Linear(300, 6), FACTORS), torch.ones(2, 3, 300), ["MatMul", "Add"]),
        (LayerScale(nn.Linear(5, 6), FACTORS), X[0, 0], ["Gemm"]),
        (LayerScale(nn.Linear(5, 6), FACTORS[:, None, None], (0, 3, 1, 2)), X, ["MatMul", "Add", "Transpose"]),
        (LayerScale(nn.Conv2d(4, 6, 3), FACTORS[:, None, None]), X, ["Conv"]),
        (LayerScale(nn.Conv2d(4, 6, 3, bias=False), FACTORS, (0, 2, 3, 1)), X, ["Conv", "Transpose"]),
        (LayerScale(LayerScale(nn.Linear(5, 6), FACTORS), FACTORS), X, ["MatMul", "Add"]),
        # Factors that are not of the channels, not one for each, or not finite: they stay.
        (LayerScale(nn.Linear(5, 6), torch.linspace(1, 2, 5)[:, None]), X, ["MatMul", "Add", "Mul"]),
        (LayerScale(nn.Linear(5, 6), torch.linspace(1, 2, 30).reshape(5, 6)), X, ["MatMul", "Add", "Mul"]),
        (LayerScale(nn.Linear(5, 1), FACTORS), X, ["MatMul", "Add", "Mul"]),
        (LayerScale(nn.Conv2d(4, 6, 3), FACTORS[:3]), X, ["Conv", "Mul"]),
        (LayerScale(nn.Linear(5, 6), FACTORS / 0), X, ["MatMul", "Add", "Mul"]),
        (LayerScale(nn.Linear(5, 6).double(), FACTORS.double()), X.double(), ["MatMul", "Add", "Mul"]),
    ],
)
def test_factors_of_channels_go_into_the_weights(
    model: nn.Module, x: torch.Tensor, expected: list[str], tmp_path: pathlib.Path
) -> None:
    assert operators(model, x, tmp_path) == expected


def test_weights_that_others_use_keep_their_values(tmp_path: pathlib.Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.factors = nn.Linear(5, 5), nn.Parameter(FACTORS[:5].clone())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(self.linear(x) * self.factors)

    class SameBias(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.factors = nn.Linear(5, 5), nn.Linear(5, 5), nn.Parameter(FACTORS[:5].clone())
            self.second.bias = self.first.bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x) * self.factors)

    class Both(Tied):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.linear(x)
            return y, y * self.factors

    assert operators(Tied(), X[0, 0], tmp_path) == ["Gemm", "Mul", "Gemm"]
    assert operators(SameBias(), X, tmp_path) == ["MatMul", "Add"] * 2
    assert operators(Both(), X, tmp_path) == ["MatMul", "Add", "Mul"]


def random_chain(random: Random, x: torch.Tensor, reshapes: bool) -> list[tuple[str, Any]]:
    """A chain of views and transposes, as (name, argument)."""
    steps: list[tuple[str, Any]] = []
    for _ in range(random.randint(2, 7)):
        if random.random() < 0.4:
            step = "permute", random.sample(range(x.dim()), x.dim())
        elif random.random() < 0.5 and x.dim() < 6:
            step = "unsqueeze", random.randint(0, x.dim())
        elif reshapes and random.random() < 0.5:
            step = "reshape", random.sample(list(x.shape), x.dim())
        elif 1 in x.shape:
            step = "squeeze", random.choice([i for i, size in enumerate(x.shape) if size == 1])
        else:
            continue
        steps.append(step)
        x = getattr(x, step[0])(step[1])
        if random.random() < 0.2:
            steps.append(("use", None))
    return steps


def follow(steps: list[tuple[str, Any]], x: torch.Tensor) -> list[torch.Tensor]:
    results = []
    for name, argument in steps:
        if name == "use":
            results.append(x.sin())
        else:
            x = getattr(x, name)(argument)
    return [*results, x]


@pytest.mark.parametrize("seed", range(6))
def test_transposes_keep_their_meaning(seed: int) -> None:
    random = Random(seed)
    x, other = torch.rand(5, 1, 3, 2), torch.rand(7, 1, 3, 2)
    for reshapes in (True, False):
        chains = {f"chain{i}": functools.partial(follow, random_chain(random, x, reshapes)) for i in range(25)}
        check(chains, x)
    # torch.export checks whether a dynamic dim can be reshaped, so these are the chains without reshapes.
    check(chains, x, dynamic=[{0: torch.export.Dim("batch")}], also=[(other,)])


def test_transposes_become_fewer(tmp_path: pathlib.Path) -> None:
    class Chain(nn.Module):
        def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x.abs())

    for function, expected in [
        (lambda x: x.permute(1, 0, 2).permute(0, 2, 1), ["Transpose"]),
        (lambda x: x.mT.mT.sin(), ["Sin"]),
        (lambda x: x.reshape(4, 15).reshape(60).reshape(2, 5, 6), ["Reshape"]),
        (lambda x: x.unsqueeze(0).permute(3, 1, 2, 0).squeeze(3), ["Transpose"]),
        (lambda x: x.permute(1, 0, 2).unsqueeze(0).mT, ["Transpose", "Reshape"]),
        (lambda x: x.reshape(4, 1, 15).permute(1, 2, 0), ["Reshape", "Transpose"]),
        (lambda x: x.reshape(60, 1).permute(1, 0), ["Reshape"]),
    ]:
        assert operators(Chain(function), torch.rand(4, 3, 5), tmp_path) == ["Abs", *expected]


def test_the_runtime_fuses_an_rms_normalization(tmp_path: pathlib.Path) -> None:
    class RmsNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(5))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))

    assert operators(RmsNorm(), X, tmp_path) == ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(options.optimized_model_filepath)
    assert [node.op_type for node in optimized.graph.node] == ["SimplifiedLayerNormalization"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_what_constants_make_is_computed_at_export(dtype: torch.dtype) -> None:
    def positions(x: torch.Tensor) -> torch.Tensor:
        numbers = (torch.arange(6, dtype=dtype) - 3).reshape(2, 3)
        return x + (numbers.abs().clamp(1, 2).neg() - numbers.clamp(max=0)).repeat(2, 3)

    exported = check(positions, torch.zeros(4, 9, dtype=dtype))
    assert [node.op_type for node in exported.graph.node] == ["Add"]


def test_roots_of_constants_are_computed_at_export() -> None:
    exported = check(lambda x: x * torch.arange(-1, 5.0).sqrt(), torch.ones(6))
    assert [node.op_type for node in exported.graph.node] == ["Mul"]


def test_products_and_sines_of_small_constants_are_folded(tmp_path: pathlib.Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, shape in {"a": (2, 1, 3, 4), "b": (5, 4, 6), "empty": (3, 0)}.items():
                self.register_buffer(name, torch.randn(shape))

        def forward(self, x):
            table = (self.a @ self.b).sin() + self.b[0, 0].cos()
            return x @ table.mT, self.empty @ self.empty.mT + x[..., :3, :3]

    torch.manual_seed(0)
    assert operators(Model(), torch.randn(2, 5, 3, 6), tmp_path).count("MatMul") == 1


def test_neutral_scalars_and_constant_choices_go(tmp_path: pathlib.Path) -> None:
    class Model(nn.Module):
        def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(x.abs()).neg()

    causal, nothing = torch.ones(3, 3, dtype=torch.bool).tril(), torch.zeros(3, 3, dtype=torch.bool)
    for function, expected in [
        (lambda x: ((0 + x) - 0) * 1 / torch.tensor(1.0), []),
        (lambda x: torch.where(torch.ones(1, 3, dtype=torch.bool), x, 7.0), []),
        (lambda x: torch.where(nothing, 7.0, x), []),
        (lambda x: torch.where(torch.ones(2, 1, 1, dtype=torch.bool), x, 7.0), ["Where"]),  # broadcast
        (lambda x: torch.where(causal, x, 7.0), ["Where"]),
        (lambda x: 1 - x, ["Sub"]),
        (lambda x: 1 / x, ["Reciprocal"]),
        (lambda x: x[0] + torch.zeros(2, 1, 1), ["Gather", "Add"]),
        (lambda x: x + torch.zeros(3), ["Add"]),  # not 0, like a trained one
        # no row of this mask is without a key
        (
            lambda x: nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=causal),
            ["Transpose", "Mul", "MatMul", "Add", "Softmax", "MatMul"],
        ),
    ]:
        made = operators(Model(function), torch.rand(3, 3), tmp_path)
        assert made == ["Abs", *expected, "Neg"], expected


def test_products_of_transposed_float64() -> None:
    functions = {
        "right": lambda x, y: x @ y.mT,
        "left": lambda x, y: x.mT @ x,
        "matrix": lambda x, y: x @ y[0].T,
        "batches": lambda x, y: x.transpose(0, 1) @ x.transpose(0, 1).mT,
    }
    check(functions, torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 5, 4, dtype=torch.float64))


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize("opset", [21, 23])
def test_scaled_products_of_float64_keep_their_precision(opset: int, simplify: bool) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 2, 3, 7, 8, dtype=torch.float64)
    products = {
        "attention": lambda x, y: nn.functional.scaled_dot_product_attention(x, y, y),
        "operand": lambda x, y: (x * 0.1) @ y.mT,
        "transposed": lambda x, y: x @ (y / 3).mT,
        "result": lambda x, y: (x @ y.mT).mT * 0.7,
        "row": lambda x, y: (x[:, :, :1].mT @ y[:, :, :1]) * 0.3,
        "infinite": lambda x, y: torch.addmm(x[0, 0, :, :7], x[0, 0], y[0, 0].mT, alpha=math.inf),
    }
    model = check(products, x, y, opset=opset, simplify=simplify, rtol=0, atol=1e-13)
    a, b = x[0, 0], y[0, 0].mT
    sizes = [{0: "n"}, {1: "m"}]
    check(lambda a, b: (a @ b) * 0.7, a, b, opset=opset, simplify=simplify, dynamic=sizes, rtol=0, atol=1e-13)
    used = {name for node in model.graph.node for name in node.input}
    assert {weight.name for weight in model.graph.initializer} <= used


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinite_scales_of_products(dtype: torch.dtype) -> None:
    """Of no terms, too, whose sum is 0, and of terms that are multiplied before they are summed."""
    products = {
        "by infinity": lambda x: (x @ x.mT) * math.inf,
        "by -infinity, transposed": lambda x: (x @ x.mT).mT * -math.inf,
        "by NaN": lambda x: (x @ x.mT) * math.nan,
        "divided by 0": lambda x: (x @ x.mT) / 0.0,
        "operand": lambda x: (x * math.inf) @ x.mT,
        "covariance": torch.cov,
        "correlation": torch.corrcoef,
    }
    for x in (torch.rand(2, 0), torch.tensor([[1.0, 0.0], [0.0, 2.0]])):
        check(products, x.to(dtype))
    del products["covariance"], products["correlation"]
    check(products, torch.rand(2, 3, dtype=dtype), also=[(torch.rand(2, 0, dtype=dtype),)], dynamic=[{1: "n"}])


@pytest.mark.parametrize("simplify", [True, False])
@pytest.mark.parametrize("perm", [(1, 0, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
def test_casts_come_before_rotations(
    dtype: torch.dtype, perm: tuple[int, ...], simplify: bool, tmp_path: pathlib.Path
) -> None:
    """ONNX Runtime would crash on some of them."""
    x = torch.randint(-4, 4, (3, 4, 5)).to(dtype)
    columns = x.permute(perm).shape[-1]
    constant, matrix = torch.ones(columns, 2), torch.randn(columns, 3)

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        turned = x.permute(perm)
        half = [turned @ constant.to(dtype), nn.functional.linear(turned, constant.t().to(dtype))]
        return turned.float() @ constant, turned.float() @ y, turned, half if dtype.itemsize == 2 else []

    opbridge.export(function, (x, matrix), tmp_path / "model.onnx", verify=True, simplify=simplify)


def test_casts_come_before_rotations_in_branches(tmp_path: pathlib.Path) -> None:
    matrix = torch.ones(5, 2)

    def product(x: torch.Tensor) -> torch.Tensor:
        return x.permute(1, 0, 2).float() @ matrix

    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, product, lambda x: product(x + 1), (x,))
        return result

    for value in (1, -1):
        x = torch.full((3, 4, 5), value, dtype=torch.bfloat16)
        opbridge.export(function, (x,), tmp_path / "model.onnx", verify=True)


def test_normalizations_one_after_the_other(tmp_path: pathlib.Path) -> None:
    model = nn.Sequential(normalized(nn.Conv2d(4, 6, 3), 6), normalized(nn.Identity(), 6)[1])
    assert operators(model, X, tmp_path) == ["Conv"]


class Constant(nn.Module):
    def __init__(self, function: Callable[..., Any], constant: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        self.constant = nn.Buffer(constant)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.constant)


def test_remainders_of_constants_keep_their_sign(tmp_path: pathlib.Path) -> None:
    model = Constant(lambda x, k: x + torch.fmod(k, 3) + torch.remainder(k, 3) * 100, torch.tensor([-7, 7, 3]))
    opbridge.export(model, (torch.zeros(3),), tmp_path / "model.onnx", verify=True)


def test_mappings_of_others_are_not_taken_for_our_own(tmp_path: pathlib.Path) -> None:
    @opbridge.symbolic("aten::addmm", opset=9)
    def addmm(g: Any, bias: Any, x: Any, weight: Any, beta: Any, alpha: Any) -> Any:
        return g.op("Gemm", x, weight, bias, transB=0)

    @opbridge.symbolic("aten::hardtanh", opset=9)
    def hardtanh(g: Any, x: Any, low: Any, high: Any) -> Any:
        return g.op("Clip", x, min=float(low), max=float(high))

    try:
        square = Constant(lambda x, k: torch.addmm(k[0], x, k) * torch.arange(1.0, 5), torch.rand(4, 4))
        opbridge.export(square, (torch.rand(2, 4),), tmp_path / "model.onnx", verify=True)
        clipped = Constant(lambda x, k: x + nn.functional.hardtanh(k), torch.tensor([-5, 0.5, 3, 7]))
        opbridge.export(clipped, (torch.rand(4),), tmp_path / "model.onnx", opset_version=10, verify=True)
    finally:
        opbridge.unregister_custom_op_symbolic("aten::addmm", 9)
        opbridge.unregister_custom_op_symbolic("aten::hardtanh", 9)


def test_floats_beyond_the_integers_are_the_runtimes(tmp_path: pathlib.Path) -> None:
    model = Constant(lambda x, k: x + k.to(torch.int32), torch.tensor([2.5, -3.5]))
    assert operators(model, torch.zeros(2, dtype=torch.int32), tmp_path) == ["Add"]
    model = Constant(lambda x, k: x + k.to(torch.int32), torch.tensor([3e9, 1.0]))
    assert operators(model, torch.zeros(2, dtype=torch.int32), tmp_path) == ["Cast", "Add"]


def test_levels_of_an_image_are_those_of_pytorch() -> None:
    """A scale is rounded before it is multiplied, and the product decides about the level."""

    def stretched(x: torch.Tensor) -> torch.Tensor:
        low, high = x.amin().float(), x.amax().float()
        return ((x - low) * (255 / (high - low))).to(torch.uint8)

    program = opbridge.export(stretched, (torch.arange(5, dtype=torch.uint8),), dynamic_shapes=({0: "n"},))
    for last in range(2, 255):
        x = torch.arange(last + 1, dtype=torch.uint8)
        assert torch.equal(program(x)[0], stretched(x))
