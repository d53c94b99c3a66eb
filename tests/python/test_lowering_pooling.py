"""Pooling against PyTorch: strides, padding, divisors, unbatched input, ceil_mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from lowering_check import check

import opbridge

CASES: list[tuple[str, Any, tuple[int, ...]]] = [
    ("avg_pool1d", lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 3, 9)),
    ("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 9, 8)),
    ("avg_pool2d without padding counted", lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (2, 3, 9, 8)),
    ("avg_pool2d divisor", lambda x: F.avg_pool2d(x, 2, 2, 1, divisor_override=3), (2, 3, 8, 8)),
    ("avg_pool2d exact ceil", lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True), (2, 3, 8, 8)),
    ("avg_pool2d unbatched", lambda x: F.avg_pool2d(x, 2), (3, 8, 8)),
    ("avg_pool3d", lambda x: F.avg_pool3d(x, 2), (1, 2, 4, 4, 4)),
    ("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 9, 8)),
    ("max_pool2d ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (2, 3, 8, 8)),
    ("max_pool2d ceil, last window in the padding", lambda x: F.max_pool2d(x, 2, 3, 1, ceil_mode=True), (2, 3, 8, 8)),
    ("max_pool2d dilation", lambda x: F.max_pool2d(x, 2, 1, 0, 2), (2, 3, 8, 8)),
    ("adaptive", lambda x: F.adaptive_avg_pool2d(x, (2, 4)), (2, 3, 8, 8)),
    ("adaptive to one", lambda x: F.adaptive_avg_pool2d(x, 1), (3, 8, 8)),
]


class Model(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.parametrize(("function", "shape"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_pooling(tmp_path: Path, function: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    opbridge.export(Model(function), torch.randn(shape), tmp_path / "m.onnx", capture="trace", verify=True)


def test_what_onnx_computes_otherwise_is_refused(tmp_path: Path) -> None:
    # The last window may begin in the padding: that depends on the size.
    model = Model(lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True, return_indices=True))
    sizes = ({2: torch.export.Dim.DYNAMIC},)
    with pytest.raises(opbridge.UnsupportedError, match="exceeds the kernel's extent"):
        opbridge.export(model, torch.rand(1, 1, 8, 8), tmp_path / "m.onnx", dynamic_shapes=sizes)


def test_windows_of_dynamic_length() -> None:
    sizes = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    functions = {
        "mean": lambda x: F.avg_pool2d(x, x.shape[2:]),
        "mean of rows": lambda x: F.avg_pool2d(x, (2, x.shape[3]), stride=(1, 3), padding=(1, 0)),
        "mean of vectors": lambda x: F.avg_pool1d(x[:, :, 0, 1:], x.shape[3] - 1),
        "mean of volumes": lambda x: F.avg_pool3d(x, (2, *x.shape[2:]), 1),
        "maximum": lambda x: F.max_pool2d(x, kernel_size=x.shape[2:], ceil_mode=True),
        "maximum of columns": lambda x: F.max_pool2d(x, [x.shape[2], 2], padding=(0, 1)),
        "maximum of vectors": lambda x: F.max_pool1d(x.flatten(2), x.shape[2] * x.shape[3]),
        "maximum of volumes": lambda x: F.max_pool3d(x[:, :, None], (1, *x.shape[2:])),
    }
    check(functions, torch.randn(2, 3, 5, 6), dynamic=[sizes], also=[(torch.randn(1, 3, 7, 4),)])


def test_means_of_integers_whose_sum_wraps_around() -> None:
    x = torch.zeros(1, 1, 2, 2, dtype=torch.int64)
    x[..., 0, 0], x[..., 1, 1] = torch.iinfo(torch.int64).min, -5
    check(lambda x: F.avg_pool2d(x, 2), x)
