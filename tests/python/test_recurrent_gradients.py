"""Derivatives through recurrent modules, in both captures: at other inputs and batches than those of the export."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_gradients_in_forward import CAPTURES, check
from torch import nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import opbridge
from opbridge.errors import UnsupportedError

TOLERANCES = {"rtol": 1e-4, "atol": 1e-5}
LAYERS: dict[str, Callable[..., nn.RNNBase]] = {
    "LSTM": lambda **options: nn.LSTM(3, 4, **options),
    "GRU": lambda **options: nn.GRU(3, 4, **options),
    "tanh": lambda **options: nn.RNN(3, 4, **options),
    "relu": lambda **options: nn.RNN(3, 4, nonlinearity="relu", **options),
}
FORMS: dict[str, dict[str, Any]] = {
    "": {},
    "two layers": {"num_layers": 2, "bidirectional": True, "dropout": 0.5},
    "batch first": {"batch_first": True, "bidirectional": True},
    "no biases": {"bias": False, "num_layers": 2},
}
CASES = {
    **{f"LSTM {form}".strip(): (LAYERS["LSTM"], FORMS[form]) for form in FORMS},
    "GRU": (LAYERS["GRU"], FORMS["two layers"]),
    "tanh": (LAYERS["tanh"], FORMS["batch first"]),
    "relu": (LAYERS["relu"], FORMS["no biases"]),
    "projection": (LAYERS["LSTM"], {"proj_size": 2, "num_layers": 2}),
    "projection both ways": (LAYERS["LSTM"], {"proj_size": 2, "bidirectional": True, "bias": False}),
}


def loss(results: Any) -> torch.Tensor:
    return sum((leaf * leaf.cos()).sum() for leaf in torch.utils._pytree.tree_leaves(results))


class OfInput(nn.Module):
    """A derivative only one part of which goes through the layer."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            results = self.layer(x)
            return results, torch.autograd.grad(loss(results) + x.sin().sum(), x)[0]


class OfWeights(OfInput):
    def forward(self, x: torch.Tensor) -> Any:
        with torch.enable_grad():
            return torch.autograd.grad(loss(self.layer(x)), list(self.layer.parameters()))


class OfFunctionalCall(OfInput):
    def forward(self, x: torch.Tensor) -> Any:
        weights = dict(self.layer.named_parameters())
        return list(grad(lambda p: loss(functional_call(self.layer, p, (x,))))(weights).values())


class Forwards(OfInput):
    def forward(self, x: torch.Tensor) -> Any:
        return jvp(lambda x: self.layer(x)[0], (x,), (x.cos(),))


class Twice(OfInput):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(loss(self.layer(x)), x, create_graph=True)
            return torch.autograd.grad(slope.square().sum(), x)[0]


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("case", CASES)
def test_of_inputs(case, capture, tmp_path):
    make, form = CASES[case]
    model = OfInput(make(**form))
    batch = 0 if form.get("batch_first") else 1
    x, other = torch.randn(5, 5, 3), torch.randn(5, 5, 3).narrow(batch, 0, 2)
    check(model, tmp_path, x, capture=capture, dynamic=({batch: "n"},), others=((other,),), **TOLERANCES)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("model", [OfWeights, OfFunctionalCall, Forwards, Twice])
@pytest.mark.parametrize("layer", LAYERS)
def test_of_other_kinds(layer, model, capture, tmp_path):
    # PyTorch itself has no forward derivative of its fast LSTM, which has no projections.
    options = {"proj_size": 2} if layer == "LSTM" and model is Forwards else {}
    x, others = torch.randn(4, 2, 3), ((torch.randn(4, 3, 3),),)
    model = model(LAYERS[layer](**options))
    check(model, tmp_path, x, capture=capture, **TOLERANCES)
    if not isinstance(model, Forwards):
        check(model, tmp_path, x, capture=capture, dynamic=({1: "n"},), others=others, **TOLERANCES)


@pytest.mark.parametrize("capture", CAPTURES)
def test_of_samples(capture, tmp_path):
    class OfSamples(OfInput):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return vmap(grad(lambda sample: loss(self.layer(sample))))(x.transpose(0, 1))

    check(OfSamples(nn.LSTM(3, 4)), tmp_path, torch.randn(4, 2, 3), capture=capture, **TOLERANCES)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("make", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_of_cells(make, capture, tmp_path):
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = make(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                return torch.autograd.grad(loss(self.cell(x)) + x.sin().sum(), x)[0]

    others = ((torch.randn(2, 3),),)
    check(Cell(), tmp_path, torch.randn(5, 3), capture=capture, dynamic=({0: "n"},), others=others, **TOLERANCES)


class Packed(nn.Module):
    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        x = x.detach().requires_grad_()
        batch_first = self.layer.batch_first
        with torch.enable_grad():
            packed = pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
            packed, state = self.layer(packed)
            padded, _ = pad_packed_sequence(packed, batch_first, padding_value=-1.5)
            return padded, state, torch.autograd.grad(loss((padded, state)) + x.sin().sum(), x)[0]


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("case", CASES)
def test_of_packed_sequences(case, capture, tmp_path):
    make, form = CASES[case]
    model, batch_first = Packed(make(**form)), form.get("batch_first", False)

    def inputs(*lengths: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(6, len(lengths), 3)
        return x.transpose(0, 1).contiguous() if batch_first else x, torch.tensor(lengths)

    dynamic = ({0 if batch_first else 1: "n"}, {0: "n"})
    others = (inputs(1, 6), inputs(4, 4, 4), inputs(2))
    check(model, tmp_path, *inputs(3, 6, 2, 5), capture=capture, dynamic=dynamic, others=others, **TOLERANCES)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("layer", LAYERS)
def test_of_a_dynamic_length_are_refused(layer, capture, tmp_path):
    module = LAYERS[layer]()
    name = type(module).__name__
    x, dynamic = torch.randn(5, 2, 3), ({0: "length"},)
    for model in (OfInput(module), OfFunctionalCall(module)):
        with pytest.raises(UnsupportedError, match=rf"nn\.{name}, .*make the length constant"):
            opbridge.export(model, (x,), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic)
    args = x, torch.tensor([5, 3])
    with pytest.raises(UnsupportedError, match=rf"nn\.{name}, .*make the length constant"):
        opbridge.export(Packed(module), args, tmp_path / "m.onnx", capture=capture, dynamic_shapes=({0: "length"}, {}))


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_layer_of_dynamic_length_beside_a_derivative(capture, tmp_path):
    class Beside(OfInput):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                with torch.no_grad():
                    y = self.layer(x)[0]
                return torch.autograd.grad((x.sin() * y[:, :, :3]).sum(), x)[0]

    others = ((torch.randn(7, 2, 3),),)
    x = torch.randn(5, 2, 3)
    check(Beside(nn.GRU(3, 4)), tmp_path, x, capture=capture, dynamic=({0: "length"},), others=others, **TOLERANCES)


def test_a_refusal_names_the_line(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UnsupportedError, match=r"test_recurrent_gradients\.py"):
        opbridge.export(
            OfInput(nn.GRU(3, 4)), (torch.randn(5, 2, 3),), tmp_path / "m.onnx", dynamic_shapes=({0: "length"},)
        )
