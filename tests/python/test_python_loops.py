"""Python loops over an axis of dynamic size, which become nodes with a body."""

from __future__ import annotations

import collections
import itertools
import pathlib
import threading
from typing import Any

import onnx
import pytest
import torch
from dynamic_check import CAPTURES, agrees
from loops_check import DYNAMIC, SHAPES, Model, refuses, steps
from torch import nn

import opbridge


def cells(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.size(0), 6)
    outputs = []
    for t in range(x.size(1)):
        h = self.cell(x[:, t, :], h)
        outputs.append(h.unsqueeze(1))
    return torch.cat(outputs, dim=1), h


def state_is_none(self: Any, x: torch.Tensor) -> Any:
    state = None
    outputs = []
    for step in x.unbind(1):
        state = self.lstm(step, state)
        outputs.append(state[0])
    return torch.stack(outputs).transpose(0, 1), *state


def rows_of_a_tensor(self: Any, x: torch.Tensor) -> Any:
    h = 0
    for step in x.transpose(0, 1):
        h = torch.tanh(self.linear(step) + h)
    return h


def both_directions(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    forwards, backwards = [], []
    for t in range(x.shape[1]):
        h = self.cell(x[:, t], h)
        forwards.append(h)
    for t in range(x.shape[1] - 1, -1, -1):
        h = self.cell(x[:, t], h)
        backwards.append(h)
    return torch.cat((torch.stack(forwards, 1), torch.stack(backwards[::-1], 1)), -1)


def front(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    outputs: list[torch.Tensor] = []
    for t in reversed(range(x.shape[1])):
        h = self.cell(x[:, t], h)
        outputs.insert(0, h)
    return torch.stack(outputs, 1)


def written(self: Any, x: torch.Tensor) -> Any:
    out = x.clone()
    rows = out.view(-1, 6)
    for t in range(1, x.shape[1]):
        out[:, t] = out[:, t - 1] * 0.5 + x[:, t]
    return out, rows.sum(0)


def added_in_place(self: Any, x: torch.Tensor) -> Any:
    total = torch.zeros(x.shape[0], 6)
    for i in range(x.size(1)):
        total += x[:, i] / (i + 1)
    return total


def nested(self: Any, x: torch.Tensor) -> Any:
    sums = torch.zeros(x.shape[0], x.shape[1])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            sums[i, j] = x[i, j].sum() * i + j
    return sums


def two_layers(self: Any, x: torch.Tensor) -> Any:
    states = [torch.zeros(x.shape[0], 6) for _ in self.layers]
    outputs = []
    for t in range(x.shape[1]):
        value = x[:, t]
        for i, layer in enumerate(self.layers):
            states[i] = layer(value, states[i])
            value = states[i]
        outputs.append(value)
    return torch.stack(outputs, 1), torch.stack(states)


def layer_by_layer(self: Any, x: torch.Tensor) -> Any:
    steps = [x[:, t] for t in range(x.shape[1])]
    for layer in self.layers:
        h = torch.zeros(x.shape[0], 6)
        outputs = []
        for step in steps:
            h = layer(step, h)
            outputs.append(h)
        steps = outputs
    return torch.stack(steps, 1)


def first_step_differs(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        h = x[:, 0] if t == 0 else h * 0.5 + x[:, t]  # noqa: F821
        outputs.append(h)
    return torch.stack(outputs, 1)


def may_have_no_steps(self: Any, x: torch.Tensor) -> Any:
    h = None
    for t in range(1, x.shape[1]):
        h = x[:, t] if h is None else h + x[:, t]
    return x[:, 0] if h is None else h


def skipped(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    for t, (one, other) in enumerate(zip(x.unbind(1), x.flip(1).unbind(1), strict=False)):
        if t == 0:
            continue
        h = h + one * other
    return h


def counted(self: Any, x: torch.Tensor) -> Any:
    h, k = torch.zeros(x.shape[0], 6), 0
    for step in x.split(1, dim=1):
        h = h + step.squeeze(1) * k
        k += 1
    return h * k


def names_used_again(self: Any, x: torch.Tensor) -> Any:
    t, y = 5, x.sum(1)
    for t in range(x.shape[1]):
        z = y * 0.1 + x[:, t]
        y = y + z
    for t in range(3):
        y = y * t + z
    return y * t


def read_at_its_end(self: Any, x: torch.Tensor) -> Any:
    y = h = x[:, 0]
    for t in range(1, x.shape[1]):
        h = x[:, t] * 2
    else:
        y = y + h
    return y


def last_of_a_list(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(1, x.shape[1]):
        outputs.append(x[:, t] * 2)
    return outputs[-1], outputs[0]


def imported_in_a_step(self: Any, x: torch.Tensor) -> Any:
    h = x.new_zeros(x.shape[0], 6)
    for step in x.unbind(1):
        from math import sqrt

        h = h + step
    return h * sqrt(2)


def comprehension(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([self.linear(x[i]).cumsum(0) * i for i in range(x.shape[0])])


def constants_of_the_steps(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for row in x:
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        scale += row.sum(0)
        outputs.append((row - torch.as_tensor([0.5] * 6)) * scale)
    return torch.stack(outputs)


def found_and_padded(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for row in x:
        found = row[row[:, 0] > 0][:3]
        outputs.append(nn.functional.pad(found, (0, 0, 0, 3 - found.shape[0])))
    return torch.stack(outputs)


def in_a_function_by_parity(self: Any, x: torch.Tensor) -> Any:
    def update(h: torch.Tensor, t: int) -> torch.Tensor:
        return h + x[:, t] if t % 2 == 0 else h

    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        h = update(h, t)
    return h


RIGHT = (
    cells,
    state_is_none,
    rows_of_a_tensor,
    both_directions,
    front,
    written,
    added_in_place,
    nested,
    two_layers,
    layer_by_layer,
    first_step_differs,
    may_have_no_steps,
    skipped,
    counted,
    names_used_again,
    read_at_its_end,
    last_of_a_list,
    comprehension,
    constants_of_the_steps,
    found_and_padded,
    in_a_function_by_parity,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path, torch.randn)


def longer(self: Any, x: torch.Tensor) -> Any:
    out = x[:, :1]
    for t in range(1, x.shape[1]):
        out = torch.cat((out, out[:, -1:] * 0.5 + x[:, t : t + 1]), 1)
    return out


def none_at_first(self: Any, x: torch.Tensor) -> Any:
    out, h = None, torch.zeros(x.size(0), 6)
    for step in x.unbind(1):
        h = self.cell(step, h)
        out = h[:, None] if out is None else torch.cat([out, h[:, None]], 1)
    return out


def attends_to_all_before(self: Any, x: torch.Tensor) -> Any:
    keys, outputs = x.new_zeros(x.size(0), 0, 6), []
    for t in range(x.shape[1]):
        query = self.linear(x[:, t : t + 1])
        keys = torch.cat((keys, query), 1)
        outputs.append(((query @ keys.mT).softmax(-1) @ keys)[:, 0])
    return torch.stack(outputs, 1), keys


def longer_by_a_size(self: Any, x: torch.Tensor) -> Any:
    out = x[:0, 0]
    for t in range(x.shape[1]):
        out = torch.cat((x[:, t] * t, out))
    return out


def longer_by_more(self: Any, x: torch.Tensor) -> Any:
    out = x[:, :1]
    for t in range(1, x.shape[1]):
        out = torch.cat((out, x[:, :t]), 1)
    return out


def longer_in_one_way(self: Any, x: torch.Tensor) -> Any:
    out = x[:, :1]
    for t in range(1, x.shape[1]):
        if t % 2:
            out = torch.cat((out, x[:, t : t + 1]), 1)
    return out


def shorter(self: Any, x: torch.Tensor) -> Any:
    h, rest = x[:, 0], x
    for _ in range(x.shape[1] // 2):
        h, rest = h + rest[:, 0], rest[:, 1:]
    return h, rest


@CAPTURES
@pytest.mark.parametrize(
    "run", [longer, none_at_first, attends_to_all_before, longer_by_a_size, longer_by_more, longer_in_one_way, shorter]
)
def test_a_step_may_make_a_tensor_longer(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    model = agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path)
    assert 'op_type: "Loop"' in str(model.graph)


def over_half(self: Any, x: torch.Tensor) -> Any:
    h = x[:, 0]
    for t in range((x.shape[1] + 1) // 2):
        h = torch.tanh(self.linear(x[:, 2 * t]) + h)
    return h


def after_a_convolution(self: Any, x: torch.Tensor) -> Any:
    y = nn.functional.conv1d(x.mT, self.linear.weight[:, :, None], stride=2).mT
    outputs, h = [], torch.zeros(x.size(0), 6)
    for t in range(y.shape[1]):
        h = self.cell(y[:, t], h)
        outputs.append(h)
    return torch.stack(outputs, 1)


def over_two_steps_less(self: Any, x: torch.Tensor) -> Any:
    h = x[:, 0]
    for t in range(x.shape[1] * 3 - 2):
        h = h * 0.5 + t
    return h


@CAPTURES
@pytest.mark.parametrize("run", [over_half, after_a_convolution, over_two_steps_less])
def test_the_number_of_steps_may_be_an_expression(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    model = agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path)
    assert len(steps(model)) == 1


def test_a_loop_is_a_scan(tmp_path: pathlib.Path) -> None:
    model = agrees(Model(cells), SHAPES, DYNAMIC, "export", tmp_path)
    assert [node.op_type for node in steps(model)] == ["Scan"]


def stacked_behind_the_first(self: Any, x: torch.Tensor) -> Any:
    h, c = x.new_zeros(x.shape[0], 5), x.new_ones(x.shape[0], 5)
    every_h, every_c = [h], [c]
    for step in x.unbind(1):
        h, c = self.lstm(step, (h, c))
        every_h.append(h)
        every_c.insert(0, c)
    return torch.stack(every_h, 1), torch.stack(every_c), h, c


def from_the_second_step(self: Any, x: torch.Tensor) -> Any:
    h = x.new_ones(x.shape[0], 6)
    outputs = [h]
    for t in range(1, x.shape[1]):
        h = h + x[:, t] * x[:, t - 1]
        outputs.append(h)
    return h, torch.stack(outputs), torch.cat(outputs, 1)


def in_each_row(self: Any, x: torch.Tensor) -> Any:
    total = x.new_ones(6)
    for row in x.flip(0):
        for t in range(x.shape[1]):
            total = torch.sin(total) + row[t]
        total = total * 2
    return total


def written_by_steps(self: Any, x: torch.Tensor) -> Any:
    h, out = x.new_ones(x.shape[0], 6), torch.zeros_like(x)
    for t in range(x.shape[1] - 1, -1, -1):
        h = self.cell(x[:, t], h)
        out[:, t] = h
    return h, out


@CAPTURES
@pytest.mark.parametrize("run", [stacked_behind_the_first, from_the_second_step, written_by_steps, in_each_row])
def test_an_axis_without_steps(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(Model(run), [*SHAPES, [(2, 0, 6)]], DYNAMIC, capture, tmp_path)


def test_constant_sizes_are_unrolled(tmp_path: pathlib.Path) -> None:
    opbridge.export(Model(cells), (torch.randn(2, 7, 6),), tmp_path / "model.onnx")
    assert "Scan" not in {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}


def constants_by_a_count(self: Any, x: torch.Tensor) -> Any:
    count = itertools.count()
    return torch.stack([row * torch.tensor(float(next(count))) for row in x])


def kept_in_a_set(self: Any, x: torch.Tensor) -> Any:
    seen, h = set(), x[:, 0]
    for t in range(1, x.shape[1]):
        seen.add("t")
        h = h + x[:, t]
    return h * len(seen)


def same_tensor_in_each_row(self: Any, x: torch.Tensor) -> Any:
    total, outputs = torch.zeros(x.shape[0], 6), []
    for t in range(x.shape[1]):
        total += x[:, t]
        outputs.append(total)
    return torch.stack(outputs, 1)


def read_through_a_view(self: Any, x: torch.Tensor) -> Any:
    out = torch.zeros_like(x)
    rows = out.view(-1, 6)
    for t in range(x.shape[1]):
        out[:, t] = x[:, t] + rows.sum()
    return out


def list_of_others(self: Any, x: torch.Tensor) -> Any:
    outputs: list[torch.Tensor] = []
    kept = {"outputs": outputs}
    for t in range(x.shape[1]):
        outputs.append(x[:, t])
    return torch.stack(kept["outputs"], 1)


def deque_of_others(self: Any, x: torch.Tensor) -> Any:
    kept = collections.deque([x[:, 0]] * 3, maxlen=3)
    same = kept
    for t in range(x.shape[1]):
        kept.append(x[:, t])
    return torch.stack(list(same))


def written_afterwards(self: Any, x: torch.Tensor) -> Any:
    x = x.clone()
    rows = [x[:, t] for t in range(x.shape[1])]
    x.mul_(2)
    return torch.stack(rows, 1)


def in_a_lambda_by_parity(self: Any, x: torch.Tensor) -> Any:
    update = lambda h, t: h + x[:, t] if t % 2 == 0 else h  # noqa: E731
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        h = update(h, t)
    return h


def left_early(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        h = h + x[:, t]
        if t >= 3:
            break
    return h


def differentiated(self: Any, x: torch.Tensor) -> Any:
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        h = torch.zeros(x.shape[0], 6)
        for t in range(x.shape[1]):
            h = torch.tanh(h * 0.5 + x[:, t])
        return torch.autograd.grad(h.sum(), x)[0]


REFUSED = (
    (kept_in_a_set, "outside of the loop"),
    (constants_by_a_count, "outside of the loop"),
    (same_tensor_in_each_row, "outside of the loop"),
    (read_through_a_view, "outside of the loop"),
    (list_of_others, "outside of the loop"),
    (deque_of_others, "outside of the loop"),
    (written_afterwards, "a branch or a loop returns unchanged"),
    (in_a_lambda_by_parity, "by their number in a function"),
    (imported_in_a_step, "the model fixes it to 7"),
    (left_early, "the model fixes it to 7"),
    (differentiated, "no gradients"),
)


@CAPTURES
@pytest.mark.parametrize(("run", "why"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_refuses_what_a_loop_of_a_graph_cannot_do(run: Any, why: str, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, why, capture, tmp_path)


def test_the_function_keeps_its_code_and_runs_as_before_in_other_threads(tmp_path: pathlib.Path) -> None:
    code, x = cells.__code__, torch.randn(2, 5, 6)
    model = Model(cells)
    with torch.no_grad():
        want = model(x)[0]
    differences: list[float] = []
    ended = threading.Event()

    def run() -> None:
        with torch.no_grad():
            while not ended.is_set() or not differences:
                differences.append(float((model(x)[0] - want).abs().max()))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        agrees(model, SHAPES, DYNAMIC, "trace", tmp_path)
    finally:
        ended.set()
        thread.join()
    assert cells.__code__ is code
    assert max(differences) == 0


@CAPTURES
def test_assigns_at_a_dynamic_index(capture: Any, tmp_path: pathlib.Path) -> None:
    class Assigns(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x, n = x.clone(), x.shape[1]
            x[:, n - 1] = 3.0
            x[0, n // 2] += 1
            x[..., n // 3, None, 1:4] = x[:1, 0, None, :3] * 2
            return x

    agrees(Assigns(), SHAPES, DYNAMIC, capture, tmp_path)


@CAPTURES
def test_indexes_by_dynamic_sizes_beside_tensors(capture: Any, tmp_path: pathlib.Path) -> None:
    picked = torch.tensor([0, 1, 0, 2])

    class Indexes(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            b, n, _ = x.shape
            mask, h = x[0, 0] > -9, x.new_zeros(b, 4)
            rows, out = torch.arange(b), torch.zeros_like(x)
            for t in range(n):
                h = h + x[:, t, picked]
                out[rows, t] = x[:, t] * 2
            out[..., n // 2, [0, 2]] += 1
            parts = x[None, :, n - 1, None, picked], x[b - 1, :, [1, 3]], x[..., n - 1, mask], x[b // 2, n - 1, picked]
            return h, out, *parts, x[picked[:1], n - 1, 1:3], x.transpose(0, 2)[mask, n // 3]

    agrees(Indexes(), SHAPES, DYNAMIC, capture, tmp_path)


@torch.jit.script
def compiled_loop(x: torch.Tensor) -> torch.Tensor:
    h = torch.zeros_like(x[:, 0])
    for t in range(x.shape[1] - 1):
        h = h * 0.5 + x[:, t]
    return h


def test_a_loop_of_torchscript_tells_nothing_about_the_size(tmp_path: pathlib.Path) -> None:
    def run(self: Any, x: torch.Tensor) -> torch.Tensor:
        h: torch.Tensor = compiled_loop(x)
        return h + 100 if x.shape[1] == 1 else h

    agrees(Model(run), SHAPES, DYNAMIC, "trace", tmp_path)
