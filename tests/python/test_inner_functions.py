"""Loops and branches in functions that the model defines within others."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees, agrees_on, agrees_without_warnings
from torch import nn

import opbridge

SHAPES = [[(3, 4)], [(1, 4)], [(6, 4)]]
ROWS = ({0: "n"},)


class InChunks(nn.Module):
    """As renderers of radiance fields wrap their network."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

    def in_chunks(self, function: Callable[..., Any], size: int) -> Callable[..., Any]:
        def run(rows: torch.Tensor) -> torch.Tensor:
            return torch.cat([function(rows[i : i + size]) for i in range(0, rows.shape[0], size)], 0)

        return run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.in_chunks(self.network, 2)(x)


def scanned(x: torch.Tensor) -> Any:
    def scan(rows: torch.Tensor, step: Callable[..., Any]) -> Any:
        state, states = rows[0] * 0, []
        for row in rows:
            state = step(state, row)
            states.append(state)
        return torch.stack(states), state

    states, _ = scan(x, lambda state, row: state * 0.9 + row)
    return scan(states.flip(0), torch.maximum)


def variables_of_the_outer_function(x: torch.Tensor) -> Any:
    mean, scale = x.mean(0), 2

    def step(state: torch.Tensor, row: torch.Tensor, factor: int = scale) -> torch.Tensor:
        for i in range(len(x)):
            state = state + row * factor * i - mean
        return state

    state = mean
    for row in x:
        state = step(state, row)
    return state + step(mean, x[-1], factor=1)


def functions_in_functions(x: torch.Tensor) -> Any:
    def outer(rows: torch.Tensor) -> torch.Tensor:
        def inner(rows: torch.Tensor) -> torch.Tensor:
            outputs = []
            for row in rows:
                outputs.append(row + 1)
            return torch.stack(outputs)

        return inner(rows) * 2

    return outer(x)


def calling_itself(x: torch.Tensor) -> Any:
    def again(rows: torch.Tensor, times: int) -> torch.Tensor:
        if times == 0:
            return rows
        total = rows[0] * 0
        for row in rows:
            total = total + row
        return again(rows + total, times - 1)

    return again(x, 3)


def decorated(x: torch.Tensor) -> Any:
    def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any) -> Any:
            return function(*args) * 2

        return run

    @doubled
    def total(rows: torch.Tensor) -> Any:
        return sum(row.sum() for row in rows)

    return total(x)


LOOPS = (
    InChunks(),
    scanned,
    variables_of_the_outer_function,
    functions_in_functions,
    calling_itself,
    decorated,
)


@CAPTURES
@pytest.mark.parametrize("model", LOOPS, ids=lambda model: getattr(model, "__name__", "InChunks"))
def test_loops_agree_at_other_sizes(model: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(model, SHAPES, ROWS, capture, tmp_path)


def branches(x: torch.Tensor) -> Any:
    def chosen(rows: torch.Tensor) -> torch.Tensor:
        if rows.sum() > 0:
            return rows * 2
        return rows - 1

    return chosen(x) + chosen(-x)


def loops_until(x: torch.Tensor) -> Any:
    def halved(rows: torch.Tensor) -> Any:
        times = 0
        while rows.abs().max() > 0.1 and times < 9:
            rows = rows / 2
            times += 1
        return rows, times

    return halved(x)


def flags(x: torch.Tensor) -> Any:
    def is_known(flag: Any) -> torch.Tensor:
        return x * 2 if flag is True else x

    return is_known(bool(x.sum() > 0))


@pytest.mark.parametrize("dynamic", [None, ROWS])
@pytest.mark.parametrize("function", [branches, loops_until, flags], ids=lambda function: function.__name__)
def test_data_decide(function: Callable[..., Any], dynamic: Any, tmp_path: pathlib.Path) -> None:
    generator = torch.Generator().manual_seed(0)
    of = [torch.randn(rows, 4, generator=generator) * scale for rows, scale in ((2, 1), (2, -3), (2, 0.01), (5, 2))]
    agrees_on(function, [*of, -of[0]], tmp_path, dynamic)


def test_the_code_of_the_outer_function_is_restored(tmp_path: pathlib.Path) -> None:
    code = InChunks.in_chunks.__code__
    agrees(InChunks(), SHAPES, ROWS, "export", tmp_path)
    assert InChunks.in_chunks.__code__ is code


def written_by_an_inner_function(x: torch.Tensor) -> Any:
    total = x.new_zeros(4)

    def add(row: torch.Tensor) -> None:
        nonlocal total
        total = total + row.abs()

    for row in x:
        add(row)
    return total


def test_variables_that_an_inner_function_assigns_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="goes through the axis"):
        opbridge.export(written_by_an_inner_function, (torch.rand(3, 4),), tmp_path / "m.onnx", dynamic_shapes=ROWS)
