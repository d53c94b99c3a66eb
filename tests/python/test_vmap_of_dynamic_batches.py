"""torch.vmap over an axis of dynamic size: its rules must not read the size."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees
from torch.nn import functional as F

from opbridge.capture.rewrites.batch_rules import keep_batches_symbolic

Function = Callable[[torch.Tensor], torch.Tensor]
SIZES: Any = [[(3, 5, 8)], [(1, 5, 8)], [(4, 5, 8)]]
SCALE = torch.linspace(0.5, 1.5, 8)
LABELS = torch.tensor([1, 2, -100, 4, 0])
ROWS = torch.tensor([0, 2, 1, 0, 2])

FUNCTIONS: dict[str, Function] = {
    "adaptive_avg_pool": lambda row: F.adaptive_avg_pool1d(row[None], 2),
    "adaptive_max_pool": lambda row: F.adaptive_max_pool2d(row[None], 2),
    "attention": lambda row: F.scaled_dot_product_attention(row[None], row[None], row[None] * 2, is_causal=True),
    "avg_pool": lambda row: F.avg_pool1d(row, 2),
    "bicubic": lambda row: F.interpolate(row[None, None], scale_factor=2.0, mode="bicubic"),
    "cat": lambda row: torch.cat([row, SCALE.expand(2, 8), row.flip(0)]),
    "cat of the last axis": lambda row: torch.cat([row, row], -1),
    "conv": lambda row: F.conv1d(row.T[None], SCALE.expand(4, 2, 8)[..., :3], padding=1, groups=4),
    "conv_transpose": lambda row: F.conv_transpose1d(row.T[None], SCALE.expand(2, 8).T[..., None]),
    "cross_entropy": lambda row: F.cross_entropy(row, LABELS),
    "diagonal": lambda row: row.diagonal(1),
    "gather": lambda row: row.gather(0, ROWS[:, None].expand(5, 8)),
    "gelu": lambda row: F.gelu(row, approximate="tanh"),
    "glu": lambda row: F.glu(row),
    "grid_sample": lambda row: F.grid_sample(row[None, None], row[None, :, :2, None].expand(1, 5, 2, 2) - 0.5),
    "group_norm": lambda row: F.group_norm(row.T[None], 2, SCALE, SCALE),
    "index_add": lambda row: torch.zeros(3, 8).index_add(0, ROWS, row, alpha=2),
    "index_copy": lambda row: torch.zeros(5, 8).index_copy(0, torch.tensor([4, 2, 1, 0, 3]), row),
    "instance_norm": lambda row: F.instance_norm(row.T[None], weight=SCALE),
    "layer_norm": lambda row: F.layer_norm(row, (8,), SCALE, SCALE),
    "max_pool": lambda row: F.max_pool1d(row[None], 3, 2, padding=1),
    "nearest": lambda row: F.interpolate(row[None], size=11),
    "nll_loss": lambda row: F.nll_loss(row, LABELS, SCALE, reduction="sum") + F.nll_loss(row[0], LABELS[0]),
    "reflect": lambda row: F.pad(row[None], (2, 1), mode="reflect"),
    "replicate": lambda row: F.pad(row[None], (2, 1), mode="replicate"),
    "scatter": lambda row: torch.zeros(3, 8).scatter(0, ROWS[:1, None].expand(1, 8), row[:1]),
    "scatter_add": lambda row: torch.zeros(3, 8).scatter_add(0, ROWS[:, None].expand(5, 8), row),
    "solve": lambda row: torch.linalg.solve(row @ row.T + torch.eye(5), row),
    "solve of a vector": lambda row: torch.linalg.solve(row @ row.T + torch.eye(5), row[:, 0]),
    "unfold": lambda row: row.unfold(0, 3, 2),
}


GROUPS = pytest.mark.parametrize("names", [sorted(FUNCTIONS)[i::6] for i in range(6)], ids=" ".join)


@CAPTURES
@GROUPS
def test_functions(names: list[str], capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return [torch.vmap(FUNCTIONS[name])(x) for name in names]

    agrees(model, SIZES, ({0: "batch"},), capture, tmp_path)


@GROUPS
def test_gradients(names: list[str], tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        def gradient(function: Function) -> Function:
            return torch.func.grad(lambda row: function(row).sin().sum())

        return [torch.vmap(gradient(FUNCTIONS[name]))(x) for name in names]

    agrees(model, SIZES, ({0: "batch"},), "export", tmp_path)


@CAPTURES
def test_one_inside_another(capture: Any, tmp_path: pathlib.Path) -> None:
    """The inner batch is a constant, and so are the weights that differ along it."""
    weights = torch.randn(2, 3, 8)

    def model(x: torch.Tensor) -> torch.Tensor:
        def of_row(row: torch.Tensor) -> torch.Tensor:
            def with_weight(weight: torch.Tensor) -> torch.Tensor:
                return torch.cat([F.conv1d(row[None, :, None], weight[..., None]).flatten(), F.layer_norm(row, (8,))])

            return torch.vmap(with_weight)(weights)

        return torch.vmap(torch.vmap(of_row), in_dims=1, out_dims=1)(x)

    agrees(model, SIZES, ({0: "batch"},), capture, tmp_path)


def test_batches_of_another_argument(tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.vmap(lambda a, b: F.layer_norm(torch.cat([a, b], 1), (16,)), in_dims=(0, None))(x, y)

    sizes: Any = [[*each, (5, 8)] for each in SIZES]
    agrees(model, sizes, ({0: "batch"}, None), "export", tmp_path)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_rules_are_right_for_constant_sizes(name: str) -> None:
    """Other threads call them too while a capture runs."""

    def results() -> list[torch.Tensor]:
        rows = torch.linspace(-1, 1, 120).reshape(5, 3, 8)
        of_rows = torch.vmap(FUNCTIONS[name], in_dims=1)
        return [of_rows(rows), torch.vmap(of_rows)(torch.stack([rows, rows + 1]))]

    expected = results()
    with keep_batches_symbolic():
        torch.testing.assert_close(results(), expected)


def test_replacing_the_rules_warns_of_nothing(tmp_path: pathlib.Path) -> None:
    """In a process of its own, because torch 2.13 warns once."""
    script = """
import sys, torch, opbridge

def model(x):
    return torch.vmap(lambda row: torch.nn.functional.avg_pool1d(row, 2))(x)

opbridge.export(model, (torch.rand(3, 4, 4),), sys.argv[1], dynamic_shapes=({0: "n"},))
"""
    arguments = ["-W", "error::UserWarning", "-c", script, f"{tmp_path}/model.onnx"]
    subprocess.run([sys.executable, *arguments], check=True)
