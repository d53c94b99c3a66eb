"""Buffers that the steps of a loop and the ways of a branch change."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import onnx
import pytest
import torch
from dynamic_check import CAPTURES, agrees_without_warnings
from loops_check import DYNAMIC, SHAPES
from torch import nn

import opbridge
from opbridge.runtime import run, session


class Buffers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("rows", torch.zeros(3, 6))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for t in range(x.shape[0]):
            self.count += 1
            self.mean = self.mean + (x[t] - self.mean) / self.count
            self.rows[t % 3] = x[t]
        if x.sum() > 0:
            self.mean = self.mean * 0.5
        return x - self.mean + self.rows.sum(0)


def test_steps_and_ways_change_buffers(tmp_path: pathlib.Path) -> None:
    path, model = tmp_path / "model.onnx", Buffers()
    opbridge.export(
        copy.deepcopy(model),
        (torch.randn(4, 6),),
        path,
        dynamic_shapes=({0: "steps"},),
        mutations_as_outputs=True,
    )
    names = [each.name for each in onnx.load(path).graph.output]
    for count in (4, 1, 2, 7):
        torch.manual_seed(count)
        x, eager = torch.randn(count, 6), copy.deepcopy(model)
        want = {names[0]: eager(x)}
        want |= {"mean_out": eager.mean, "rows_out": eager.rows, "count_out": eager.count}
        got = dict(zip(names, run(session(path), {"x": x}), strict=True))
        torch.testing.assert_close(got, want)


class Neuron(nn.Module):
    """Keeps its membrane potential in a buffer without a size at first, as libraries of spiking networks do."""

    def __init__(self, resets: bool = True) -> None:
        super().__init__()
        self.resets = resets
        self.register_buffer("potential", torch.zeros(0), persistent=False)

    def reset(self) -> None:
        if self.resets:
            self.potential = torch.zeros_like(self.potential)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.potential.shape != x.shape:
            self.potential = torch.zeros_like(x)
        self.potential = self.potential * 0.9 + x - (self.potential > 1).float()
        return (self.potential > 1).float()


class Spiking(nn.Module):
    def __init__(self, resets: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.neurons = nn.ModuleList(Neuron(resets) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for each in self.neurons:
            each.reset()
        spikes = []
        for t in range(x.shape[1]):
            hidden = self.neurons[0](self.first(x[:, t]) * 3)
            spikes.append(self.neurons[1](self.second(hidden) * 3))
        return torch.stack(spikes, 1)


@CAPTURES
@pytest.mark.parametrize("has_run", [False, True])
def test_buffers_that_are_not_stored_may_be_assigned(has_run: bool, capture: Any, tmp_path: pathlib.Path) -> None:
    model = Spiking()
    if has_run:  # a buffer has the size of the last batch then
        with torch.no_grad():
            model(torch.randn(*SHAPES[0][0]))
    agrees_without_warnings(model, SHAPES, DYNAMIC, capture, tmp_path, torch.randn)


@CAPTURES
def test_refuses_what_buffers_keep_for_the_next_call(capture: Any, tmp_path: pathlib.Path) -> None:
    x = torch.randn(*SHAPES[0][0])
    with pytest.raises(opbridge.UnsupportedError, match=r"the model keeps .*potential' from one call"):
        opbridge.export(Spiking(resets=False), (x,), tmp_path / "model.onnx", capture=capture)
