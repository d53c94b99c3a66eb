"""Arguments of operators that are numbers made of dynamic sizes: exact at every size, or told by name."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees

import opbridge
from opbridge import TraceWarning

Function = Callable[..., Any]
ROWS = (6, 1, 3, 4, 9)


def gradient(function: Function) -> Function:
    """The sum of the results, differentiated by the input."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(x).sum(), x)
        return slope

    return compute


SCALARS: dict[str, Function] = {
    "softplus": lambda x: F.softplus(x * 4, x.shape[0] / 4),
    "softplus of an int": lambda x: F.softplus(x * 4, x.shape[0], x.shape[0] - 1),
    "softplus above": lambda x: F.softplus(x * 4, threshold=x.shape[0] / 4),
    "elu": lambda x: F.elu(x, x.shape[0] / 4),
    "elu of all": lambda x: torch.ops.aten.elu(x, x.shape[0] / 4, 1.5, x.shape[0] / 2),
    "celu": lambda x: F.celu(x, x.shape[0] / 4),
    "leaky_relu": lambda x: F.leaky_relu(x, 1 / x.shape[0]),
    "rrelu": lambda x: F.rrelu(x, 0.1 / x.shape[0], 1 / x.shape[0]),
    "softshrink": lambda x: F.softshrink(x, 1 / x.shape[0]),
    "hardshrink": lambda x: F.hardshrink(x, 1 / x.shape[0]),
    "threshold": lambda x: F.threshold(x, 1 / x.shape[0], x.shape[0] / 3),
    "hardtanh": lambda x: F.hardtanh(x, -1 / x.shape[0], 1 / x.shape[0]),
}
ARGUMENTS: dict[str, Function] = {
    **{f"{name} of float64": lambda x, f=f: f(x.double()) for name, f in SCALARS.items()},
    **{f"gradient of {name}": gradient(f) for name, f in SCALARS.items() if name not in ("elu of all", "celu")},
    "norm": lambda x: torch.norm(x, p=x.shape[0] / 2),
    "norm of a dim": lambda x: torch.norm(x, p=x.shape[0] / 2, dim=1),
    "norm of an order that may be 0": lambda x: torch.linalg.vector_norm(x - x.round(), x.shape[0] // 4, dim=1),
    "norm of a dynamic axis": lambda x: torch.linalg.norm(x, x.shape[0] / 3, dim=0, keepdim=True),
    "negative norm": lambda x: torch.linalg.vector_norm(x, -x.shape[0] / 2, dim=1),
    "normalize": lambda x: F.normalize(x, x.shape[0] / 2),
    "dist": lambda x: torch.dist(x, x + 1, x.shape[0] / 2),
    "renorm": lambda x: torch.renorm(x, x.shape[0] / 2, 0, 1 / x.shape[0]),
    "std": lambda x: x.std(1, correction=x.shape[0] / 8),
    "std of a dynamic axis": lambda x: x.std(0, correction=1 / (x.shape[0] + 1)),
    "var that loses all": lambda x: x.var(1, correction=x.shape[0]),
    "var of a negative correction": lambda x: x.var(0, correction=-x.shape[0] / 2),
    "var_mean": lambda x: torch.cat(torch.var_mean(x, dim=1, correction=x.shape[0] // 4)),
    "histc": lambda x: torch.histc(x, 4, -x.shape[0] / 2, x.shape[0] / 3),
    "histc between equal ends": lambda x: torch.histc(x, 4, 0, x.shape[0] // 4),
    "trapezoid": lambda x: torch.trapezoid(x, dx=x.shape[0] / 2),
    "cumulative_trapezoid": lambda x: torch.cumulative_trapezoid(x, dx=x.shape[0] / 2),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, x.argmax(1), margin=1 / x.shape[0]),
    # Arguments of the types float and int.
    "layer_norm": lambda x: F.layer_norm(x, (4,), eps=1 / x.shape[0]),
    "layer_norm of float16": lambda x: F.layer_norm(x.half(), (4,), torch.arange(4.0).half(), eps=1 / x.shape[0]),
    "rms_norm": lambda x: F.rms_norm(x, (4,), torch.arange(4.0), 1 / x.shape[0]),
    "group_norm": lambda x: F.group_norm(x, 2, torch.arange(4.0), torch.ones(4), 1 / x.shape[0]),
    "group_norm of images": lambda x: F.group_norm(x[:, :, None].repeat(1, 1, 3), 2, torch.ones(4), eps=x.shape[0]),
    "instance_norm": lambda x: F.instance_norm(x.t()[None].repeat(1, 1, 2), eps=1 / x.shape[0]),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.arange(4.0), eps=1 / x.shape[0]),
    "isclose": lambda x: torch.isclose(x, x + 0.2, atol=1 / x.shape[0]),
    "isclose of rtol": lambda x: x.isclose(x * 1.2, 1 / x.shape[0], equal_nan=True),
    "isclose of integers": lambda x: (x * 9).int().isclose((x * 8).int(), atol=x.shape[0] / 4),
    "allclose": lambda x: torch.allclose(x, x + 0.2, atol=1 / x.shape[0]) * x,
    "nan_to_num": lambda x: torch.nan_to_num(x.sqrt() / (x > 1), 1 / x.shape[0]),
    "nan_to_num of a size": lambda x: (x / (x > 1)).nan_to_num(posinf=x.shape[0]),
    "logit": lambda x: torch.logit(x.sigmoid(), 0.25 / x.shape[0]),
    "logit between bounds in the other order": lambda x: torch.logit(x.sigmoid(), 1 - 0.25 / x.shape[0]),
    "logit with a negative bound": lambda x: torch.logit(x, -1 / x.shape[0]),
    "quantile": lambda x: torch.quantile(x, 1 / x.shape[0], dim=1),
    "nanquantile": lambda x: x.nanquantile(0.9 / x.shape[0], 1, True, interpolation="nearest"),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x[:1] * 2, eps=x.shape[0]),
    "cdist": lambda x: torch.cdist(x, x + 1, x.shape[0] / 2),
    "pairwise_distance": lambda x: F.pairwise_distance(x, x + 1, x.shape[0] / 2, 1 / x.shape[0]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=1 / x.shape[0]),
    "dropout": lambda x: F.dropout(x, 1 / x.shape[0], False),
    "huber_loss": lambda x: F.huber_loss(x, x * 2, delta=1 / x.shape[0]),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x * 2, reduction="sum", beta=1 / x.shape[0]),
    "smooth_l1_loss that may be l1_loss": lambda x: F.smooth_l1_loss(x, x * 2, reduction="none", beta=x.shape[0] // 4),
}
ARGUMENTS |= SCALARS


@CAPTURES
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_made_of_sizes(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        shapes = [[(rows, 4)] for rows in ROWS]
        agrees(ARGUMENTS[name], shapes, ({0: "n"},), capture, tmp_path, make=torch.randn)


NUMELS: dict[str, Function] = {
    "numel": lambda x: x * x.shape.numel(),
    "numel of size()": lambda x: x.reshape(x[1:].size().numel() + x.shape[1]),
    "numel of a slice": lambda x: x * x.shape[:1].numel(),
    "numel of a new size": lambda x: x * torch.Size((x.shape[0], 2)).numel(),
    "numel of a constant size": lambda x: x.new_zeros(x.shape[1:].numel()),
}


@CAPTURES
@pytest.mark.parametrize("name", NUMELS)
def test_numel_of_a_size(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    original = torch.Size.numel
    agrees(NUMELS[name], [[(rows, 4)] for rows in ROWS], ({0: "n"},), capture, tmp_path)
    assert torch.Size.numel is original


@CAPTURES
def test_the_argument_that_must_be_a_constant_is_named(capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.raises(
        opbridge.UnsupportedError,
        match=r"aten::linalg_matrix_norm: ord is computed from sizes .* make the size constant",
    ):
        opbridge.export(
            lambda x: torch.linalg.matrix_norm(x, 3 / x.shape[0]),
            (torch.rand(3, 3),),
            path,
            dynamic_shapes=({0: "n"},),
            capture=capture,
        )


@CAPTURES
@pytest.mark.parametrize(
    ("argument", "function"),
    [
        ("p of pdist", lambda x: F.pdist(x, x.shape[0] / 2)),
        ("label_smoothing of cross_entropy", lambda x: F.cross_entropy(x, x.argmax(1), label_smoothing=1 / x.shape[0])),
        ("n of polygamma", lambda x: torch.polygamma(x.shape[0] // 3, x + 1)),
        ("rtol of isclose", lambda x: torch.ops.aten.isclose(x, x, 1 / x.shape[0])),
        ("eps of batch_norm", lambda x: F.batch_norm(x, None, None, training=True, eps=1 / x.shape[0])),
    ],
)
def test_the_argument_that_becomes_the_examples_is_named(
    argument: str, function: Function, capture: Any, tmp_path: pathlib.Path
) -> None:
    with pytest.warns(TraceWarning, match=f"depends on a dynamic size, .* the number .* for the argument {argument}"):
        opbridge.export(function, (torch.rand(3, 4),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture)
