"""Loops over the parts of a dynamic axis, the last of which may be smaller, and lists of tensors of several sizes."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees, agrees_without_warnings
from torch import nn

import opbridge

SHAPES = [[(5, 4)], [(1, 4)], [(4, 4)], [(9, 4)], [(2, 4)], [(6, 4)]]
ROWS = ({0: "n"},)


def centered(part: torch.Tensor) -> torch.Tensor:
    return (part - part.mean(0)).tanh()


def split(x: torch.Tensor) -> Any:
    return torch.cat([centered(part) for part in x.split(2)])


def split_by_a_function(x: torch.Tensor) -> Any:
    outputs = []
    for part in torch.split(x, 3, 0):
        outputs.append(centered(part))
    return torch.cat(outputs, dim=-2)


def slices(x: torch.Tensor) -> Any:
    outputs = []
    for start in range(0, x.shape[0], 2):
        end = min(start + 2, len(x))
        outputs.append(centered(x[start:end]) * (end - start))
    return torch.cat(outputs)


def slices_by_number(x: torch.Tensor) -> Any:
    count = (x.shape[0] + 1) // 2
    return torch.cat([centered(x[i * 2 : (i + 1) * 2]) for i in range(count)])


def columns(x: torch.Tensor) -> Any:
    return torch.cat([(part - part.amax(1, True)).exp() for part in x.T.split(2, dim=1)], dim=1)


def columns_in_other_order(x: torch.Tensor) -> Any:
    return torch.cat([centered(part.T) for part in torch.split(x.T, 2, -1)])


def one_result_of_each(x: torch.Tensor) -> Any:
    means = [part.mean() for part in x.split(2)]
    return torch.stack(means), means[-1]


def state_between_parts(x: torch.Tensor) -> Any:
    outputs, state = [], x.new_zeros(4)
    for part in x.split(2):
        state = state * 0.5 + part.sum(0) * part.shape[0]
        outputs.append(part + state)
    return torch.cat(outputs), state


def two_lists(x: torch.Tensor) -> Any:
    outputs, means = [], []
    for part in x.split(2):
        outputs.append(part * 2)
        means.append(part.mean())
    return torch.cat(outputs), torch.stack(means)


def more_before_and_after(x: torch.Tensor) -> Any:
    outputs = [x[:1]]
    for part in x.split(2):
        outputs.append(part)
        outputs += [part[:1], part]
    outputs.append(x[-1:])
    return torch.cat(outputs)


def parts_of_parts(x: torch.Tensor) -> Any:
    outputs = []
    for part in x.split(3):
        inner = [each.cumsum(0) for each in part.split(2)]
        outputs.append(torch.cat(inner) + part.sum())
    return torch.cat(outputs)


def in_step(x: torch.Tensor) -> Any:
    outputs = []
    for i, (one, other) in enumerate(zip(x.split(2), (x * 2).split(2), strict=True)):
        outputs.append(one * other.mean() + i)
    return torch.cat(outputs)


def turned(x: torch.Tensor) -> Any:
    return torch.cat([part for part in reversed(x.split(2))])  # noqa: C416 (a loop)


def chunks(x: torch.Tensor) -> Any:
    return torch.cat([part.cumsum(0) for part in x.chunk(3)])


def chunks_by_size(x: torch.Tensor) -> Any:
    return torch.cat([part.cumsum(0) for part in x.chunk(x.shape[0] // 2 + 1)])


def without_a_loop(x: torch.Tensor) -> Any:
    parts = x.split(2)
    return parts[0], parts[-1], x.chunk(3)[-1], torch.cat(parts), torch.tensor(len(parts))


def joined(parts: Any) -> torch.Tensor:
    return torch.cat([part * 2 for part in parts])


def passed_on(x: torch.Tensor) -> Any:
    return joined(x.split(2)), sum(part.sum() for part in x.split(2))


def written_then_joined(x: torch.Tensor) -> Any:
    outputs = []
    for part in x.split(2):
        own = part * 2
        outputs.append(own)
        own += 1
    return torch.cat(outputs)


def by_rows(x: torch.Tensor) -> Any:
    return torch.vstack([centered(part) for part in x.split(2)]), torch.vstack([row + 1 for row in x])


def by_columns(x: torch.Tensor) -> Any:
    kept = torch.hstack([row[row > 0.5] for row in x])
    return kept, torch.hstack([part.T for part in x.split(2)]), torch.hstack([row.sum() for row in x])


def beginnings(x: torch.Tensor) -> Any:
    triangle = [x[i:, i % 2] for i in range(len(x))]
    return torch.cat([x[: i + 1] * (i + 1) for i in range(x.shape[0])]), torch.cat(triangle)


def lengths_by_data(x: torch.Tensor) -> Any:
    ends = (x[:, 0] * 100).long() % 5
    return torch.cat([row[:end] for row, end in zip(x, ends, strict=True)])


def by_index(x: torch.Tensor) -> Any:
    parts = torch.split(x, split_size_or_sections=2)
    return torch.cat([parts[i] * i for i in range(len(parts))])


def padded(x: torch.Tensor) -> Any:
    return torch.stack([F.pad(part, (0, 0, 0, 2 - part.shape[0])) for part in x.split(2)])


RIGHT = (
    split,
    split_by_a_function,
    slices,
    slices_by_number,
    columns,
    columns_in_other_order,
    one_result_of_each,
    state_between_parts,
    two_lists,
    more_before_and_after,
    parts_of_parts,
    in_step,
    turned,
    chunks,
    chunks_by_size,
    without_a_loop,
    passed_on,
    written_then_joined,
    by_rows,
    by_columns,
    beginnings,
    lengths_by_data,
    by_index,
    padded,
)


@CAPTURES
@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_agrees_for_any_number_of_parts(function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(function, SHAPES, ROWS, capture, tmp_path)


@CAPTURES
def test_parts_that_are_unpacked(capture: Any, tmp_path: pathlib.Path) -> None:
    """PyTorch has no result for another number."""

    def model(x: torch.Tensor) -> Any:
        first, second = x.chunk(2)
        one, other, third = torch.split(x, 2)
        for row in x:
            first = first + row
        return first, second, one.sum() - other.sum(), third

    agrees_without_warnings(model, [[(5, 4)], [(6, 4)]], ROWS, capture, tmp_path)


def test_one_layer_for_each_chunk(tmp_path: pathlib.Path) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat([layer(part) for layer, part in zip(self.layers, x.chunk(2), strict=True)])

    with pytest.warns(opbridge.TraceWarning, match="of the parts that chunk"):
        agrees(Layers(), [[(5, 4)], [(6, 4)]], ROWS, "export", tmp_path)


def first_and_others(x: torch.Tensor) -> Any:
    first, *others = x.split(2)
    return first + 1, torch.cat(others)


def along_another_axis(x: torch.Tensor) -> Any:
    return torch.cat([part * 2 for part in x.split(2)], 1)


def written(x: torch.Tensor) -> Any:
    y = x.clone()
    for part in y.split(2):
        part.mul_(2)
    return y


def turned_by_a_slice(x: torch.Tensor) -> Any:
    return torch.cat(x.split(2)[::-1])


def parts_that_are_written_later(x: torch.Tensor) -> Any:
    x = x.clone()
    parts = [part for part in x.split(2)]  # noqa: C416 (a loop)
    x.mul_(2)
    return torch.cat(parts)


def views_that_the_next_step_writes(x: torch.Tensor) -> Any:
    state, outputs = x.clone(), []
    for part in x.split(2):
        outputs.append(state[: part.shape[0]])
        state += 1
    return torch.cat(outputs)


def views_that_the_next_step_of_while_writes(x: torch.Tensor) -> Any:
    state, outputs, i = x[0].clone(), [], 0
    while state.sum() < 10 and i < 5:
        outputs.append(state[:2])
        state += 1
        i += 1
    return torch.stack([*outputs, x[0, :2]])


def in_a_try_block(x: torch.Tensor) -> Any:
    try:
        return x.split(2)[1].sum()
    except IndexError:
        return x.sum() * 100


def unpacked_in_a_try_block(x: torch.Tensor) -> Any:
    try:
        first, second = x.split(2)
    except ValueError:
        return x.sum()
    return first.sum() - second.sum()


def an_iterator_that_is_kept(x: torch.Tensor) -> Any:
    pairs, total = itertools.pairwise(x), x.sum()
    for _ in range(2):
        for one, other in pairs:
            total = total + (one - other).sum()
    return total


REFUSED = (
    first_and_others,
    along_another_axis,
    written,
    turned_by_a_slice,
    parts_that_are_written_later,
    views_that_the_next_step_writes,
    views_that_the_next_step_of_while_writes,
    in_a_try_block,
    unpacked_in_a_try_block,
    an_iterator_that_is_kept,
)


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_refuses_other_uses_of_parts(function: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError):
        opbridge.export(function, (torch.rand(4, 4),), tmp_path / "model.onnx", dynamic_shapes=ROWS)
    assert not (tmp_path / "model.onnx").exists()


class InWindows(nn.Module):
    """Attention asks whether a part is empty, which data seem to decide."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.layer(part[None])[0] for part in x.split(3)])


@CAPTURES
def test_layers_that_ask_for_the_size_of_a_part(capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(InWindows().eval(), SHAPES, ROWS, capture, tmp_path)


def answers_that_hold_in_each_step(x: torch.Tensor) -> Any:
    total = x.sum(0)
    for start in range(0, x.shape[0], 2):
        part = x[start : start + 2]
        total = total * 1000 if part.shape[0] == 0 or start >= x.shape[0] else total + part.sum(0)
        if part.shape[0] != 2:
            total = total - 4
        if start + 2 <= x.shape[0]:
            total = total + x[start + 1]
        if start == 0:
            total = total * 2
    for i in range(x.shape[0] - 1, -1, -1):
        if i < 0 or i > x.shape[0] - 1:
            total = total * 99
        if i > x.shape[0] - 2:
            total = total + 3
        for j in range(i):
            total = total + x[j] * (77 if j >= i else 1) * (5 if j + 1 == i else 1)
    return total


@CAPTURES
def test_answers_about_the_number_of_a_step(capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(answers_that_hold_in_each_step, SHAPES, ROWS, capture, tmp_path)


class ByRangeOfPart(nn.Module):
    """torch writes the size of a part in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.linspace(0.5, 0.9, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = []
        for part in x.split(3):
            parts.append(part * self.decay ** torch.arange(part.shape[0], 0, -1)[:, None])
        return torch.cat(parts)


@CAPTURES
def test_parts_broadcast_with_ranges_of_their_size(capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(ByRangeOfPart().eval(), SHAPES, ROWS, capture, tmp_path)
