"""Functions of ``math`` of sizes, of the numbers of loop steps and of data, and comparisons with infinity."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees, agrees_without_warnings

import opbridge

SHAPES = [[(3, 4)], [(1, 4)], [(7, 4)]]


def of_sizes(x: torch.Tensor) -> Any:
    n = x.shape[0]
    return x * math.sin(n) + math.cos(2 * math.pi / n), x * math.tanh(n / 10) - math.exp(-n)


def of_steps(x: torch.Tensor) -> Any:
    window = torch.tensor([0.5 - 0.5 * math.cos(2 * math.pi * i / x.shape[0]) for i in range(x.shape[0])])
    scaled = [row * math.sqrt(i) / math.log(i + 2) + math.exp(-i) for i, row in enumerate(x)]
    return x * window[:, None], torch.stack(scaled)


def of_positions(x: torch.Tensor) -> Any:
    """As of the Transformer, one number at a time."""
    length, width = x.shape
    encoding = torch.zeros(length, width)
    for position in range(length):
        for i in range(0, width, 2):
            encoding[position, i] = math.sin(position / 10000 ** (i / width))
            encoding[position, i + 1] = math.cos(position / 10000 ** (i / width))
    return x + encoding


def of_data(x: torch.Tensor) -> Any:
    total = x.sum().item()
    return x * math.exp(-total) + math.sqrt(abs(total)), math.log(x.sum()) * x, x * math.sin(x[0, 0])


def greatest_so_far(x: torch.Tensor) -> Any:
    best, place = -math.inf, 0
    for i in range(len(x)):
        value = x[i].sum().item()
        if value > best:
            best, place = value, i
    return x[place], place, x * best


def until_no_better(x: torch.Tensor) -> Any:
    best, worse = float("inf"), 0
    for row in x:
        loss = float((row - 0.5).abs().sum())
        if loss < best - 1e-3:
            best, worse = loss, 0
        else:
            worse += 1
            if worse >= 2:
                break
    return x * best, worse


def from_tensors(x: torch.Tensor) -> Any:
    best = torch.tensor(-math.inf)
    for row in x:
        if row.sum() > best:
            best = row.sum()
    return max(-math.inf, x.sum().item()) * x, best


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [of_sizes, of_steps, of_positions, of_data, greatest_so_far, until_no_better, from_tensors],
    ids=lambda function: function.__name__,
)
def test_agrees_at_other_sizes(function: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(function, SHAPES, ({0: "n"},), capture, tmp_path)


@pytest.mark.parametrize("value", [-math.inf, math.inf, math.nan, 1.0])
def test_data_that_are_infinite_too(value: float, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        least, steps = math.inf, 0
        for each in x:
            number = each.item()
            if number < least:
                least, steps = number, steps + 1
            elif number == math.inf or number <= -math.inf:
                steps += 10
        return torch.tensor(steps)

    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.rand(3),), path, dynamic_shapes=({0: "n"},))
    for x in (torch.tensor([value]), torch.tensor([0.5, value, 0.25, value])):
        assert opbridge.verify(path, model, (x,)).ok


def test_constantly_many_steps(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        before = math.inf
        for i in range(6):
            now = x.abs().max().item()
            if abs(before - now) < 0.05:
                return x, i
            before, x = now, x / 2
        return x, -1

    agrees(model, SHAPES, ({0: "n"},), "export", tmp_path)
