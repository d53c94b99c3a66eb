"""Packed sequences (torch.nn.utils.rnn): batches of sequences of different lengths without padding.

The numbers of steps and rows depend on the lengths, so they are symbols. The number of sequences is that of the padded
batch; torch itself reads it from the data.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.utils import rnn
from torch.utils.weak import WeakTensorKeyDictionary

from opbridge.capture.patching import patch
from opbridge.torch_compat import check
from opbridge.torch_compat import patch_points as points


@contextlib.contextmanager
def patch_packing() -> Iterator[None]:
    """Makes ``pack_padded_sequence``, ``pad_packed_sequence`` and recurrent modules use tensor operators."""
    packing = _Packing()
    functions = types.SimpleNamespace(**{points.PACK: packing.pack, points.PAD: packing.pad})
    with (
        patch(points.PACKING, functions),
        patch(points.RECURRENT_CHECK, _unpacked_alone(points.RECURRENT_CHECK.original)),
        patch(points.LSTM, packing.with_state(points.LSTM.original)),
        patch(points.GRU, packing.with_state(points.GRU.original)),
        patch(points.RNN, packing.with_state(points.RNN.original)),
    ):
        yield


_steps: Any = WeakTensorKeyDictionary()  # batch_sizes → the length of the padded batch, which no sequence exceeds


def steps_of(batch_sizes: torch.Tensor) -> Any:
    """The number of steps that a packed sequence may have; a symbol if it is not constant."""
    length = batch_sizes.shape[0]
    return length if isinstance(length, int) else _steps.get(batch_sizes, length)


class _Packing:
    def __init__(self) -> None:
        self._counts: Any = WeakTensorKeyDictionary()  # batch_sizes → the number of sequences

    def pack(self, input: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the rows (sum of lengths, *) and the batch size of each step. ``lengths`` must not increase."""
        steps_first = input.transpose(0, 1) if batch_first else input
        length, count = steps_first.shape[:2]
        runs = torch.arange(length)[:, None] < lengths
        counts = runs.sum(1)
        batch_sizes = counts[counts > 0]
        check(batch_sizes.shape[0] <= length)
        self._counts[batch_sizes] = count
        _steps[batch_sizes] = length
        return steps_first[runs], batch_sizes

    def pad(
        self, data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: float, length: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the rows as (length, sequences, *), or (sequences, length, *), and the lengths."""
        sequences, steps = torch.arange(self._count(batch_sizes)), torch.arange(length)[:, None]
        lengths = (sequences < batch_sizes[:, None]).sum(0)
        runs = steps < lengths
        before = torch.minimum(lengths, steps).sum(1, keepdim=True)
        padded = data[torch.where(runs, before + sequences, 0)]
        over = runs.logical_not().reshape(*runs.shape, *[1] * (data.dim() - 1))
        padded = padded.masked_fill(over.to(data.device), padding_value)
        return padded.transpose(0, 1) if batch_first else padded, lengths

    def with_state(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps ``forward`` to pass the initial state explicitly for a packed sequence."""

        def run(module: nn.RNNBase, input: Any, hx: Any = None) -> Any:
            if isinstance(input, rnn.PackedSequence) and hx is None:
                layers, count = module.num_layers * (2 if module.bidirectional else 1), self._count(input.batch_sizes)
                hx = input.data.new_zeros(layers, count, module.proj_size or module.hidden_size)
                if isinstance(module, nn.LSTM):
                    hx = hx, input.data.new_zeros(layers, count, module.hidden_size)
            return forward(module, input, hx)

        return run

    def _count(self, batch_sizes: torch.Tensor) -> Any:
        return self._counts[batch_sizes] if batch_sizes in self._counts else batch_sizes[0].item()


def _unpacked_alone(check: Callable[..., None]) -> Callable[..., None]:
    def run(module: nn.RNNBase, input: torch.Tensor, hidden: Any, batch_sizes: torch.Tensor | None) -> None:
        if batch_sizes is None:  # otherwise the check reads the number of sequences from the data
            check(module, input, hidden, batch_sizes)

    return run
