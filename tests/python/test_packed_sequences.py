"""Recurrent modules over packed sequences, by both captures, with other lengths, batches and padding than exported."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import opbridge

LENGTHS, OTHERS = torch.tensor([3, 7, 2, 5]), torch.tensor([3, 4, 8])
CELLS = {
    "LSTM": lambda **options: nn.LSTM(6, 5, **options),
    "GRU": lambda **options: nn.GRU(6, 5, **options),
    "tanh": lambda **options: nn.RNN(6, 5, **options),
    "relu": lambda **options: nn.RNN(6, 5, nonlinearity="relu", **options),
}
FORMS: dict[str, dict[str, Any]] = {
    "": {},
    "batch first": {"batch_first": True},
    "two layers": {"num_layers": 2, "bidirectional": True},
    "no biases": {"bias": False, "bidirectional": True},
}


class Encoder(nn.Module):
    def __init__(self, recurrent: nn.RNNBase, whole: bool = False) -> None:
        super().__init__()
        self.recurrent, self.whole = recurrent, whole

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        batch_first = self.recurrent.batch_first
        packed = pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
        packed, state = self.recurrent(packed)
        total = x.shape[1 if batch_first else 0] if self.whole else None
        return *pad_packed_sequence(packed, batch_first, padding_value=-1.5, total_length=total), state


def padded(lengths: torch.Tensor, steps: int, batch_first: bool) -> torch.Tensor:
    x = torch.randn(len(lengths), steps, 6)
    return x if batch_first else x.transpose(0, 1).contiguous()


def holds(model: nn.Module, batch_first: bool, capture: str, path: pathlib.Path) -> None:
    """Exported with dynamic sizes at one batch, compared at it and at others."""
    axes = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    args = padded(LENGTHS, 7, batch_first), LENGTHS
    opbridge.export(model, args, path, dynamic_shapes=(axes, {0: Dim.DYNAMIC}), verify=True, capture=capture)
    session = opbridge.session(path)
    for lengths, steps in ((OTHERS, 8), (OTHERS, 11), (torch.tensor([1]), 1)):
        args = padded(lengths, steps, batch_first), lengths
        made = session.run(None, dict(zip(("x", "lengths"), (arg.numpy() for arg in args), strict=True)))
        expected = torch.utils._pytree.tree_leaves(model(*args))
        torch.testing.assert_close([torch.from_numpy(array) for array in made], expected)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cell", CELLS)
def test_packed_sequences(cell: str, form: str, capture: str, tmp_path: pathlib.Path) -> None:
    recurrent = CELLS[cell](**FORMS[form])
    for whole in (False, True):
        holds(Encoder(recurrent, whole).eval(), recurrent.batch_first, capture, tmp_path / "model.onnx")


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("cell", CELLS)
def test_step_by_step(cell: str, capture: str, tmp_path: pathlib.Path) -> None:
    """Features that ONNX's operators lack: float64, and projections."""
    recurrent = CELLS[cell](num_layers=2, bidirectional=True).double()
    model = Encoder(recurrent).eval()
    args = padded(LENGTHS, 7, False).double(), LENGTHS
    opbridge.export(model, args, tmp_path / "model.onnx", verify=True, capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_projections(capture: str, tmp_path: pathlib.Path) -> None:
    holds(Encoder(nn.LSTM(6, 5, proj_size=3, bidirectional=True)), False, capture, tmp_path / "model.onnx")


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_rows_of_a_packed_sequence(capture: str, tmp_path: pathlib.Path) -> None:
    """Modules that work on the rows, an explicit state, sorted lengths, and several feature dims."""

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.recurrent = nn.Linear(6, 4), nn.GRU(4, 4)

        def forward(self, x: torch.Tensor, lengths: torch.Tensor, state: torch.Tensor) -> Any:
            packed = pack_padded_sequence(x.unflatten(-1, (2, 3)), lengths)
            rows = PackedSequence(self.before(packed.data.flatten(1)).relu(), packed.batch_sizes)
            out, state = self.recurrent(rows, state)
            return out.data, packed.batch_sizes, pad_packed_sequence(packed)[0], state

    args = torch.randn(6, 3, 6), torch.tensor([6, 4, 1]), torch.randn(1, 3, 4)
    opbridge.export(Decoder(), args, tmp_path / "model.onnx", verify=True, capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_lengths_that_are_numbers(capture: str, tmp_path: pathlib.Path) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = nn.LSTM(6, 5)

        def forward(self, x: torch.Tensor) -> Any:
            packed, (hidden, _) = self.recurrent(pack_padded_sequence(x, [4, 4, 2]))
            return pad_packed_sequence(packed), hidden

    opbridge.export(Model(), (torch.randn(5, 3, 6),), tmp_path / "model.onnx", verify=True, capture=capture)


def test_modules_are_as_before(tmp_path: pathlib.Path) -> None:
    """The capture leaves torch's own functions and modules unchanged."""
    model, args = Encoder(nn.LSTM(6, 5)), (padded(LENGTHS, 7, False), LENGTHS)
    before = nn.LSTM.forward, nn.RNNBase.check_forward_args, torch.nn.utils.rnn._VF
    opbridge.export(model, args, tmp_path / "model.onnx")
    assert (nn.LSTM.forward, nn.RNNBase.check_forward_args, torch.nn.utils.rnn._VF) == before
