"""Recurrent layers and cells of quantize_dynamic: in each step, the input of each product determines its scale."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from opbridge.capture.rewrites.quantized.operators import Packed, rounding_by_extrema
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import scan

State = tuple[torch.Tensor, ...]  # two tensors for an LSTM, one for other layers
Step = Callable[[torch.Tensor, torch.Tensor, State], State]  # takes the products of the weights with input and state


@dataclasses.dataclass(frozen=True)
class Cell:
    """Stands for the packed weights of one direction of a layer."""

    of_input: Packed
    of_state: Packed
    reduced: bool

    @property
    def of_half_weights(self) -> bool:
        return isinstance(self.of_input.weight, torch.Tensor)

    @property
    def floats(self) -> list[torch.Tensor]:
        """The weights and biases, in the order of float layers."""
        packed = self.of_input, self.of_state
        return [*(each.values for each in packed), *(each.bias for each in packed if each.bias is not None)]

    def step(self, kind: Step, x: torch.Tensor, state: State) -> State:
        return kind(self._product(self.of_input)(x), self._product(self.of_state)(state[0]), state)

    def steps(self, kind: Step, x: torch.Tensor, state: State, backward: bool) -> tuple[torch.Tensor, State]:
        """PyTorch multiplies the whole sequence by the input weights at once, with one scale for all steps."""
        inputs, product = self._product(self.of_input)(x), self._product(self.of_state)

        def step(state: State, of_input: torch.Tensor) -> tuple[State, torch.Tensor]:
            after = kind(of_input, product(state[0]), state)
            return after, after[0].clone()

        last, outputs = scan(step, state, inputs.flip(0) if backward else inputs)
        return outputs.flip(0) if backward else outputs, last

    def _product(self, packed: Packed) -> Callable[[torch.Tensor], torch.Tensor]:
        """A function that torch can capture in a loop: it uses tensors and operators alone."""
        weight, bias = packed.values, None if packed.bias is None else packed.bias.clone()
        if self.of_half_weights:  # the input is not rounded
            return lambda x: functional.linear(x, weight, bias)
        rounded = rounding_by_extrema(self.reduced)
        return lambda x: functional.linear(rounded(x), weight, bias)


def _lstm(of_input: torch.Tensor, of_state: torch.Tensor, state: State) -> State:
    gate_in, forget, cell, out = (of_state + of_input).chunk(4, -1)
    after = torch.sigmoid(forget) * state[1] + torch.sigmoid(gate_in) * torch.tanh(cell)
    return torch.sigmoid(out) * torch.tanh(after), after


def _gru(of_input: torch.Tensor, of_state: torch.Tensor, state: State) -> State:
    inputs, states = of_input.chunk(3, -1), of_state.chunk(3, -1)
    reset, update = torch.sigmoid(states[0] + inputs[0]), torch.sigmoid(states[1] + inputs[1])
    new = torch.tanh(inputs[2] + states[2] * reset)
    return ((state[0] - new) * update + new,)


def _rnn(function: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    return lambda of_input, of_state, state: (function(of_state + of_input),)


def _layers(kind: Step, of_floats: Callable[..., tuple[torch.Tensor, ...]]) -> Callable[..., tuple[torch.Tensor, ...]]:
    """``torch.quantized_lstm`` and ``torch.quantized_gru`` of padded sequences."""

    def run(
        input: torch.Tensor,
        hx: Any,
        params: Sequence[Cell],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: Any = None,
        **_: Any,
    ) -> tuple[torch.Tensor, ...]:
        if not isinstance(num_layers, int) or isinstance(num_layers, bool) or batch_first is None:
            raise UnsupportedError("packed sequences in a quantized recurrent layer are not supported; pad them")
        if train and dropout:
            raise UnsupportedError("dropout of a quantized recurrent layer is not supported; call eval() of the model")
        if params[0].of_half_weights:
            floats = [part for cell in params for part in cell.floats]
            return of_floats(input, hx, floats, has_biases, num_layers, 0.0, False, bidirectional, batch_first)
        states = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        x, last, directions = input.transpose(0, 1) if batch_first else input, [], 1 + bidirectional
        for layer in range(num_layers):
            outputs = []
            for direction in range(directions):
                index = layer * directions + direction
                of_layer = tuple(state[index] for state in states)
                output, after = params[index].steps(kind, x, of_layer, backward=direction == 1)
                outputs.append(output)
                last.append(after)
            x = torch.cat(outputs, -1)
        return x.transpose(0, 1) if batch_first else x, *(torch.stack(parts) for parts in zip(*last, strict=True))

    return run


def _cell(kind: Step) -> Callable[..., Any]:
    def run(input: torch.Tensor, hx: Any, w_ih: Packed, w_hh: Packed, *_: torch.Tensor) -> Any:
        state = tuple(hx) if isinstance(hx, tuple | list) else (hx,)
        after = Cell(w_ih, w_hh, reduced=True).step(kind, input, state)
        return after if len(after) > 1 else after[0]

    return run


quantized_lstm, quantized_gru = _layers(_lstm, torch.lstm), _layers(_gru, torch.gru)
CELLS: dict[str, Callable[..., Any]] = {
    "quantized_lstm_cell_dynamic": _cell(_lstm),
    "quantized_gru_cell_dynamic": _cell(_gru),
    "quantized_rnn_tanh_cell_dynamic": _cell(_rnn(torch.tanh)),
    "quantized_rnn_relu_cell_dynamic": _cell(_rnn(torch.relu)),
}
