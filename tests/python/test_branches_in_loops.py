"""Branches of the steps of a Python loop by the number of the step."""

from __future__ import annotations

import math
import pathlib
from collections import deque
from typing import Any

import onnx
import pytest
import torch
from dynamic_check import CAPTURES, agrees, agrees_without_warnings
from loops_check import DYNAMIC, SHAPES, Model, refuses, steps


def by_parity(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        h = h + x[:, t] if t % 2 == 0 else h - x[:, t]
    return h


def last_step(self: Any, x: torch.Tensor) -> Any:
    n, h, outputs = x.shape[1], torch.zeros(x.shape[0], 6), []
    for t in range(n):
        h = self.layers[0](x[:, t], h)
        if t == n - 1:
            h = h * 2
        outputs.append(h)
    return torch.stack(outputs, 1)


def whole_tests(self: Any, x: torch.Tensor) -> Any:
    n, h = x.shape[1], torch.zeros(x.shape[0], 6)
    for t in range(n):
        if t > 0 and t < n - 1:
            h = h + x[:, t]
        if t == 0 or t == n - 1:
            h = h * 2
        if not t % 3 and not self.training:
            h = h - 0.5
        if 0 < t < 4:
            h = h + x[:, 0]
        if t in (1, 3):
            h = h * 0.5
        if n > 4 and t > 2:
            h = h + 0.25
    return h


def one_item_each(self: Any, x: torch.Tensor) -> Any:
    outputs, reverse = [], []
    for t in range(x.shape[1]):
        if t % 3 == 1:
            outputs.append(x[:, t] * 2)
            reverse.insert(0, x[:, t])
        else:
            outputs.append(x[:, t] + 1)
            reverse.insert(0, -x[:, t])
    return torch.stack(outputs, 1), torch.stack(reverse, 1)


def written(self: Any, x: torch.Tensor) -> Any:
    out, rows, total = torch.zeros_like(x), x.clone(), torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        if t % 2 == 0:
            out[:, t] = rows.sum(1)
            total += x[:, t]
        elif t % 3 == 0:
            rows[:, t] *= 2
    return out, rows, total


def mask(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1]
    bias = torch.zeros(n, n)
    for i in range(n):
        for j in range(n):
            if j > i:
                bias[i, j] = float("-inf")
    return (x @ x.transpose(1, 2) + bias).softmax(-1) @ x


def expressions(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        decay, weight = 0.5 if t == 1 else 0.9, 3 if t % 2 == 0 else t
        h = h * decay + (x[:, t] if t % 3 else -x[:, t]) * weight
    return h


def comprehension(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([x[:, t] * 2 if t % 2 else x[:, t - 1 if t > 0 else 0] for t in range(x.shape[1])], 1)


def numbers(self: Any, x: torch.Tensor) -> Any:
    count = last = 0
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        is_even = False
        if t % 2 == 0:
            is_even = True
            count += 1
        if t % 3 == 0:
            last = t
        if not is_even:
            h = h + x[:, last] * count
    return h * count


def continued(self: Any, x: torch.Tensor) -> Any:
    h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        if t % 2 == 0:
            h = h + 1
            continue
        elif t == 3:
            h = h * 2
        else:
            h = h - 1
        h = h + x[:, t]
        if t == 5:
            continue
        h = h * 0.5
    return h


def containers(self: Any, x: torch.Tensor) -> Any:
    states = [torch.zeros(x.shape[0], 6) for _ in self.layers]
    kept = {"even": states[0], "odd": states[1]}
    for t in range(x.shape[1]):
        if t % 2 == 0:
            states[0] = self.layers[0](x[:, t], states[0])
            kept["even"] = kept["even"] + states[1]
        else:
            states[1] = self.layers[1](states[0], states[1])
            kept["odd"] = x[:, t]
    return torch.stack(states), kept["even"], kept["odd"]


def previous(self: Any, x: torch.Tensor) -> Any:
    before, outputs = None, []
    for t in range(x.shape[1]):
        now = x[:, t] * 2
        if before is not None:
            now = now + before
        if t % 4 != 3:
            before = now
        outputs.append(now)
    return torch.stack(outputs, 1)


def assigned_in_a_way(self: Any, x: torch.Tensor) -> Any:
    h, kept = torch.zeros(x.shape[0], 6), deque([x[:, 0]] * 3, maxlen=3)
    for t in range(x.shape[1]):
        y = x[:, t] * 2
        if t % 2 == 0:
            y = y + 1
            h = h + y
            kept.append(h)
    return h, *kept


def windows(self: Any, x: torch.Tensor) -> Any:
    means = []
    for t in range(x.shape[1]):
        window = x[:, : t + 1] if t < 3 else x[:, t - 3 : t + 1]
        means.append(window.mean(1))
    return torch.stack(means, 1)


def some_items(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        if t % 2 == 0:
            outputs.append(x[:, t])
    return torch.stack(outputs, 1)


RIGHT = (
    by_parity,
    last_step,
    whole_tests,
    one_item_each,
    written,
    mask,
    expressions,
    comprehension,
    numbers,
    continued,
    containers,
    previous,
    assigned_in_a_way,
    windows,
    some_items,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path, torch.randn)


def test_a_branch_is_an_if_in_the_step(tmp_path: pathlib.Path) -> None:
    model = agrees(Model(by_parity), SHAPES, DYNAMIC, "export", tmp_path)
    (scan,) = steps(model)
    assert "If" in {node.op_type for node in onnx.helper.get_attribute_value(scan.attribute[0]).node}


def read_by_another_name(self: Any, x: torch.Tensor) -> Any:
    out = torch.zeros_like(x)
    same = out
    for t in range(x.shape[1]):
        if t % 2 == 0:
            out[:, t] = x[:, t]
            out[:, 0] = same.sum(1)
    return out


def read_through_a_view(self: Any, x: torch.Tensor) -> Any:
    out = torch.zeros_like(x)
    rows = out.view(-1, 6)
    for t in range(x.shape[1]):
        if t % 2 == 0:
            out[:, t] = x[:, t] + rows.sum()
    return out


def dict_of_others(self: Any, x: torch.Tensor) -> Any:
    kept = {"h": torch.zeros(x.shape[0], 6)}
    same = kept
    for t in range(x.shape[1]):
        if t % 2 == 0:
            kept["h"] = kept["h"] + x[:, t]
    return same["h"]


def written_afterwards(self: Any, x: torch.Tensor) -> Any:
    x, h = x.clone(), torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        y = x[:, 0]
        if t % 2 == 0:
            y = x[:, t]
        y.add_(1)
        h = h + y
    return h, x


def kept_in_a_set(self: Any, x: torch.Tensor) -> Any:
    seen, h = set(), torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        if t % 2 == 0:
            seen.add("even")
        else:
            seen.add("odd")
        h = h + x[:, t]
    return h * len(seen)


def kept_in_a_dict(self: Any, x: torch.Tensor) -> Any:
    kept, h = {}, torch.zeros(x.shape[0], 6)

    def keep(kind: str) -> None:
        kept["last"] = kind

    for t in range(x.shape[1]):
        if t % 2 == 0:
            keep("even")
        else:
            keep("odd")
        h = h + x[:, t]
    return h * len(kept["last"])


REFUSED = (
    (read_by_another_name, "outside of the loop"),
    (read_through_a_view, "outside of the loop"),
    (dict_of_others, "outside of the loop"),
    (written_afterwards, "a branch or a loop returns unchanged"),
    (kept_in_a_set, "outside of the loop"),
    (kept_in_a_dict, "outside of the loop"),
)


@CAPTURES
@pytest.mark.parametrize(("run", "why"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_refuses_what_a_branch_of_a_graph_cannot_do(run: Any, why: str, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, why, capture, tmp_path)


def doubling_before_a_branch_by_data(self: Any, x: torch.Tensor) -> Any:
    for i in range(math.ceil(math.log2(x.shape[1]))):
        x = torch.cat([x[:, : 2**i], x[:, 2**i :] + x[:, : -(2**i)]], 1)
    return x * 2 if x.sum() > 1 else x


def half_before_a_branch_by_data(self: Any, x: torch.Tensor) -> Any:
    h = x[:, 0]
    for i in range(x.shape[1] // 2):
        h = h * 0.5 + x[:, i] + i
    if torch.arange(x.shape[1]).sum() > 30:
        h = h * 2
    return h


@CAPTURES
@pytest.mark.parametrize("run", [doubling_before_a_branch_by_data, half_before_a_branch_by_data])
def test_a_loop_before_a_branch_by_data(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(Model(run), SHAPES, DYNAMIC, capture, tmp_path)
