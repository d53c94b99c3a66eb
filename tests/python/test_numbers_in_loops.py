"""Loops over a dynamic axis that read numbers from tensors, change floating-point numbers, or branch by data."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees_without_warnings
from loops_check import DYNAMIC, SHAPES, Model, refuses

import opbridge


def lengths(x: torch.Tensor) -> torch.Tensor:
    """A number of steps for each row."""
    return (x[:, 0, 0].abs() * 100).long() % x.shape[1] + 1


def rows_of_lengths(self: Any, x: torch.Tensor) -> Any:
    ends = lengths(x)
    sums = [x[i, : ends[i]].sum(0) for i in range(x.shape[0])]
    last = [row[end - 1] for row, end in zip(x, ends, strict=True)]
    mask = torch.zeros(x.shape[:2], dtype=torch.bool)
    for i, end in enumerate(ends):
        mask[i, :end] = True
    return torch.stack(sums), torch.stack(last), x.masked_fill(~mask[..., None], 0)


def list_of_lengths(self: Any, x: torch.Tensor) -> Any:
    ends = lengths(x).tolist()
    outputs = []
    for row, end in zip(x, ends, strict=True):
        outputs.append(row[:end].sum(0) / end)
    return (
        torch.stack(outputs),
        x[:, : max(ends)],
        torch.tensor(ends) - min(ends),
        sum(ends) * x,
        ends[0] + x[-1],
        x[:, : ends[-1]],
    )


def list_before_a_write(self: Any, x: torch.Tensor) -> Any:
    ends = lengths(x)
    listed = ends.tolist()
    ends.add_(1)
    return torch.stack([x[i, :end].sum() * end for i, end in enumerate(listed)]), ends


def list_of_floats(self: Any, x: torch.Tensor) -> Any:
    mean = square = 0.0
    for i, value in enumerate(x[:, 0, 0].tolist()):
        change = value - mean
        mean += change / (i + 1)
        square += change * (value - mean)
    return x - mean, torch.tensor(square), torch.tensor(x[0, 0].tolist())


def read_twice(self: Any, x: torch.Tensor) -> Any:
    first, outputs = x[0, 0, 0], []
    for i in range(x.shape[0]):
        outputs.append(x[i] * first.item())
    return torch.stack(outputs), x * first.item()


def read_outside(self: Any, x: torch.Tensor) -> Any:
    factor, outputs = x[0, 0, 0].item(), []
    for i in range(x.shape[0]):
        total = 0
        for t in range(x.shape[1]):
            total = total + x[i, t] * factor * (t + 1)
        outputs.append(total)
    return torch.stack(outputs)


def sums_of_numbers(self: Any, x: torch.Tensor) -> Any:
    steps, weight, most = 0, 0.5, 0
    for i, end in enumerate(lengths(x)):
        steps += int(end)
        weight += float(x[i, 0, 0])
        most = max(most, int(end))
    return x * steps + weight, x[:, :most]


def segments(self: Any, x: torch.Tensor) -> Any:
    flat, begin, sums = x.reshape(-1), 0, []
    for end in torch.cumsum(lengths(x), 0).tolist():
        sums.append(flat[begin:end].sum())
        begin = end
    return torch.stack(sums)


def decaying(self: Any, x: torch.Tensor) -> Any:
    h, weight, powers = torch.zeros(x.shape[0], 6), 1, []
    for t in range(x.shape[1]):
        h = h + x[:, t] * weight
        weight *= 0.5
        powers.append(weight)
    return h, torch.tensor(powers), x * weight


def two_floats(self: Any, x: torch.Tensor) -> Any:
    a, b, outputs = 1.0, 1.0, []
    for t in range(x.shape[1]):
        a, b = b, a + b * 0.25
        outputs.append(x[:, t] * a if t % 2 else x[:, t] * max(a, 1.25))
        if t % 3 == 1:
            b = b * 0.5
    return torch.stack(outputs, 1), torch.tensor(b)


def greatest(self: Any, x: torch.Tensor) -> Any:
    best, at = -1e9, 0
    for t in range(x.shape[1]):
        value = x[:, t].sum().item()
        if value > best:
            best, at = value, t
    return x[:, at], torch.tensor(best)


def by_data(self: Any, x: torch.Tensor) -> Any:
    h, count, weight = torch.zeros(x.shape[0], 6), 0, 0.0
    for t in range(x.shape[1]):
        if t > 0 and h.sum() > 0:
            h = h + x[:, t]
        elif x[0, t, 0] > 0.5:
            h = h - x[:, t]
            count += 1
        weight += 1.0 if x[0, t, 1] > 0 else 0.5
    return h / weight, torch.tensor(count)


def conditions_of_data(self: Any, x: torch.Tensor) -> Any:
    h, ends = torch.zeros(6), lengths(x)
    is_long = ends > 2
    for i in range(x.shape[0]):
        if i + 1 < x.shape[0] and ends[i + 1] >= ends[i]:  # the second would fail at the last step
            h = h + x[i, 0]
        elif i == x.shape[0] - 1 or ends[i + 1] > 2:
            h = h - x[i, 0]
        if ((x[i] > 2).any() and not is_long[i]) or torch.all(h < 5):
            h = h * 0.5
        h = h + 1 if i > 0 and is_long[i - 1] and i < len(x) - 1 else h
    return h


def inner_loop_of_data(self: Any, x: torch.Tensor) -> Any:
    total = torch.zeros(6)
    for i, end in enumerate(lengths(x)):
        for t in range(end.item()):
            total = total + x[i, t] * (t + 1)
    return total


def index_of_data(self: Any, x: torch.Tensor) -> Any:
    counts = torch.zeros(x.shape[1] + 1)
    for i, end in enumerate(lengths(x)):
        counts[int(end)] += x[i].sum()
    return counts


def last_slice(self: Any, x: torch.Tensor) -> Any:
    last = x[0]
    for i, end in enumerate(lengths(x)):
        last = x[i, :end]
    return last


def view_that_is_written(self: Any, x: torch.Tensor) -> Any:
    x = x.clone()
    for i, end in enumerate(lengths(x)):
        view = x[i, end - 1]
        view += 1
    return x


def kept_in_the_model(self: Any, x: torch.Tensor) -> Any:
    for end in lengths(x):
        self.last = int(end)
    return x * self.last


RIGHT = (
    rows_of_lengths,
    list_of_lengths,
    list_before_a_write,
    list_of_floats,
    read_twice,
    read_outside,
    sums_of_numbers,
    segments,
    decaying,
    two_floats,
    greatest,
    by_data,
    conditions_of_data,
    inner_loop_of_data,
    index_of_data,
    last_slice,
    view_that_is_written,
    kept_in_the_model,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(Model(run), SHAPES, DYNAMIC, capture, tmp_path, torch.randn)


def views_written_later(self: Any, x: torch.Tensor) -> Any:
    seen, outputs = torch.zeros(x.shape[1] + 1), []
    for end in lengths(x):
        outputs.append(seen[int(end)])
        seen[int(end)] = 1
    return torch.stack(outputs)


@CAPTURES
@pytest.mark.parametrize(
    "run",
    [views_written_later],
    ids=lambda run: run.__name__,
)
def test_refuses_other_uses(run: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, "outside of the loop", capture, tmp_path)


def pairs_of_later_steps(self: Any, x: torch.Tensor) -> Any:
    return torch.tensor([[t, 2 * t] for t in range(1, x.shape[1])])


def chosen_steps(self: Any, x: torch.Tensor) -> Any:
    return torch.tensor([t for t in range(x.shape[1]) if x[0, t, 0] > 0])


@CAPTURES
@pytest.mark.parametrize("run", [pairs_of_later_steps, chosen_steps], ids=lambda run: run.__name__)
def test_warns_of_a_tensor_of_an_empty_list(run: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    """PyTorch's has float32 numbers and one axis, whatever would be in it."""
    with pytest.warns(opbridge.TraceWarning, match="of a list that may be empty"):
        opbridge.export(
            Model(run), (torch.randn(2, 7, 6),), tmp_path / "m.onnx", dynamic_shapes=DYNAMIC, capture=capture
        )
