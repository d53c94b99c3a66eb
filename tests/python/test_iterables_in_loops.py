"""``map``, ``functools.reduce`` and functions of ``itertools`` over a dynamic axis."""

from __future__ import annotations

import functools
import itertools
import operator
import pathlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees, agrees_without_warnings
from torch import nn

import opbridge

SHAPES = [[(4, 4)], [(2, 4)], [(7, 4)]]


def twice(row: torch.Tensor) -> torch.Tensor:
    return torch.tanh(row) * 2


def mapped(x: torch.Tensor) -> Any:
    outputs = []
    for row in map(twice, x):
        outputs.append(row + 1)
    return torch.stack(outputs), torch.stack(list(map(twice, x))), torch.stack([*map(torch.sum, x)])


def mapped_and_summed(x: torch.Tensor) -> Any:
    return sum(map(operator.itemgetter(0), x)), torch.stack(tuple(map(twice, x.unbind(0)))), sum(x), sum(x, x[0])


def generated(x: torch.Tensor) -> Any:
    return torch.stack([*(twice(row) for row in x)]), torch.stack(
        [x[0], *(row * i for i, row in enumerate(x) if i > 1)]
    )


def mapped_in_step(x: torch.Tensor) -> Any:
    return torch.stack([each for each in map(lambda row, other: row * other, x, x.flip(0))])  # noqa: C416 (a loop)


def mapped_numbers(x: torch.Tensor) -> Any:
    return torch.tensor(list(map(lambda i: i * 2, range(x.shape[0]))))  # noqa: C417


def mapped_parts(x: torch.Tensor) -> Any:
    return torch.cat(list(map(twice, x.split(3)))), torch.cat([x[:1], *map(twice, x.split(3))])


def reduced(x: torch.Tensor) -> Any:
    return reduce(lambda state, row: torch.tanh(state) + row, x), reduce(torch.minimum, x), reduce(operator.mul, x.T)


def reduced_from_a_value(x: torch.Tensor) -> Any:
    pair = reduce(lambda pair, row: (pair[0] + row, pair[1] / 2 + row), x, (x.new_zeros(4), x.new_ones(4)))
    greatest = reduce(torch.maximum, map(twice, x.unbind(0)))
    return functools.reduce(lambda state, i: state + x[i] * i, range(len(x)), 0), greatest, *pair


def accumulated(x: torch.Tensor) -> Any:
    greatest = []
    for each in itertools.accumulate(x, torch.maximum):
        greatest.append(each.sum())
    states = list(itertools.accumulate(x, lambda state, row: state / 2 + row, initial=x.new_ones(4)))
    return torch.stack(greatest), torch.stack(states), torch.stack([*itertools.accumulate(x)])


def pairs(x: torch.Tensor) -> Any:
    length = x.new_zeros(())
    for one, other in itertools.pairwise(x):
        length = length + (one - other).norm()
    return length, torch.stack([other - one for one, other in itertools.pairwise(x)])


def sliced(x: torch.Tensor) -> Any:
    state = x[0]
    for row in itertools.islice(x, 1, len(x) - 1):
        state = state / 2 + row
    return state, torch.stack([row * 2 for row in itertools.islice(x, 1, None, 2)]), sum(itertools.islice(x, 2))


def turned(x: torch.Tensor) -> Any:
    return torch.stack([x[0], *reversed(x)]), torch.cat([*reversed(x.split(2))])


def same_names_elsewhere(x: torch.Tensor) -> Any:
    total = x.new_zeros(4)
    for row in x[1:]:
        total = total + row
    return total, reduce(lambda row, other: row + other, x), [row * 2 for row in (x, total)]


RIGHT = (
    mapped,
    mapped_and_summed,
    generated,
    mapped_in_step,
    mapped_numbers,
    mapped_parts,
    reduced,
    reduced_from_a_value,
    accumulated,
    pairs,
    sliced,
    turned,
    same_names_elsewhere,
)


@CAPTURES
@pytest.mark.parametrize("function", RIGHT, ids=lambda function: function.__name__)
def test_agrees_at_other_sizes(function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(function, SHAPES, ({0: "n"},), capture, tmp_path)


def test_a_module_with_such_a_name(tmp_path: pathlib.Path) -> None:
    class Reduces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reduce = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first, second = map(int, ["1", "2"])
            return self.reduce(sum(x) * first + second)

    agrees(Reduces(), SHAPES, ({0: "n"},), "export", tmp_path)


@pytest.mark.parametrize("initial", [[], [0]])
def test_a_list_that_others_hold_is_not_changed_in_silence(initial: list[int], tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        held = [*initial]

        def append(items: list[Any], row: torch.Tensor) -> list[Any]:
            items.append(row.sum())
            return items

        result = reduce(append, x, held)
        return x * len(held), result[-1]

    with pytest.raises(opbridge.UnsupportedError):
        opbridge.export(model, (torch.rand(4, 4),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},))
