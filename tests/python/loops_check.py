"""What the tests of Python loops over an axis of dynamic size share."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import opbridge

SHAPES = [[(2, 7, 6)], [(1, 1, 6)], [(3, 2, 6)], [(3, 12, 6)]]
DYNAMIC = ({0: "batch", 1: "steps"},)


class Model(nn.Module):
    def __init__(self, run: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.run = run
        self.cell = nn.GRUCell(6, 6)
        self.lstm = nn.LSTMCell(6, 5)
        self.layers = nn.ModuleList(nn.GRUCell(6, 6) for _ in range(2))
        self.linear = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


def steps(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The nodes of the loops outside of loops. A loop of dynamic length is in an If, since there may be no steps."""

    def loops(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
        found = []
        for node in graph.node:
            if node.op_type in ("Scan", "Loop"):
                found.append(node)
            elif node.op_type == "If":
                found += [each for way in node.attribute for each in loops(way.g)]
        return found

    return loops(model.graph)


def refuses(run: Callable[[Any, torch.Tensor], Any], why: str, capture: Any, folder: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=why):
        opbridge.export(
            Model(run), (torch.randn(2, 7, 6),), folder / "model.onnx", dynamic_shapes=DYNAMIC, capture=capture
        )
