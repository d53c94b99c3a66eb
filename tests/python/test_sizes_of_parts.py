"""The sizes of the parts of a dynamic axis, and of what loops make of them: parts that are concatenated again have the
size of the axis, which the input may then be added to."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees_without_warnings
from torch import nn

import opbridge

SHAPES = [[(7, 4)], [(3, 4)], [(4, 4)], [(6, 4)], [(13, 4)], [(5, 4)]]
ROWS = ({0: "n"},)
TABLE = torch.linspace(-1, 1, 12).view(3, 4)


def split(x: torch.Tensor) -> Any:
    return torch.cat([part.cumsum(0) for part in x.split(3)]) + x


def chunks(x: torch.Tensor) -> Any:
    return torch.cat([part.cumsum(0) for part in x.chunk(3)]) + x


def slices(x: torch.Tensor) -> Any:
    parts = []
    for start in range(0, x.shape[0], 3):
        parts.append(x[start : start + 3].cumsum(0))
    return torch.vstack(parts) * x


def slices_after_others(x: torch.Tensor) -> Any:
    parts = [x[:2] * 2]
    for start in range(2, x.shape[0], 3):
        parts.append(x[start : start + 3].flip(0))
    return torch.cat(parts) + x


def slices_by_number(x: torch.Tensor) -> Any:
    parts = []
    for i in range(math.ceil(x.shape[0] / 3)):
        parts.append(x[i * 3 : min((i + 1) * 3, x.shape[0])].softmax(0))
    return torch.cat(parts) - x


def two_of_each(x: torch.Tensor) -> Any:
    parts = []
    for part in x.split(2):
        parts.append(part)
        parts.append(part * 2)
    return torch.cat(parts) - torch.cat([x, x])


def grown_tensor(x: torch.Tensor) -> Any:
    before, after = x[:0], x[:0]
    for part in x.split(4):
        before, after = torch.cat([part, before]), torch.cat([after, part.cumsum(0)])
    return before + x.flip(0), after * x


def only_whole_parts(x: torch.Tensor) -> Any:
    parts = []
    for i in range(x.shape[0] // 3):
        parts.append(x[i * 3 : (i + 1) * 3].cumsum(0))
    return torch.cat(parts) + x[: x.shape[0] // 3 * 3]


def overlapping(x: torch.Tensor) -> Any:
    parts = []
    for start in range(0, x.shape[0], 2):
        parts.append(x[start : start + 3] - 1)
    return torch.cat(parts).sum(0) + x


def slices_from_the_end(x: torch.Tensor) -> Any:
    parts = []
    for last in range(x.shape[0] - 1, -1, -2):
        parts.append(x[max(last - 1, 0) : last + 1].cumsum(0))
    return torch.cat(parts) + x


def by_steps_of_a_size(x: torch.Tensor) -> Any:
    n = x.shape[0]
    size, parts = math.ceil(n / 4), []
    for start in range(0, n, size):
        parts.append(x[start : start + size].cumsum(0))
    halves = [x[start : start + n // 2 + 1].flip(0) for start in range(0, n, n // 2 + 1)]
    return torch.cat(parts) + x, torch.cat(halves) - x


def with_table(x: torch.Tensor) -> Any:
    parts = []
    for start in range(0, x.shape[0], 3):
        end = min(start + 3, x.shape[0])
        parts.append(x[start:end] * TABLE[: end - start])
    return torch.cat(parts) + x


def with_those_before(x: torch.Tensor) -> Any:
    parts = []
    for start in range(0, x.shape[0], 3):
        seen = x[max(0, start - 3) : start + 3]
        parts.append((x[start : start + 3] @ seen.T).softmax(-1) @ seen)
    return torch.cat(parts) + x


def with_memory(x: torch.Tensor) -> Any:
    memory, parts = x.new_zeros(2, 4), []
    for part in x.split(3):
        seen = torch.cat([memory, part])
        parts.append((part @ seen.T).softmax(-1) @ seen)
        memory = seen[-2:]
    return torch.cat(parts) + x


def of_heads(x: torch.Tensor) -> Any:
    heads = x.view(x.shape[0], 2, 2).transpose(0, 1)
    parts = [(part @ heads.mT).softmax(-1) @ heads for part in heads.split(3, dim=1)]
    return torch.cat(parts, dim=1).transpose(0, 1).reshape(x.shape[0], 4) + x


def padded_parts(x: torch.Tensor) -> Any:
    parts = []
    for start in range(0, x.shape[0], 3):
        part = x[start : start + 3]
        if part.shape[0] < 3:
            part = F.pad(part, (0, 0, 0, 3 - part.shape[0]))
        parts.append(part + TABLE)
    return torch.stack(parts).flatten(0, 1)[: x.shape[0]] + x


def padded_by_what_is_missing(x: torch.Tensor) -> Any:
    parts = []
    for part in x.split(3):
        missing = 3 - part.shape[0]
        if missing:
            part = F.pad(part, (0, 0, 0, missing))
        parts.append(part)
    return torch.stack(parts), torch.cat(parts)[: x.shape[0]] + x


def means_of_neighbours(x: torch.Tensor) -> Any:
    means = []
    for i in range(x.shape[0]):
        start, end = max(0, i - 1), min(x.shape[0], i + 2)
        means.append((x[start:end] * torch.arange(end - start)[:, None]).mean(0))
    return torch.stack(means) + x


def indices_that_go_down(x: torch.Tensor) -> Any:
    return torch.stack([torch.arange(i, -1, -1).sum() + torch.arange(i * 2, i, -2).sum() for i in range(x.shape[0])])


PROGRAMS = [
    split,
    chunks,
    slices,
    slices_after_others,
    slices_by_number,
    two_of_each,
    grown_tensor,
    only_whole_parts,
    overlapping,
    slices_from_the_end,
    by_steps_of_a_size,
    with_table,
    with_those_before,
    with_memory,
    of_heads,
    padded_parts,
    padded_by_what_is_missing,
    means_of_neighbours,
    indices_that_go_down,
]


@CAPTURES
@pytest.mark.parametrize("function", PROGRAMS)
def test_parts_have_the_size_of_their_axis(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(function, SHAPES, ROWS, capture, tmp_path)


@CAPTURES
def test_parts_of_a_dynamic_size(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor, table: torch.Tensor) -> Any:
        parts, last = [], x.sum(0)
        for start in range(0, x.shape[0], table.shape[0]):
            part = x[start : start + table.shape[0]]
            parts.append(part * table[: part.shape[0]])
            last = last * 0.5 + x[start]
        return torch.cat(parts) - x, last

    shapes = [[(7, 4), (3, 4)], [(5, 4), (2, 4)], [(3, 4), (7, 4)], [(12, 4), (4, 4)], [(2, 4), (1, 4)]]
    agrees_without_warnings(function, shapes, ({0: "n"}, {0: "k"}), capture, tmp_path)


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, -x.shape[0] % 3))


def padded_unless_whole(x: torch.Tensor) -> torch.Tensor:
    rest = x.shape[0] % 3
    return F.pad(x, (0, 0, 0, 3 - rest)) if rest else x


def padded_by_ceil(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, math.ceil(x.shape[0] / 3) * 3 - x.shape[0]))


def padded_by_two_remainders(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x, (0, 0, 0, (3 - x.shape[0] % 3) % 3))


def parts_of_equal_size(whole: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], Any]:
    def function(x: torch.Tensor) -> Any:
        y = whole(x)
        parts = y.split(3)
        state, states, sums, products = TABLE, [], [], []
        for part in parts[::-1]:
            state = state * 0.5 + part
            states.append(state)
        for start in range(0, y.shape[0], 3):
            sums.append(y[start : start + 3] + TABLE)
        for i in range(y.shape[0] // 3):
            products.append(y[i * 3 : i * 3 + 3] @ TABLE.T)
        chunks = [chunk.cumsum(0) for chunk in y.chunk(y.shape[0] // 3)]
        return (
            torch.stack(states),
            torch.cat(sums) * y,
            torch.stack(products),
            torch.cat(chunks)[: x.shape[0]],
            parts[-1],
        )

    return function


@CAPTURES
@pytest.mark.parametrize("whole", [padded, padded_unless_whole, padded_by_ceil, padded_by_two_remainders])
def test_parts_of_a_multiple_have_one_size(whole: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(parts_of_equal_size(whole), SHAPES, ROWS, capture, tmp_path)


def test_an_axis_of_which_nothing_is_left_has_one_part(tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor) -> Any:
        found = x[x.sum(1) > 0]
        sums = [part.sum(0) for part in found.split(1)]
        pairs = [part.sum(0) for part in torch.cat([found, found]).split(2)]
        return torch.stack(sums), torch.stack(pairs), len(found.split(1))

    path = tmp_path / "model.onnx"
    opbridge.export(function, (torch.rand(3, 4),), path, dynamic_shapes=ROWS)
    for x in (torch.rand(3, 4), -torch.rand(2, 4), torch.rand(6, 4) - 0.5):
        assert opbridge.verify(path, function, (x,)).ok


def cut_to_a_multiple(x: torch.Tensor) -> Any:
    """Of less than three rows nothing is left."""
    parts = x[: x.shape[0] - x.shape[0] % 3].split(3)
    numbers = torch.arange(1, x.shape[0], 2).split(1, -1)
    return torch.stack([part.sum(0) for part in parts]), len(parts), torch.cat(parts), numbers[-1] * 2, len(numbers)


@CAPTURES
def test_what_is_cut_to_a_multiple_may_have_nothing_left(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(7, 4)], [(1, 4)], [(2, 4)], [(3, 4)], [(6, 4)], [(13, 4)]]
    agrees_without_warnings(cut_to_a_multiple, shapes, ROWS, capture, tmp_path)


def cropped(x: torch.Tensor) -> Any:
    grown = torch.cat([x] * 6)
    for i in range(x.shape[0]):
        grown = F.pad(grown, (0, 0, 0, min(3, x.shape[0] - 3 * i) + i))
    return grown.sum(0) + grown.shape[0]


@CAPTURES
def test_what_steps_add_may_be_negative(capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(cropped, SHAPES, ROWS, capture, tmp_path)


class Feedforward(nn.Module):
    """In chunks, as in models of long texts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.position = nn.LayerNorm(4), nn.Parameter(torch.randn(3, 4))
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = []
        for part in self.norm(x).split(3, dim=1):
            parts.append(self.down(F.gelu(self.up(part + self.position[: part.shape[1]]))))
        return x + torch.cat(parts, 1)


@CAPTURES
def test_a_layer_in_chunks(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(2, 7, 4)], [(1, 3, 4)], [(3, 1, 4)], [(2, 12, 4)]]
    agrees_without_warnings(Feedforward().eval(), shapes, ({0: "b", 1: "n"},), capture, tmp_path)
