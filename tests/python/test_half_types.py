"""Functions that do not round, for every number of float16 and bfloat16.

For target="onnx" most are nodes of the type itself; ONNX Runtime computes bfloat16, and what it has no kernels for, in
float32. The results are PyTorch's in both, NaN and the signs of zeros included.
"""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from conftest import INSTALLED
from lowering_check import check, operators
from onnx.reference import ReferenceEvaluator

import opbridge

HALF_TYPES = [torch.float16, torch.bfloat16]
FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "abs": lambda x, y: x.abs(),
    "ceil": lambda x, y: x.ceil(),
    "clamp": lambda x, y: x.clamp(-0.3, 0.7),
    "clamp from below": lambda x, y: x.clamp(min=0.1),
    "floor": lambda x, y: x.floor(),
    "fmax": lambda x, y: torch.fmax(x, y),
    "fmin": lambda x, y: torch.fmin(x, y),
    "hardshrink": lambda x, y: F.hardshrink(x, 0.3),
    "hardtanh": lambda x, y: F.hardtanh(x, -0.3, 0.7),
    "masked_fill": lambda x, y: x.masked_fill(y > 0.1, 0.3),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "nan_to_num": lambda x, y: x.nan_to_num(0.1, 0.3, -0.7),
    "neg": lambda x, y: -x,
    "relu": lambda x, y: x.relu(),
    "relu6": lambda x, y: F.relu6(x),
    "round": lambda x, y: x.round(),
    "sign": lambda x, y: x.sign(),
    "trunc": lambda x, y: x.trunc(),
    "where": lambda x, y: torch.where(x.isnan(), y, x),
}
WIDE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "clamp by tensors": lambda x, y: x.clamp(y, y.abs()),
}
COMPARISONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "equal to a number": lambda x, y: x == 0.1,
    "greater": lambda x, y: x > y,
    "isfinite": lambda x, y: x.isfinite(),
    "isinf": lambda x, y: x.isinf(),
    "isnan": lambda x, y: x.isnan(),
    "less or equal": lambda x, y: x <= y,
}


def numbers(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Every number, and a random partner for each. All NaN are quiet: PyTorch's fmax returns a signaling NaN."""
    every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    every = torch.where(every.isnan(), math.nan, every)
    return every, every[torch.randperm(len(every), generator=torch.Generator().manual_seed(0))]


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_of_every_number(dtype: torch.dtype) -> None:
    x, y = numbers(dtype)
    # The inverse shows the sign of a zero. ONNX Runtime's Where, which truncates numbers, loses this sign; in 1.20,
    # Ceil and Floor lose it too.
    unsigned = ("trunc", "ceil", "floor") if INSTALLED == (1, 20) else ("trunc",)
    inverses = {
        f"1 / {name}": lambda x, y, f=f: 1 / f(x, y) for name, f in (FUNCTIONS | WIDE).items() if name not in unsigned
    }
    check(FUNCTIONS | WIDE | inverses | COMPARISONS, x, y, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", HALF_TYPES)
@pytest.mark.parametrize("name", [*FUNCTIONS, *COMPARISONS])
def test_the_standard_has_them_in_the_type_itself(name: str, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    function, pair = (FUNCTIONS | COMPARISONS)[name], numbers(dtype)
    opbridge.export(function, pair, tmp_path / "model.onnx", target="onnx", opset_version=22)
    model = onnx.load(tmp_path / "model.onnx")
    assert "Cast" not in operators(model)
    if dtype == torch.float16:
        feeds = {value.name: tensor.numpy() for value, tensor in zip(model.graph.input, pair, strict=False)}
        with np.errstate(all="ignore"):
            [actual] = ReferenceEvaluator(model).run(None, feeds)
        torch.testing.assert_close(torch.from_numpy(actual), function(*pair), rtol=0, atol=0, equal_nan=True)


def test_a_chain_of_bfloat16_is_cast_once() -> None:
    model = check(lambda x: x.trunc().relu().clamp(max=3), torch.tensor([-2.5, -0.0, 2.5, math.nan]).bfloat16())
    assert operators(model).count("Cast") == 2
