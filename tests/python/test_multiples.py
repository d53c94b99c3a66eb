"""Networks pad images to a multiple in each stage. The expressions of sizes do not grow with each stage."""

from __future__ import annotations

import math
import pathlib
import warnings
from typing import Any

import pytest
import sympy
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees, agrees_without_warnings

import opbridge
from opbridge.capture.symbolic_sizes.multiples import (
    is_always_quotient,
    quotient,
    simplify_multiple,
    with_least_dividends,
)
from opbridge.capture.symbolic_sizes.slices import are_always_equal
from opbridge.torch_compat.symbols import FloorDiv, IntTrueDiv, Mod, PythonMod

X = sympy.Symbol("x", integer=True)
HALF = FloorDiv(X, 2)


@pytest.mark.parametrize(
    "size",
    [
        X + Mod(4 - Mod(X, 4), 4),
        X + PythonMod(-X, 4),
        X + Mod(4 - Mod(X, 4), 4) - 1,
        HALF + Mod(7 - Mod(HALF, 7), 7) + 5,
        2 * X + 3 + PythonMod(-2 * X - 3, 8),
        6 * X + PythonMod(-5 * X - Mod(X, 5), 5),
        6 * X + 3 * PythonMod(-2 * X, 4),
        X - Mod(X, 4),
        X + 5 - PythonMod(X - 1, 4),
    ],
    ids=str,
)
def test_what_is_rounded_up_occurs_once(size: Any) -> None:
    simplified = simplify_multiple(size)
    assert sum(node == X for node in sympy.preorder_traversal(simplified)) == 1
    assert all(size.subs(X, number) == simplified.subs(X, number) for number in range(60))


@pytest.mark.parametrize(
    "size", [X + Mod(X, 4), X + PythonMod(-X, HALF), 2 * X + PythonMod(-X, 4), X * PythonMod(-X, 4), HALF], ids=str
)
def test_other_sizes_stay(size: Any) -> None:
    assert simplify_multiple(size) is size


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (X + PythonMod(-X, 4), 4 * FloorDiv(X + 3, 4)),
        (X + Mod(4 - Mod(X, 4), 4), X + PythonMod(-X, 4)),
        (X - Mod(X, 4), 4 * FloorDiv(X, 4)),
        (-FloorDiv(-X, 4), FloorDiv(X + 3, 4)),
        (FloorDiv(7 - X, 3), 2 - FloorDiv(X + 1, 3)),
        (PythonMod(2 - 3 * X, 5) + 3 * X, 2 + 5 * FloorDiv(3 * X + 2, 5)),
    ],
    ids=str,
)
def test_the_same_sizes_have_one_form(one: Any, other: Any) -> None:
    assert all(one.subs(X, number) == other.subs(X, number) for number in range(60))
    assert with_least_dividends(one) == with_least_dividends(other)
    assert not are_always_equal(one, other + 1)


@CAPTURES
def test_images_are_padded_in_each_stage(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        for multiple in (4, 7, 2, 7, 2):
            height, width = x.shape[2:]
            below, right = (multiple - height % multiple) % multiple, -width % multiple
            x = F.pad(x, (right // 2, right - right // 2, 0, below))
            x = F.avg_pool2d(x, 3, 2, 1)
        return x

    exported = agrees(
        model,
        [[(1, 2, 112, 112)], [(2, 2, 80, 150)], [(1, 2, 64, 64)]],
        ({0: "b", 2: "h", 3: "w"},),
        capture,
        tmp_path,
    )
    height = exported.graph.output[0].type.tensor_type.shape.dim[2].dim_param
    assert height.count("h") == 1, height


@CAPTURES
def test_padded_images_are_cropped_again(capture: Any, tmp_path: pathlib.Path) -> None:
    """As around the attention of windows. What is left has the size from before, for all sizes."""

    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            batch, channels, height, width = x.shape
            y = F.pad(x, (0, (6 - width % 6) % 6, 0, -height % 6))
            padded = y.shape
            y = y.reshape(batch, channels, padded[2] // 6, 6, padded[3] // 6, 6).softmax(3)
            x = y.reshape(padded)[:, :, :height, :width] * 2
        return x

    exported = agrees(
        model, [[(1, 2, 12, 12)], [(2, 2, 13, 5)], [(1, 2, 7, 18)]], ({0: "b", 2: "h", 3: "w"},), capture, tmp_path
    )
    dims = [dim.dim_param for dim in exported.graph.output[0].type.tensor_type.shape.dim]
    assert dims[2:] == ["h", "w"]


@CAPTURES
@pytest.mark.parametrize("by", [lambda area: area // 4 // 6, lambda area: area / 4 / 6], ids=["integers", "floats"])
def test_windows_of_padded_images_are_counted_by_the_area(by: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    """The number of images is the number of windows, divided by that of an image: none of its symbols is left."""

    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            batch, channels, height, width = x.shape
            y = F.pad(x, (0, (6 - width % 6) % 6, 0, -height % 4))
            below, right = y.shape[2:]
            y = y.view(batch, channels, below // 4, 4, right // 6, 6)
            windows = y.permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, 6, channels).softmax(1)
            images = int(windows.shape[0] / by(below * right))
            y = windows.view(images, below // 4, right // 6, 4, 6, -1).permute(0, 1, 3, 2, 4, 5)
            x = y.contiguous().view(images, below, right, -1).permute(0, 3, 1, 2)[:, :, :height, :width] * 2
        return x

    exported = agrees(model, [[(2, 2, 8, 12)], [(2, 2, 9, 5)], [(2, 2, 4, 1)]], ({2: "h", 3: "w"},), capture, tmp_path)
    dims = exported.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value or dim.dim_param for dim in dims] == [2, 2, "h", "w"]


@CAPTURES
def test_padded_sequences_are_split_into_chunks(capture: Any, tmp_path: pathlib.Path) -> None:
    """The number of chunks is left to torch, and the first elements are there for all lengths."""

    def model(x: torch.Tensor) -> torch.Tensor:
        padded = F.pad(x, (0, (4 - x.shape[1] % 4) % 4))
        chunks = padded.view(x.shape[0], -1, 4).softmax(2)
        return padded[:, :4] * torch.ones(4) + chunks.sum(1), (padded + chunks.view(padded.shape))[:, : x.shape[1]] + x

    agrees_without_warnings(model, [[(2, 10)], [(1, 1)], [(3, 4)], [(4, 9)]], ({0: "b", 1: "n"},), capture, tmp_path)


@CAPTURES
def test_lengths_of_windows_are_computed_with_floating_point_numbers(capture: Any, tmp_path: pathlib.Path) -> None:
    """As in audio codecs, which pad until the last window is full, and in the formula of a convolution's length."""

    def model(x: torch.Tensor) -> Any:
        for _ in range(6):
            full = (math.ceil((x.shape[2] - 3 + 2) / 1 + 1) - 1) * 1 + (3 - 2)
            x = x + F.conv1d(F.pad(x, (2, full - x.shape[2])), torch.ones(2, 2, 3))
        windows = math.floor((x.shape[2] - 1) / 2 + 1)
        return x[..., ::2] + x[..., :windows], x[..., ::2] + x[..., : int((x.shape[2] + 3) / 2 - 1)]

    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        exported = agrees(model, [[(1, 2, 9)], [(2, 2, 1)], [(1, 2, 4)]], ({0: "b", 2: "n"},), capture, tmp_path)
    assert exported.graph.output[0].type.tensor_type.shape.dim[2].dim_param.count("n") == 1


@pytest.mark.parametrize("offset", [0, 1, -2, 2.0])
def test_quotients_with_an_integer_are_one_quotient(offset: float) -> None:
    dividend, divisor = quotient(IntTrueDiv(X - 3, sympy.Integer(4)) + offset)
    assert divisor == 4
    for number in range(20):
        assert math.floor((number - 3) / 4 + offset) == dividend.subs(X, number) // 4
    assert quotient(IntTrueDiv(X, sympy.Integer(4)) + 0.5) is None
    assert quotient(IntTrueDiv(X, HALF)) is None
    assert quotient(X + 1.0) is None


@CAPTURES
def test_as_many_chunks_as_were_joined_cause_no_warning(capture: Any, tmp_path: pathlib.Path) -> None:
    """As in guidance of diffusion models."""

    def guided(x: torch.Tensor) -> torch.Tensor:
        without, given = torch.cat([x, x * 2]).chunk(2)
        first, second, third = torch.cat([given, without, given], 1).chunk(3, 1)
        return first + 3 * (second - third)

    agrees_without_warnings(guided, [[(3, 4)], [(1, 4)], [(2, 1)]], ({0: "n", 1: "m"},), capture, tmp_path)


@pytest.mark.parametrize(
    ("size", "other"),
    [
        (X + Mod(16 - Mod(X, 16), 16), 16 * FloorDiv(X - 1, 16) + 16),
        (FloorDiv(X + 9, 4) + 1, FloorDiv(X + 1, 4) + 3),
        (X + PythonMod(-X, 4), 4 * FloorDiv(X + 3, 4)),
    ],
    ids=str,
)
def test_sizes_that_are_rounded_to_the_same_multiple_are_equal(size: Any, other: Any) -> None:
    assert are_always_equal(size, other)
    assert all(size.subs(X, number) == other.subs(X, number) for number in range(60))
    assert not are_always_equal(size, other + 1)
    assert not are_always_equal(size, FloorDiv(X, 4))


def test_quotients_that_are_the_same_for_all_sizes() -> None:
    assert is_always_quotient(FloorDiv(3 * X - 1, X), 2)
    assert is_always_quotient(FloorDiv(4 * HALF + 2 * X - 1, HALF + X / 2), 3)
    assert not is_always_quotient(FloorDiv(3 * X - 2, X), 2)
    assert not is_always_quotient(FloorDiv(3 * X, X + 1), 2)
    assert not is_always_quotient(X, 2)
