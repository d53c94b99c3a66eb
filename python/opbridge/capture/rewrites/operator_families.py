"""Operators of one kind, for which the rewrites do the same."""

from __future__ import annotations

PADS = tuple(f"aten::{mode}_pad{rank}d" for mode in ("reflection", "replication") for rank in (1, 2, 3))
POOLS = ("aten::avg_pool2d", "aten::avg_pool3d", "aten::_adaptive_avg_pool2d", "aten::_adaptive_avg_pool3d")
MAX_POOLS = ("aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices")
ADAPTIVE_MAX_POOLS = ("aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
UPSAMPLES = (
    *(f"{mode}{rank}d" for mode in ("aten::upsample_nearest", "aten::_upsample_nearest_exact") for rank in (1, 2, 3)),
    *("aten::upsample_linear1d", "aten::upsample_bilinear2d", "aten::upsample_bicubic2d", "aten::upsample_trilinear3d"),
    *("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa"),
)
LOSSES = ("aten::mse_loss", "aten::huber_loss", "aten::smooth_l1_loss")


def backward(*families: tuple[str, ...]) -> tuple[str, ...]:
    """The operators that compute the derivatives of those of the families."""
    return tuple(f"{name}_backward" for family in families for name in family)
