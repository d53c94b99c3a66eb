"""Products of groups of rows, as in a mixture of experts."""

from __future__ import annotations

import pathlib

import pytest
import torch
from lowering_check import check

import opbridge


def product(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten._grouped_mm(x, weight, ends)


# Before torch 2.15 there is no float32 kernel for the CPU.
on_newer_torch = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 15), reason="needs torch 2.15"
)


def rows(*sizes: int) -> torch.Tensor:
    return torch.tensor(sizes, dtype=torch.int32).cumsum(0).to(torch.int32)


@on_newer_torch
@pytest.mark.parametrize("opset", [13, 17, 21])
def test_groups_of_rows(opset: int) -> None:
    torch.manual_seed(0)
    x, weight = torch.rand(10, 8), torch.rand(4, 8, 16)
    others = [(x, weight, rows(0, 4, 0, 6)), (x, weight, rows(10, 0, 0, 0))]
    check(product, x, weight, rows(3, 0, 5, 2), opset=opset, also=others)


def test_groups_of_rows_of_a_type_that_loops_take_later(tmp_path: pathlib.Path) -> None:
    x, weight = torch.rand(3, 8, dtype=torch.bfloat16), torch.rand(1, 8, 8, dtype=torch.bfloat16)
    with pytest.raises(opbridge.UnsupportedError, match="opset_version=16"):
        opbridge.export(product, (x, weight, rows(3)), tmp_path / "model.onnx", capture="trace", opset_version=13)


@on_newer_torch
def test_dynamic_rows() -> None:
    torch.manual_seed(0)
    weight = torch.rand(2, 8, 16)
    other = torch.rand(12, 8), weight, rows(5, 7)
    check(product, torch.rand(8, 8), weight, rows(3, 5), dynamic=[{0: torch.export.Dim("rows")}, {}, {}], also=[other])


@on_newer_torch
def test_a_product_for_each_matrix() -> None:
    check(lambda x, y: torch.ops.aten._grouped_mm(x, y), torch.rand(3, 4, 8), torch.rand(3, 8, 16))


def test_the_mixture_of_transformers() -> None:
    moe = pytest.importorskip("transformers.integrations.moe")

    def fallback(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(x, weight, ends)

    assert moe
    x, weight = torch.rand(10, 8), torch.rand(4, 8, 16)
    also = [(x, weight, rows(1, 1, 1, 1)), (x, weight, rows(0, 0, 0, 0))]  # rows without a group are zero
    check(fallback, x, weight, rows(3, 0, 5, 2), also=also)
