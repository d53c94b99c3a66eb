"""Slices in the steps of Python loops over a dynamic axis, of which a step's number is the start."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees
from loops_check import DYNAMIC, SHAPES, Model
from torch.nn import functional

from opbridge.capture.symbolic_sizes.bounds import is_never_negative, note_step
from opbridge.torch_compat.symbols import ShapeEnv


def column(self: Any, x: torch.Tensor) -> Any:
    h, outputs = torch.zeros(x.size(0), 1, 6), []
    for t in range(x.size(1)):
        h = torch.tanh(self.linear(x[:, t : t + 1]) + h)
        outputs.append(h)
    return torch.cat(outputs, 1), h


def column_without_its_axis(self: Any, x: torch.Tensor) -> Any:
    h, outputs = torch.zeros(x.size(0), 6), []
    for t in range(x.size(1)):
        h = self.cell(x[:, t : t + 1, :].squeeze(1) * x.narrow(1, t, 1)[:, 0], h)
        outputs.append(h[:, None])
    return torch.cat(outputs, dim=1)


def column_before(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, :1]]
    for t in range(1, x.size(1)):
        outputs.append(x[:, t : t + 1] - x[:, t - 1 : t] * x[:, :1])
    return torch.cat(outputs, 1)


def backwards(self: Any, x: torch.Tensor) -> Any:
    h, n = x[:, :1] * 0, x.size(1)
    for t in range(n - 1, -1, -1):
        h = h * 0.5 + x[:, t : t + 1] * x[:, n - 1 - t : n - t]
    return h


def every_second(self: Any, x: torch.Tensor) -> Any:
    h, n = x[:, :1] * 0, x.size(1)
    for t in range(0, n, 2):
        h = h * 0.5 + x[:, t : t + 1]
    for t in range(n // 2):
        h = h * 0.5 + x[:, 2 * t : 2 * t + 2].mean(1, keepdim=True) - x[:, n // 2 + t : n // 2 + t + 1]
    return h


def chunks(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.size(0), 3, 6)
    for i in range(x.size(1) // 3):
        h = h * 0.5 + x[:, i * 3 : (i + 1) * 3]
    return h


def windows(self: Any, x: torch.Tensor) -> Any:
    h, padded = torch.zeros(x.size(0), 3, 6), functional.pad(x, (0, 0, 2, 0))
    for t in range(x.size(1) - 2):
        h = h * 0.5 + x[:, t : t + 3]
    for t in range(x.size(1)):
        h = h * 0.5 + padded[:, t : t + 3]
    return h


def the_shorter_of_both(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(1, 1, 6)
    for t in range(min(x.size(0), x.size(1))):
        h = h * 0.5 + x[t : t + 1, t : t + 1]
    return h


def rows_of_both_axes(self: Any, x: torch.Tensor) -> Any:
    rows, h = x.reshape(-1, 6), torch.zeros(1, 6)
    for t in range(rows.size(0)):
        h = h * 0.5 + rows[t : t + 1]
    return h


def loop_in_a_loop(self: Any, x: torch.Tensor) -> Any:
    h = x[:, :1] * 0
    for i in range(x.size(1)):
        for j in range(i):
            h = h * 0.5 + x[:, i : i + 1] * x[:, j : j + 1]
    return h


def written(self: Any, x: torch.Tensor) -> Any:
    result, h = torch.zeros_like(x), torch.zeros(x.size(0), 1, 6)
    for t in range(x.size(1)):
        h = torch.tanh(x[:, t : t + 1] + h)
        result[:, t : t + 1] = h
    for t in range(x.size(1) - 1):
        result[:, t : t + 2] += x[:, t : t + 2]
    return result


def prediction(self: Any, x: torch.Tensor) -> Any:
    loss = torch.zeros(())
    for t in range(x.size(1) - 1):
        loss = loss + functional.mse_loss(self.linear(x[:, t : t + 1]), x[:, t + 1 : t + 2])
    return loss


def of_varying_length(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.size(0), 6)
    for t in range(x.size(1)):
        h = h * 0.5 + x[:, t - 1 : t + 1].sum(1) - x[:, t + 1 : t + 2].sum(1) * x[:, -t - 1 :].sum(1)
    for t in range(0, x.size(1), 2):
        h = h * 0.5 + x[:, t : t + 2].sum(1) * x[: t + 1].sum((0, 1))
    return h


@CAPTURES
@pytest.mark.parametrize(
    "run",
    [
        column,
        column_without_its_axis,
        column_before,
        backwards,
        every_second,
        chunks,
        windows,
        the_shorter_of_both,
        rows_of_both_axes,
        loop_in_a_loop,
        written,
        prediction,
        of_varying_length,
    ],
    ids=lambda run: run.__name__,
)
def test_agrees_at_other_sizes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path, torch.randn)


def test_a_step_is_below_the_number_of_steps() -> None:
    env = ShapeEnv()
    n, m, t = (env.create_unbacked_symint() for _ in range(3))
    for each in (n, m, t):
        torch._check(each >= 0)
    assert not is_never_negative(n - t - 1)
    note_step(t, n)
    for number in (n - t - 1, 3 * (n // 2) - 3 * (t // 2), n + m - t - 1, 2 * n - t - 1):
        assert is_never_negative(number)
    for number in (n - t - 2, m - t - 1, n // 2 - t, t - 1, n - 2 * t - 1, t - n + 1, -t, n * m - t - 1, n - 2):
        assert not is_never_negative(number)


def test_where_there_is_a_step_the_maximum_of_a_number_and_none_is_the_number() -> None:
    env = ShapeEnv()
    n, t, other = (env.create_unbacked_symint() for _ in range(3))
    for each in (n, t, other):
        torch._check(each >= 0)
    note_step(t, torch.sym_max(n - 2, 0))
    assert is_never_negative(n - t - 3)
    assert not is_never_negative(n - t - 4)
    note_step(other, torch.sym_max(n - 2, 1))
    assert not is_never_negative(n - other - 3)
