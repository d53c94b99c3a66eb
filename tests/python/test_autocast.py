"""Parts of models in torch.autocast: the casts are in the exported model, and the element types are PyTorch's."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES
from torch import nn

import opbridge
from checking.models import compare, loaded

Function = Callable[[torch.Tensor], Any]
torch.manual_seed(0)
LINEAR, CELL, ATTENTION = nn.Linear(4, 3), nn.RNNCell(4, 3), nn.MultiheadAttention(4, 2, batch_first=True).eval()
NORM = nn.LayerNorm(3)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    """The tolerance is that of bfloat16 products, which other numbers may cancel."""
    torch.manual_seed(0)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            y = self.first(x)
            with torch.autocast("cpu", enabled=False):
                z = self.second(y.float())
            shares = (y @ y.t()).softmax(-1)
        return y, z, shares, F.linear(x, self.first.weight)


@torch.autocast("cpu", torch.bfloat16)
def product(x: torch.Tensor) -> torch.Tensor:
    return x @ x.t()


def in_a_region(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        return product(x)


def in_a_body(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.shape[0] > 3, product, lambda x: product(2 * x), (x,))


def differentiated(x: torch.Tensor) -> torch.Tensor:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(product(x).sum(), x)[0]


FUNCTIONS: dict[str, Function] = {
    "decorated": product,
    "in a region": in_a_region,
    "in a body": in_a_body,
    "differentiated": differentiated,
}
# torch.autocast does not know these operators, but others that they call.
COMPOSED: dict[str, Function] = {
    "inner": lambda x: torch.inner(x, x),
    "tensordot": lambda x: torch.tensordot(x, x, dims=([1], [1])),
    "einsum": lambda x: torch.einsum("ij,kj,kl->il", x, x, x),
    "cell": CELL,
    "attention": lambda x: ATTENTION(x[None], x[None], x[None])[0],
    "norm": lambda x: NORM(LINEAR(x)).cumsum(0),
}


def check(model: Function, capture: Any, path: pathlib.Path) -> None:
    opbridge.export(model, (torch.randn(4, 4),), path, capture=capture, dynamic_shapes=({0: "n"},))
    calls = [(torch.randn(rows, 4),) for rows in (4, 2, 3, 7)]
    compare(model, loaded(path), calls, rtol=5e-2, atol=5e-2)


@CAPTURES
def test_a_part_of_a_model(capture: Any, tmp_path: pathlib.Path) -> None:
    check(Mixed(), capture, tmp_path / "model.onnx")


@CAPTURES
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    check(FUNCTIONS[name], capture, tmp_path / "model.onnx")


@CAPTURES
@pytest.mark.parametrize("name", COMPOSED)
def test_operators_that_call_others(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    class Cast(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return COMPOSED[name](x)

    check(Cast(), capture, tmp_path / "model.onnx")


@CAPTURES
@pytest.mark.parametrize("layer", [nn.LSTM(4, 3), nn.GRU(4, 3), nn.RNN(4, 3)])
def test_recurrent_layers_are_refused(layer: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return self.layer(x)[0]

    with pytest.raises(opbridge.UnsupportedError, match=r"a recurrent layer runs in torch\.autocast"):
        opbridge.export(Cast(), (torch.randn(4, 4),), tmp_path / "model.onnx", capture=capture)
