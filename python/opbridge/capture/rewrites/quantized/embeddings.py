"""Embeddings with a scale per row: rows of integers are gathered, then dequantized."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from opbridge.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Table:
    """Stands for the packed weights of an embedding: ``integers * scale + shift``, a scale and a shift for each row."""

    integers: torch.Tensor
    scale: torch.Tensor
    shift: torch.Tensor

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        integers, scale, shift = (
            functional.embedding(indices, part) for part in (self.integers, self.scale, self.shift)
        )
        return integers.to(torch.float32) * scale + shift


def table_of(weight: torch.Tensor) -> Table:
    integers = weight.int_repr()
    scale = weight.q_per_channel_scales().to(torch.float32)[:, None]
    shift = -weight.q_per_channel_zero_points().to(torch.float32)[:, None] * scale
    if weight.dtype == torch.quint4x2:  # two numbers are packed in a byte, and the scales are rounded
        integers = torch.stack((integers & 15, integers >> 4), -1).flatten()[: weight.numel()].reshape(weight.shape)
        scale, shift = scale.half().to(torch.float32), shift.half().to(torch.float32)
    return Table(integers, scale, shift)


def _embedding(table: Table, indices: torch.Tensor, pruned_weights: bool = False) -> torch.Tensor:
    if pruned_weights:
        raise UnsupportedError("a quantized embedding of pruned weights is not supported; use one of all rows")
    return table.rows(indices)


def _bag(
    table: Table,
    indices: torch.Tensor,
    offsets: torch.Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    pruned_weights: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    compressed_indices_mapping: torch.Tensor | None = None,
    include_last_offset: bool = False,
) -> torch.Tensor:
    """PyTorch adds the rows up in every mode."""
    if pruned_weights or compressed_indices_mapping is not None:
        raise UnsupportedError("a quantized embedding of pruned weights is not supported; use one of all rows")
    rows = table.rows(indices)
    if indices.dim() == 2:
        weighted = rows if per_sample_weights is None else rows * per_sample_weights.reshape(indices.shape)[..., None]
        return weighted.sum(1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    each = torch.arange(rows.shape[0], device=rows.device)
    return functional.embedding_bag(each, rows, offsets, mode="sum", include_last_offset=include_last_offset)


EMBEDDINGS: dict[str, Callable[..., Any]] = {
    "embedding_byte": _embedding,
    "embedding_4bit": _embedding,
    "embedding_bag_byte": _bag,
    "embedding_bag_4bit": _bag,
}
