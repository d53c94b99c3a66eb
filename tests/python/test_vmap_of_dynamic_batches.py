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
from torch import nn
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
    "affine_grid": lambda row: F.affine_grid(row[None, :2, :3], (1, 1, 4, 4)),
    "batch_norm": lambda row: F.batch_norm(row, None, None, SCALE, training=True),
    "batch_norm in evaluation": lambda row: F.batch_norm(row, SCALE - 0.4, SCALE, row[0], row[1]),
    "bilinear": lambda row: F.bilinear(row, row.flip(1), SCALE.expand(3, 8, 8)),
    "binary_cross_entropy": lambda row: F.binary_cross_entropy(row.sigmoid(), row.detach().sigmoid() / 2, SCALE),
    "block_diag": lambda row: torch.block_diag(row, SCALE[None]),
    "channel_shuffle": lambda row: F.channel_shuffle(row[None, :4], 2),
    "conv of other weights": lambda row: F.conv1d(SCALE.expand(1, 8, 8), row[:, :, None].expand(5, 8, 2), row[:, 0]),
    "conv of other weights and images": lambda row: F.conv2d(
        row[None, None], row[:1, None, :6].view(1, 1, 2, 3), stride=2
    ),
    "conv with another bias": lambda row: F.conv1d(row[None], SCALE.expand(3, 5, 8)[..., :3], row[0, :3]),
    "conv_transpose of other weights": lambda row: F.conv_transpose1d(row[None], row[:, None, :3], padding=1, stride=2),
    "cross": lambda row: torch.linalg.cross(row[:, :3], SCALE[:3].expand(5, 3)) + row[:, :3].cross(row[:, 3:6], dim=1),
    "diagonal_scatter": lambda row: row.diagonal_scatter(row[:, 0], 1),
    "diagflat": lambda row: torch.diagflat(row[0]),
    "embedding of other weights": lambda row: F.embedding(ROWS, row),
    "fold": lambda row: F.fold(F.unfold(row[None, None], 3, padding=1), (5, 8), 3, padding=1),
    "gru_cell": lambda row: torch.gru_cell(row, row[:, :2], SCALE.expand(6, 8), SCALE[:2].expand(6, 2)),
    "ihfftn": lambda row: torch.fft.ihfft2(row).abs(),
    "index_add of other indices": lambda row: torch.zeros(3, 8).index_add(0, _rows(row), row, alpha=2),
    "kl_div": lambda row: F.kl_div(row, SCALE.expand(5, 8)),
    "lu": lambda row: torch.linalg.lu(row @ row.T + torch.diag(SCALE[:5]))[2],
    "margin_ranking_loss": lambda row: F.margin_ranking_loss(row, SCALE.expand(5, 8), LABELS.sign()[:, None]),
    "masked_scatter": lambda row: row.masked_scatter(row > 0.5, row.flip(1)),
    "masked_scatter of a mask of other axes": lambda row: row.masked_scatter(row[0] < SCALE, SCALE.expand(5, 8)),
    "max_unpool": lambda row: F.max_unpool1d(*F.max_pool1d(row[None], 2, return_indices=True), 2),
    "nearest-exact": lambda row: F.interpolate(row[None, None], size=(3, 4), mode="nearest-exact"),
    "pixel_shuffle": lambda row: F.pixel_unshuffle(F.pixel_shuffle(row[:4].view(4, 2, 4), 2), 4),
    "quantile": lambda row: row.quantile(SCALE[:2] - 0.4, 0),
    "renorm": lambda row: row.renorm(2, 0, 1.5),
    "soft_margin_loss": lambda row: F.soft_margin_loss(row, LABELS.sign()[:, None].expand(5, 8)),
    "stft": lambda row: torch.stft(row, 4, 2, window=SCALE[:4], return_complex=True).abs(),
    "take": lambda row: row.take(ROWS + 5),
    "tensorsolve": lambda row: torch.linalg.tensorsolve((row @ row.T + torch.eye(5)), row[:, 0]),
    "triplet_margin_loss": lambda row: F.triplet_margin_loss(row, row.flip(0), row.flip(1)),
}
WITHOUT_GRADIENT: dict[str, Function] = {
    "index_copy of other indices": lambda row: torch.zeros(5, 8).index_copy(0, row[:, 0].argsort(), row),
    "isclose": lambda row: torch.isclose(row, SCALE, atol=0.3),
    "isin": lambda row: torch.isin(_rows(row), torch.tensor([1, 3])),
    "log_ndtr": lambda row: torch.special.log_ndtr(row),
    "multi_margin_loss": lambda row: F.multi_margin_loss(row, LABELS.clamp(min=0)),
    "multilabel_margin_loss": lambda row: F.multilabel_margin_loss(row, ROWS[:, None].expand(5, 8)),
    "polynomial": lambda row: torch.special.hermite_polynomial_h(row, ROWS[:, None]),
    "scatter of products": lambda row: SCALE.expand(3, 8).scatter(0, ROWS[:1, None].expand(1, 8), row, reduce="add"),
    "searchsorted": lambda row: torch.searchsorted(SCALE, row),
    "searchsorted in other boundaries": lambda row: torch.searchsorted(row[0].cumsum(0), row),
}


def _rows(row: torch.Tensor) -> torch.Tensor:
    return (row[:, 0].clamp(0, 0.99) * 3).long()


GROUPS = pytest.mark.parametrize("names", [sorted(FUNCTIONS)[i::12] for i in range(12)], ids=" ".join)
ALL = FUNCTIONS | WITHOUT_GRADIENT


@CAPTURES
@pytest.mark.parametrize("names", [sorted(ALL)[i::12] for i in range(12)], ids=" ".join)
def test_functions(names: list[str], capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return [torch.vmap(ALL[name])(x) for name in names]

    agrees(model, SIZES, ({0: "batch"},), capture, tmp_path)


@GROUPS
def test_gradients(names: list[str], tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        def gradient(function: Function) -> Function:
            return torch.func.grad(lambda row: function(row).sin().sum())

        return [torch.vmap(gradient(FUNCTIONS[name]))(x) for name in names]

    agrees(model, SIZES, ({0: "batch"},), "export", tmp_path)


IN_PLACE: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    lambda x, row: x.addmm_(row[:, :5], row).clamp_(0.2, 1.5).lerp_(row, 0.3).lerp_(row, row),
    lambda x, row: x.addcmul_(row, row, value=2).addcdiv_(row, SCALE).tril_(1).cumsum_(1),
    lambda x, row: x.scatter_(0, ROWS[:2, None].expand(2, 8), row[:2]).scatter_(1, ROWS[:, None], 2.0),
    lambda x, row: x.scatter_add_(0, ROWS[:, None].expand(5, 8), row).index_add_(0, ROWS, row, alpha=3),
    lambda x, row: x.index_copy_(0, ROWS[:2], row[:2]).masked_scatter_(row > 0.5, row).put_(ROWS, row[:, 0].sort()[0]),
    lambda x, row: x.gt_(row).add_(row).le_(0.5).add_(row.fmod_(0.3)).pow_(row).remainder_(row + 0.1),
]


@CAPTURES
def test_operators_in_place(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return [torch.vmap(lambda row, write=write: write(row.sin(), row * 0.5))(x) for write in IN_PLACE]

    agrees(model, SIZES, ({0: "batch"},), capture, tmp_path)


# A layer, and its inputs.
LAYERS: dict[str, tuple[nn.Module, Function]] = {
    "attention": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), lambda row: row[None]),
    "batch_norm": (nn.BatchNorm1d(5, track_running_stats=False), lambda row: row[None]),
    "batch_norm in evaluation": (nn.BatchNorm1d(5), lambda row: row[None]),
    "conv1d": (nn.Conv1d(5, 4, 3, padding=1, stride=2), lambda row: row[None]),
    "conv2d": (nn.Conv2d(5, 10, (1, 3), dilation=(1, 2), groups=5), lambda row: row[None, :, None]),
    "conv3d": (nn.Conv3d(1, 2, 2), lambda row: row[:4].reshape(1, 1, 4, 2, 4)),
    "conv_transpose": (nn.ConvTranspose2d(1, 2, 2, padding=1, dilation=2), lambda row: row[None, None]),
    "embedding": (nn.Embedding(9, 3, padding_idx=2), lambda row: row.detach().mul(8).long()),
    "group_norm": (nn.GroupNorm(2, 10), lambda row: row.reshape(1, 10, 4)),
    "layer_norm": (nn.LayerNorm(8), lambda row: row),
}


@pytest.mark.parametrize("names", [sorted(LAYERS)[i::3] for i in range(3)], ids=" ".join)
def test_gradients_by_weights_for_each_sample(names: list[str], tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> Any:
        return [torch.vmap(torch.func.grad(loss_of(name), (0, 1)), (None, 0))(weights_of[name], x) for name in names]

    def loss_of(name: str) -> Callable[..., torch.Tensor]:
        layer, prepare = LAYERS[name]

        def loss(weights: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
            return torch.func.functional_call(layer, weights, (prepare(row),)).sin().sum()

        return loss

    weights_of = {name: dict(LAYERS[name][0].eval().named_parameters()) for name in names}
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


@pytest.mark.parametrize("name", ALL)
def test_the_rules_are_right_for_constant_sizes(name: str) -> None:
    """Other threads call them too while a capture runs."""

    def results() -> list[torch.Tensor]:
        rows = torch.linspace(-1, 1, 120).reshape(5, 3, 8)
        of_rows = torch.vmap(ALL[name], in_dims=1)
        return [of_rows(rows), torch.vmap(of_rows)(torch.stack([rows, rows + 1]))]

    expected = results()
    with keep_batches_symbolic():
        torch.testing.assert_close(results(), expected)


@pytest.mark.parametrize("solve", [torch.linalg.ldl_solve, torch.linalg.lu_solve])
def test_a_sample_of_several_systems_with_one_matrix(solve: Any) -> None:
    """There are as many of both as samples, so that a batch could be taken for the other."""
    factor = torch.linalg.ldl_factor if solve is torch.linalg.ldl_solve else torch.linalg.lu_factor
    factors, pivots = factor(torch.randn(3, 4, 4) + 9 * torch.eye(4))
    right_sides = torch.randn(3, 3, 4, 2)
    expected = torch.vmap(solve)(factors, pivots, right_sides)
    with keep_batches_symbolic():
        torch.testing.assert_close(torch.vmap(solve)(factors, pivots, right_sides), expected)


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
