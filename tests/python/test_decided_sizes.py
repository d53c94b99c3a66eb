"""Conditions on a dynamic size that are always true, or never, decide no branch."""

from __future__ import annotations

import math
import pathlib
import random
import warnings
from typing import Any

import pytest
import sympy
import torch
from dynamic_check import CAPTURES
from torch import nn
from torch.nn import functional as F
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatTrueDiv,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    Mod,
    OpaqueUnaryFn_log2,
    OpaqueUnaryFn_sqrt,
    PowByNatural,
    PythonMod,
    RoundToInt,
    ToFloat,
    TruncToInt,
)

import opbridge
from checking.models import export_and_verify
from opbridge import TraceWarning
from opbridge.capture.symbolic_sizes.decided import is_decided

N = sympy.Symbol("n", integer=True, positive=True)


@pytest.mark.parametrize(
    "always",
    [
        Max(0, 2 * CeilToInt(IntTrueDiv(N, 2)) - N + 1) > 0,
        Max(0, 2 * CeilToInt(IntTrueDiv(N, 2)) - N - 1) <= 0,
        sympy.Ge(FloorDiv(N, 2) * 2 + Mod(N, 2), N),
        sympy.Ne(Mod(2 * N + 1, 4), 2),
        sympy.Le(Min(N, 7), 7),
        sympy.Ge(N**2 + FloorDiv(N, 2), N**2),
        sympy.Ge(N - TruncToInt(0.75 * ToFloat(N)) - FloorDiv(N, 4), 0),
        sympy.Le(RoundToInt(FloatTrueDiv(ToFloat(N - 1), sympy.Float(2))) + FloorDiv(N, 2), N),
        sympy.Eq(RoundToInt(IntTrueDiv(2 * N + 1, 2)) - N - Mod(N, 2), 0),
        sympy.Ne(TruncToInt(0.6 * ToFloat(N)), N),
        sympy.Ge(N - RoundToInt(0.7 * ToFloat(N)), 0),  # 0.7 is rounded
        sympy.Gt(FloorToInt(FloatTrueDiv(1.7 * ToFloat(N), sympy.Float(1.1))) + 1, N),
        sympy.Ge(CeilToInt(OpaqueUnaryFn_log2(ToFloat(N))), 0),
        sympy.Ge(CeilToInt(OpaqueUnaryFn_log2(ToFloat(2 * N))), 1),
        sympy.Gt(FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(N))) + N, 1),
        sympy.Ge(PowByNatural(2, CeilToInt(OpaqueUnaryFn_log2(ToFloat(2 * N)))) - N, 1),
    ],
)
def test_what_is_always_true(always: Any) -> None:
    assert is_decided(always, True, 1, None) or always is sympy.true
    assert not is_decided(always, False, 1, None)


@CAPTURES
def test_an_image_that_a_fraction_never_leaves_as_it_is(capture: Any, tmp_path: pathlib.Path) -> None:
    """torchvision does not resize an image to its own size."""

    def model(x: torch.Tensor) -> torch.Tensor:
        size = [int(x.shape[-2] * 0.6), int(x.shape[-1] * 0.6)]
        return x if size == [x.shape[-2], x.shape[-1]] else F.interpolate(x, size)

    images = [torch.rand(1, 3, *size) for size in ((40, 56), (33, 50), (8, 7))]
    height, width = torch.export.Dim("h", min=4), torch.export.Dim("w", min=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        export_and_verify(model, tmp_path / "model.onnx", images, {2: height, 3: width}, capture)


@pytest.mark.parametrize(
    ("sometimes", "truth"),
    [
        (N < 1000, True),
        (3 * N < 1000, True),
        (sympy.Ne(Mod(N, 97), 50), True),
        (sympy.Ne(FloorDiv(FloorDiv(N, 11), 13), 19), True),
        (Max(0, N - 300) > 0, False),
        (N * N < 500, True),
        (sympy.Eq(Mod(CeilToInt(IntTrueDiv(N, 5)), 3), 1), True),
        (sympy.Ge(N - TruncToInt(1.0009765625 * ToFloat(N)), 0), True),
        (sympy.Ne(N - RoundToInt(0.7 * ToFloat(N)), 30), True),
        (sympy.Ne(TruncToInt(0.999 * ToFloat(N)), N - 3), True),
        (sympy.Eq(RoundToInt(IntTrueDiv(N, 2)), FloorDiv(N, 2)), True),
        (sympy.Le(CeilToInt(OpaqueUnaryFn_log2(ToFloat(N))), 10), True),
        (sympy.Ge(CeilToInt(OpaqueUnaryFn_log2(ToFloat(N))), 1), True),
        (sympy.Ge(PowByNatural(2, CeilToInt(OpaqueUnaryFn_log2(ToFloat(N)))), 2), True),
        (sympy.Ge(N - PowByNatural(2, CeilToInt(OpaqueUnaryFn_log2(ToFloat(N)))), 0), True),
        (sympy.Ge(PowByNatural(3, CeilToInt(OpaqueUnaryFn_log2(ToFloat(N)))) - 2 * N, 0), True),
        (sympy.Gt(FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(N))) - N, -1), True),
        (sympy.Gt(FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(N))) * -2, -4), True),
    ],
)
def test_what_other_sizes_may_answer_otherwise(sometimes: Any, truth: bool) -> None:
    assert not is_decided(sometimes, truth, 1, None)


def test_the_range_of_the_size_counts() -> None:
    assert is_decided(N < 1000, True, 1, 999)
    assert not is_decided(N < 1000, True, 1, 1000)
    assert is_decided(N > 3, True, 4, None)
    assert not is_decided(sympy.Eq(Mod(N, 7), 3), False, 5000, None)


def drawn(source: random.Random, depth: int) -> Any:
    if depth == 0:
        return N
    inner = drawn(source, depth - 1)
    number = source.randint(1, 6)
    return source.choice(
        [
            lambda: inner + source.randint(-6, 6),
            lambda: inner * number,
            lambda: FloorDiv(inner, number + 1),
            lambda: PythonMod(inner, number + 1),
            lambda: CeilToInt(IntTrueDiv(inner, number + 1)),
            lambda: RoundToInt(IntTrueDiv(inner, number + 1)),
            lambda: FloorToInt(FloatTrueDiv(ToFloat(inner), sympy.Float(number + 1))),
            lambda: TruncToInt(sympy.Float(number / 4) * ToFloat(inner)),
            lambda: FloorToInt(sympy.Float(number / 10) * ToFloat(inner)),
            lambda: Max(inner, source.randint(-9, 9)),
            lambda: Min(inner, source.randint(0, 40)),
            lambda: inner - drawn(source, depth - 1),
        ]
    )()


def test_drawn_conditions() -> None:
    source = random.Random(0)
    decided = 0
    for _ in range(400):
        relation = source.choice([sympy.Eq, sympy.Ne, sympy.Gt, sympy.Ge])
        condition = relation(drawn(source, 3), source.randint(-3, 12))
        if condition in (sympy.true, sympy.false):
            continue
        truth = bool(condition.xreplace({N: sympy.Integer(5)}))
        if is_decided(condition, truth, 1, None):
            decided += 1
            sizes = [*range(1, 400, 7), *(source.randint(400, 10**6) for _ in range(60))]
            assert all(bool(condition.xreplace({N: sympy.Integer(size)})) == truth for size in sizes), condition
    assert decided > 20


class Same(nn.Module):
    """Pads as TensorFlow does, before convolutions of stride 1 and 2."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(2, 2, k, s) for k, s in ((3, 2), (5, 1), (3, 2), (1, 2), (5, 2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            pads = [
                max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
                for size, kernel, stride in zip(x.shape[-2:], layer.kernel_size, layer.stride, strict=True)
            ]
            if pads[0] > 0 or pads[1] > 0:
                x = F.pad(x, [pads[1] // 2, pads[1] - pads[1] // 2, pads[0] // 2, pads[0] - pads[0] // 2])
            x = layer(x)
        return x


@CAPTURES
def test_same_padding(capture: Any, tmp_path: pathlib.Path) -> None:
    path, model = tmp_path / "model.onnx", Same()
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(
            model, (torch.randn(1, 2, 40, 41),), path, capture=capture, dynamic_shapes=({2: "height", 3: "width"},)
        )
    for height, width in ((40, 41), (1, 1), (33, 64), (7, 18)):
        opbridge.verify(path, model, (torch.randn(1, 2, height, width),))


@CAPTURES
def test_a_branch_in_what_is_shown(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        print("many" if x.shape[0] > 3 else "few", "rows")
        return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        program = opbridge.export(
            model, (torch.randn(5, 2),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=({0: "n"},)
        )
    assert [node.op_type for node in program.model_proto.graph.node] == ["Mul"]


@CAPTURES
def test_products_with_equal_factors(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        size, height, width, _ = x.shape
        halves = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))[:, ::2, ::2].reshape(size, -1, 3)
        return halves * 2 + x.new_ones(size, ((height + 1) // 2) * ((width + 1) // 2), 3)

    path, shapes = tmp_path / "m.onnx", ({0: "n", 1: "height", 2: "width"},)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(model, (torch.randn(2, 5, 7, 3),), path, capture=capture, dynamic_shapes=shapes)
    for height, width in ((1, 1), (4, 7), (1, 9), (6, 2)):
        opbridge.verify(path, model, (torch.randn(3, height, width, 3),))
