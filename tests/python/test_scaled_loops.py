"""Loops whose steps multiply or divide a number, as parallel scans do, become nodes with a body."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees_without_warnings
from loops_check import DYNAMIC, Model, refuses

SHAPES = [[(2, size, 6)] for size in (7, 1, 2, 3, 4, 5, 8, 9, 17, 64, 65)]


def inclusive_scan(self: Any, x: torch.Tensor) -> Any:
    d, n = 1, x.shape[1]
    while d < n:
        x = x + F.pad(x[:, :-d], (0, 0, d, 0))
        d *= 2
    return x


def linear_recurrence(self: Any, x: torch.Tensor) -> Any:
    decay, n, d = torch.sigmoid(x), x.shape[1], 1
    while d < n:
        x = torch.cat([x[:, :d], x[:, d:] + decay[:, d:] * x[:, :-d]], 1)
        decay = torch.cat([decay[:, :d], decay[:, d:] * decay[:, :-d]], 1)
        d = d * 2
    return x


def of_what_steps_assign(self: Any, x: torch.Tensor) -> Any:
    d = 1
    while d < x.shape[1]:
        x = x + F.pad(x[:, :-d], (0, 0, d, 0))
        d <<= 1
    return x, d


def rolled(self: Any, x: torch.Tensor) -> Any:
    n, d = x.size(1), 1
    while 2 * d <= n:
        x = x + torch.roll(x, d, 1) * (-1) ** d
        d = 2 * d
    return x * d


def next_power(self: Any, x: torch.Tensor) -> Any:
    size = 1
    while size < x.shape[1]:
        size *= 2
    return F.pad(x, (0, 0, 0, size - x.shape[1])), torch.fft.rfft(x, n=size, dim=1).abs()


def by_threes(self: Any, x: torch.Tensor) -> Any:
    rows, d = [x[:, 0]], 1
    while x.shape[1] - d > 0:
        rows.append(x[:, d])
        d *= 3
    return torch.stack(rows, 1)


def halves(self: Any, x: torch.Tensor) -> Any:
    h, n, steps = x, x.shape[1], 0
    while n > 1:
        h = h + x[:, :n].sum(1, keepdim=True)
        n //= 2
        steps += 1
    return h, n, steps


def butterfly(self: Any, x: torch.Tensor) -> Any:
    step = x.shape[1] // 2
    while step >= 1:
        x = torch.cat([x[:, :step] + x[:, -step:], x[:, step:]], 1)
        step >>= 1
    return x


def until_nothing_is_left(self: Any, x: torch.Tensor) -> Any:
    step, left = x.shape[1] // 2, x.shape[1]
    while step:
        x = x + torch.roll(x, step, 1)
        step //= 2
    while left != 0:
        x = x * 0.9 + left
        left -= 1
    return x, step, left


def beside_sets_and_lists(self: Any, x: torch.Tensor) -> Any:
    left, gone, d = {1, 2, 3}, {2}, 1
    while left:
        x = x + len(left)
        left -= gone
        gone = {*left}
    while d < x.shape[1]:
        x = x + d
        d *= 2
    return x


def of_less_than_nothing(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1] - 4
    while n > 0:
        x = x + 1
        n //= 2
    return x, n


def written(self: Any, x: torch.Tensor) -> Any:
    x, n, d = x.clone(), x.shape[1], 1
    while d < n:
        x[:, d:] += x[:, :-d].clone()
        d *= 2
    else:
        x = x - 1
    return x


def nested(self: Any, x: torch.Tensor) -> Any:
    sums, n, d = torch.zeros(x.shape[0], 6), x.shape[1], 1
    while d < n:
        for t in range(d, n):
            sums = torch.tanh(sums + x[:, t] * d)
        d *= 2
    return sums


def by_logarithm(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1]
    for i in range(math.ceil(math.log2(n))):
        x = x + F.pad(x[:, : -(2**i)], (0, 0, 2**i, 0))
    for i in range(int(math.log2(n))):
        d = 1 << i
        x = x + F.pad(x[:, : n - d], (0, 0, d, 0))
    return x


def counts(self: Any, x: torch.Tensor) -> Any:
    t = 0
    while t < x.shape[1]:
        x = torch.tanh(x + x[:, t : t + 1])
        t += 1
    return x


RIGHT = (
    inclusive_scan,
    linear_recurrence,
    of_what_steps_assign,
    rolled,
    next_power,
    by_threes,
    halves,
    butterfly,
    until_nothing_is_left,
    beside_sets_and_lists,
    of_less_than_nothing,
    written,
    nested,
    by_logarithm,
    counts,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    model = agrees_without_warnings(Model(run), SHAPES, DYNAMIC, capture, tmp_path)
    loops = {"Loop", "Scan"}
    nodes = [*model.graph.node, *(n for node in model.graph.node for way in node.attribute for n in way.g.node)]
    assert loops.intersection(node.op_type for node in nodes) or run is next_power


def grows(self: Any, x: torch.Tensor) -> Any:
    t = 0
    while t < x.shape[1]:
        x = torch.cat([x, x[:, :1]], 1)
        t += 2
    return x


def shrinks(self: Any, x: torch.Tensor) -> Any:
    d = 1
    while d < x.shape[1]:
        x = x[:, :-1] * 2
        d *= 2
    return x


@CAPTURES
@pytest.mark.parametrize(("run", "why"), [(grows, "steps change a shape"), (shrinks, "change something besides")])
def test_refuses_a_bound_that_steps_change(run: Any, why: str, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, why, capture, tmp_path)
