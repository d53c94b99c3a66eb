"""Examples in which one tensor is given for several inputs, or belongs to the model too. Each remains an input of its
own: the models are compared with PyTorch on other, distinct tensors."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn

import opbridge
from opbridge import TraceWarning, VerificationError
from opbridge.torch_compat import pytree

X = torch.randn(4, 4)


class WithWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.register_buffer("state", torch.randn(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 + self.weight - self.state * x


MODEL = WithWeights()
ATTENTION = nn.MultiheadAttention(4, 2, batch_first=True).eval()
EXAMPLES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "one tensor twice": (lambda a, b: a - b * 2, (X, X)),
    "in a list": (lambda pair: pair[0] - pair[1] * 2, ([X, X],)),
    "an alias": (lambda a, b: a - b * 2, (X, X.detach())),
    "a view": (lambda a, b: a - b * 2, (X, X.t())),
    "parts of one tensor": (lambda a, b: a - b * 2, tuple(torch.randn(2, 4, 4).unbind())),
    "attention": (lambda q, k, v: ATTENTION(q, k, v)[0], (X[None],) * 3),
    "a constant of the model": (lambda a: a + X * 2, (X,)),
    "a parameter": (MODEL, (MODEL.weight,)),
    "a buffer": (MODEL, (MODEL.state,)),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["constant", "dynamic"])
@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_one_tensor_for_several_inputs(name: str, capture: Any, dynamic: bool, tmp_path: pathlib.Path) -> None:
    model, args = EXAMPLES[name]
    path = tmp_path / "model.onnx"
    axes = {0: torch.export.Dim.AUTO} if dynamic else None
    opbridge.export(model, args, path, capture=capture, dynamic_shapes=pytree.tree_map(lambda _: axes, args))
    opbridge.verify(path, model, args)
    opbridge.verify(path, model, pytree.tree_map(torch.randn_like, args))


def test_drawn_inputs_differ(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(lambda a, b: a - a, (X, X), path)
    opbridge.verify(path, lambda a, b: a - b, (X, X))
    with pytest.raises(VerificationError):
        opbridge.verify(path, lambda a, b: a - b, (X, X), random_inputs=1)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_layout_of_the_example_is_kept(capture: Any, tmp_path: pathlib.Path) -> None:
    """flatten copies an example that is not contiguous: what is written there does not reach the input."""

    def model(x: torch.Tensor) -> torch.Tensor:
        x.flatten().add_(1)
        return x * 2

    x, path = torch.randn(3, 4).t(), tmp_path / "model.onnx"
    with pytest.warns(TraceWarning, match="memory layout of an input"):
        opbridge.export(model, (x,), path, capture=capture)
    opbridge.verify(path, model, (x,))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_example_that_was_computed_may_be_written_to(capture: Any, tmp_path: pathlib.Path) -> None:
    """torch refuses writes to leaves that require gradients; a result of operators is not a leaf."""

    def model(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return torch.autograd.grad(x.pow(3).sum(), x)[0]

    x, path = torch.randn(3, requires_grad=True) * 1, tmp_path / "model.onnx"
    opbridge.export(model, (x,), path, capture=capture, mutations_as_outputs=True)
    opbridge.verify(path, model, (x,))
