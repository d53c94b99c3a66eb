"""Python's ``while`` loops that count to a bound of dynamic size, which become nodes with a body."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import onnx
import pytest
import torch
from dynamic_check import CAPTURES, agrees
from loops_check import DYNAMIC, SHAPES, Model, refuses

import opbridge


def cells(self: Any, x: torch.Tensor) -> Any:
    h, outputs, t = torch.zeros(x.size(0), 6), [], 0
    while t < x.size(1):
        h = self.cell(x[:, t], h)
        outputs.append(h)
        t += 1
    return torch.stack(outputs, 1), h * t


def downwards(self: Any, x: torch.Tensor) -> Any:
    h, t = torch.zeros(x.size(0), 6), x.shape[1] - 1
    while t >= 0:
        h = torch.tanh(h + x[:, t])
        t = t - 1
    return h + t


def windows(self: Any, x: torch.Tensor) -> Any:
    sums, start, size, n = x.new_zeros(x.size(0), 6), 0, 1, x.shape[1]
    while start + size <= n:
        sums = sums * 0.5 + x[:, start : start + size].sum(1)
        start += 2
    else:
        sums = sums - start
    return sums


def counted_first(self: Any, x: torch.Tensor) -> Any:
    h, t = torch.zeros(x.size(0), 6), -1
    while len(x[0]) - 1 > t:
        t += 1
        if t % 2:
            continue
        h = torch.tanh(h + x[:, t])
    return h


def written(self: Any, x: torch.Tensor) -> Any:
    out, i = x.clone(), 1
    while i < out.shape[1]:
        out[:, i] += out[:, i - 1] * 0.5
        i += 1
    return out


def nested(self: Any, x: torch.Tensor) -> Any:
    i, sums, n = 0, torch.zeros(x.shape[0]), x.shape[1]
    while i < n:
        j = i
        while j < n:
            sums = sums + (x[:, i] * x[:, j]).sum(-1) * (j - i)
            j += 1
        i += 1
    return sums


def by_a_stride(self: Any, x: torch.Tensor) -> Any:
    h, t, stride = x[:, 0], 1, len(self.layers)
    while t < x.shape[1]:
        h = h * 0.5 + x[:, t]
        t += stride
    return h, torch.tensor(t)


def counts_a_tensor(self: Any, x: torch.Tensor) -> Any:
    t, h = torch.zeros(()), x[:, 0]
    while t < x.shape[1]:
        h = h + t
        t = t + 1
    for i in range(x.shape[1]):
        h = h + x[:, i]
    return h


RIGHT = (cells, downwards, windows, counted_first, written, nested, by_a_stride, counts_a_tensor)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    model = agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path)
    assert 'op_type: "Scan"' in str(model.graph)


def test_constant_sizes_are_unrolled(tmp_path: pathlib.Path) -> None:
    opbridge.export(Model(cells), (torch.randn(2, 7, 6),), tmp_path / "model.onnx")
    assert "Scan" not in {node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node}


def bound_changes(self: Any, x: torch.Tensor) -> Any:
    t, n = 0, x.shape[1]
    while t < n:
        x = x + t
        n -= 1
        t += 1
    return x


def step_changes(self: Any, x: torch.Tensor) -> Any:
    t, step = 0, 1
    while t < x.shape[1]:
        x = x + t
        t += step
        step = 2
    return x


def counts_in_one_way(self: Any, x: torch.Tensor) -> Any:
    t, k = 0, 0
    while t < x.shape[1]:
        x = x + k
        k += 1
        if k % 2:
            t += 1
    return x


@CAPTURES
@pytest.mark.parametrize("run", [bound_changes, step_changes])
def test_other_loops_are_no_nodes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        opbridge.export(
            Model(run), (torch.randn(2, 7, 6),), tmp_path / "model.onnx", dynamic_shapes=DYNAMIC, capture=capture
        )
    assert any("a branch by a dynamic size" in str(each.message) for each in told)
    assert 'op_type: "Scan"' not in str(onnx.load(tmp_path / "model.onnx").graph)


@CAPTURES
@pytest.mark.parametrize(
    ("run", "why"),
    [(counts_in_one_way, "fixes it to 7")],
)
def test_refuses_other_counts(run: Any, why: str, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, why, capture, tmp_path)
