"""Computes recurrent layers that are differentiated step by step, with operators that have gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

from opbridge.capture.rewrites.packed_sequences import steps_of
from opbridge.capture.source import line_of_frame
from opbridge.errors import UnsupportedError
from opbridge.operator_names import stem
from opbridge.torch_compat import schema_of
from opbridge.torch_compat.patch_points import RECURRENT_OPERATORS

States = tuple[torch.Tensor, ...]
_MODULES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _lstm(gates: torch.Tensor, states: States, w_hh: torch.Tensor, b_hh: Any, projection: Any) -> States:
    i, f, g, o = (gates + F.linear(states[0], w_hh, b_hh)).chunk(4, -1)
    cell = f.sigmoid() * states[1] + i.sigmoid() * g.tanh()
    hidden = o.sigmoid() * cell.tanh()
    return hidden if projection is None else F.linear(hidden, projection), cell


def _gru(gates: torch.Tensor, states: States, w_hh: torch.Tensor, b_hh: Any, _: Any) -> States:
    hidden = states[0]
    r, z, n = gates.chunk(3, -1)
    r_hidden, z_hidden, n_hidden = F.linear(hidden, w_hh, b_hh).chunk(3, -1)
    new = (n + (r + r_hidden).sigmoid() * n_hidden).tanh()
    return (new + (z + z_hidden).sigmoid() * (hidden - new),)


def _rnn(activation: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., States]:
    def cell(gates: torch.Tensor, states: States, w_hh: torch.Tensor, b_hh: Any, _: Any) -> States:
        return (activation(gates + F.linear(states[0], w_hh, b_hh)),)

    return cell


_CELLS: dict[str, Callable[..., States]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _rnn(torch.tanh),
    "rnn_relu": _rnn(torch.relu),
}


def _direction(
    cell: Callable[..., States],
    input: torch.Tensor,
    runs: torch.Tensor | None,
    states: States,
    weights: Sequence[torch.Tensor],
    has_biases: bool,
    backwards: bool,
) -> tuple[torch.Tensor, States]:
    """One layer in one direction. ``input`` is (length, batch, features); ``runs`` is (length, batch, 1), false after
    the end of a sequence; the states then do not change."""
    w_ih, w_hh, *others = weights
    b_ih, b_hh = others[:2] if has_biases else (None, None)
    projection = others[-1] if len(others) > 2 * has_biases else None
    gates = F.linear(input, w_ih, b_ih)
    outputs: list[torch.Tensor] = []
    for step in reversed(range(input.shape[0])) if backwards else range(input.shape[0]):
        after = cell(gates[step], states, w_hh, b_hh, projection)
        if runs is not None:
            after = tuple(torch.where(runs[step], new, old) for new, old in zip(after, states, strict=True))
        states = after
        outputs.append(states[0])
    return torch.stack(outputs[::-1] if backwards else outputs), states


def _layers(
    name: str, input: torch.Tensor, runs: torch.Tensor | None, states: Sequence[torch.Tensor], options: dict[str, Any]
) -> tuple[torch.Tensor, ...]:
    layers, directions = options["num_layers"], 2 if options["bidirectional"] else 1
    params = options["params"]
    width = len(params) // (layers * directions)
    last: list[States] = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            weights = params[index * width : (index + 1) * width]
            before = tuple(state[index] for state in states)
            output, after = _direction(
                _CELLS[name], input, runs, before, weights, options["has_biases"], backwards=direction == 1
            )
            outputs.append(output)
            last.append(after)
        input = torch.cat(outputs, -1) if directions == 2 else outputs[0]
        if options["dropout"] != 0 and options["train"] and layer + 1 < layers:
            input = F.dropout(input, options["dropout"], training=True)
    return input, *(torch.stack(each) for each in zip(*last, strict=True))


def _refuse_length(name: str, length: Any) -> None:
    if not isinstance(length, int):
        raise UnsupportedError(
            f"the model computes a derivative of nn.{_MODULES[name]}, or transforms it by torch.func. Its steps are "
            "then computed one by one, but the sequences have a dynamic length: make the length constant, or call the "
            "module under torch.no_grad() if no derivative goes through it",
            line_of_frame(sys._getframe()),
        )


def _of_batch(name: str, names: Sequence[str]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def run(*args: Any) -> tuple[torch.Tensor, ...]:
        options = dict(zip(names, args, strict=True))
        batch_first = options["batch_first"]
        input = options["input"].transpose(0, 1) if batch_first else options["input"]
        _refuse_length(name, input.shape[0])
        output, *after = _layers(name, input, None, _states_of(options), options)
        return output.transpose(0, 1) if batch_first else output, *after

    return run


def _of_packed_sequence(name: str, names: Sequence[str]) -> Callable[..., tuple[torch.Tensor, ...]]:
    def run(*args: Any) -> tuple[torch.Tensor, ...]:
        options = dict(zip(names, args, strict=True))
        data, batch_sizes, states = options["data"], options["batch_sizes"], _states_of(options)
        length = steps_of(batch_sizes)
        _refuse_length(name, length)
        count = states[0].shape[1]
        sequences, steps = torch.arange(count), torch.arange(length)[:, None]
        lengths = (sequences < batch_sizes[:, None]).sum(0)
        runs = steps < lengths
        starts = torch.minimum(lengths, steps).sum(1)
        padded = data[torch.where(runs, starts[:, None] + sequences, 0)]
        output, *after = _layers(name, padded, runs[:, :, None], states, options)
        rows = torch.arange(data.shape[0])
        step = (starts <= rows[:, None]).sum(1) - 1
        return output.flatten(0, 1)[step * count + rows - starts[step]], *after

    return run


def _states_of(options: dict[str, Any]) -> list[torch.Tensor]:
    hx = options["hx"]
    return [hx] if isinstance(hx, torch.Tensor) else list(hx)


def _steps(operator: Any) -> Callable[..., tuple[torch.Tensor, ...]]:
    schema = schema_of(operator)
    names = [argument.name for argument in schema.arguments]
    make = _of_packed_sequence if "batch_sizes" in names else _of_batch
    return make(stem(schema.name), names)


STEPS = {operator: _steps(operator) for operator in RECURRENT_OPERATORS}
"""For each operator of a recurrent layer, a function that computes it in differentiable operators."""
