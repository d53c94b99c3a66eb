"""The everyday methods of `g` in Python: each in the form that the opset has, at sizes other than the example's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from symbolic_models import export

import opbridge
from checking.runtime import run_plain

ROWS = torch.export.Dim("rows", min=1)

# The symbolic function, and what it computes. The input is (rows, 6), float32.
FORMS: dict[str, tuple[Callable[..., Any], Callable[[torch.Tensor], Any]]] = {
    "cast": (lambda g, x: g.cast(x, torch.int64), lambda x: x.to(torch.int64)),
    "scalar": (lambda g, x: g.op("Mul", x, g.scalar(2, torch.float32)), lambda x: x * 2),
    "scalar_like": (lambda g, x: g.op("Max", x, g.scalar_like(x, 3)), lambda x: x.clamp(min=3)),
    "shape_of": (lambda g, x: g.cast(g.shape_of(x), torch.float32), lambda x: torch.tensor(x.shape).float()),
    "dim_of": (
        lambda g, x: g.op("Mul", x, g.cast(g.dim_of(x, 0), torch.float32)),
        lambda x: x * x.shape[0],
    ),
    "sizes": (
        lambda g, x: g.op("Reshape", x, g.sizes([3, g.dim_of(x, 0), 2])),
        lambda x: x.reshape(3, x.shape[0], 2),
    ),
    "reshape": (
        lambda g, x: g.reshape(x, [g.dim_of(x, 0), 2, 3]),
        lambda x: x.reshape(x.shape[0], 2, 3),
    ),
    "reshape by texts of sizes": (
        lambda g, x: g.reshape(x, [3, *x.type().dims[:1], 2]),
        lambda x: x.reshape(3, x.shape[0], 2),
    ),
    "reshape to what is left": (lambda g, x: g.reshape(x, [2, -1]), lambda x: x.reshape(2, -1)),
    "reshape to a computed size": (
        lambda g, x: g.reshape(x, [g.op("Mul", g.dim_of(x, 0), 2), 3]),
        lambda x: x.reshape(x.shape[0] * 2, 3),
    ),
    "expand": (
        lambda g, x: g.expand(g.unsqueeze(x, [0]), [2, g.dim_of(x, 0), 6]),
        lambda x: x.expand(2, x.shape[0], 6).clone(),
    ),
    "transpose": (lambda g, x: g.transpose(x, [1, 0]), lambda x: x.t().clone()),
    "unsqueeze": (lambda g, x: g.unsqueeze(x, [0, -1]), lambda x: x[None, :, :, None].clone()),
    "squeeze": (lambda g, x: g.squeeze(g.unsqueeze(x, [0, 3]), [-1]), lambda x: x[None].clone()),
    "concat": (lambda g, x: g.concat([x, x], 0), lambda x: torch.cat([x, x])),
    "slice": (lambda g, x: g.slice(x, 1, 1, -1), lambda x: x[:, 1:-1].clone()),
    "slice with a step": (lambda g, x: g.slice(x, 1, 1, 6, 2), lambda x: x[:, 1:6:2].clone()),
    "slice to a computed bound": (
        lambda g, x: g.slice(x, 1, 0, g.op("Min", g.dim_of(x, 0), torch.tensor(2))),
        lambda x: x[:, : min(x.shape[0], 2)].clone(),
    ),
    "gather": (lambda g, x: g.gather(x, [1, 0], 1), lambda x: x[:, [1, 0]]),
    "split": (lambda g, x: g.op("Add", *g.split(x, 1, [3, 3])), lambda x: x[:, :3] + x[:, 3:]),
    "reduce": (lambda g, x: g.reduce("ReduceSum", x, [-1]), lambda x: x.sum(-1)),
    "reduce all": (lambda g, x: g.reduce("ReduceMax", x), lambda x: x.amax()),
    "reduce and keep": (lambda g, x: g.reduce("ReduceMean", x, [0], keepdims=True), lambda x: x.mean(0, True)),
    "result": (lambda g, x: g.cast(x, g.result().dtype()), lambda x: x.double()),
}


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str, opset: int, tmp_path: Path) -> None:
    symbolic, forward = FORMS[name]
    example = torch.linspace(-9, 9, 18).reshape(3, 6)
    # The result has min(rows, 2) columns, which is not a linear function of a dynamic number of rows.
    dynamic = {} if name == "slice to a computed bound" else {"dynamic_shapes": (({0: ROWS},),)}
    export(symbolic, tmp_path / "m.onnx", forward, example, opset_version=opset, **dynamic)
    for rows in (3, 1, 5) if dynamic else (3,):
        x = torch.linspace(-4, 7, rows * 6).reshape(rows, 6)
        expected = forward(x)
        (result,) = run_plain(tmp_path / "m.onnx", x)
        assert result.dtype == expected.numpy().dtype
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-6)


def refuse(symbolic: Callable[..., Any], tmp_path: Path) -> str:
    with pytest.raises(opbridge.Error) as error:
        export(symbolic, tmp_path / "m.onnx", lambda x: x * 2, torch.ones(2, 3))
    assert not (tmp_path / "m.onnx").exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("symbolic", "message"),
    [
        (lambda g, x: g.squeeze(x, [2]), "axis 2"),
        (lambda g, x: g.transpose(x, [0, 0]), "perm"),
        (lambda g, x: g.reshape(x, [g.op("Shape", x), 3]), "a size is a tensor of one element"),
        (lambda g, x: g.reshape(x, [g.scalar(1.5, torch.float32), 3]), "a size is an int64"),
        (lambda g, x: g.cast(x, g.result(1).dtype()), "has 1 results"),
        (lambda g, x: g.reduce("ReduceNothing", x, [0]), "ONNX has no operator of this name"),
    ],
)
def test_refusals(symbolic: Callable[..., Any], message: str, tmp_path: Path) -> None:
    assert message in refuse(symbolic, tmp_path)
