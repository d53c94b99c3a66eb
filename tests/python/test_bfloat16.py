"""bfloat16, which many ONNX operators accept only from opset 22 on, and many kernels of ONNX Runtime do not support."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lowering_check import check

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "conv": lambda x: F.conv2d(x, torch.full((2, 4, 3, 3), 0.25, dtype=x.dtype), padding=1),
    "conv_transpose": lambda x: F.conv_transpose2d(x, torch.full((4, 2, 2, 2), 0.5, dtype=x.dtype), stride=2),
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"),
    "group_norm": lambda x: F.group_norm(x, 2),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "softmax": lambda x: x.softmax(-1),
    "gelu": F.gelu,
    "matmul": lambda x: x @ x.mT,
    "where": lambda x: torch.where(x > 0.5, x, -x),
    "cumsum": lambda x: x.cumsum(-1),
    "topk": lambda x: x.topk(2).values,
    "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "one value": lambda x: x.amax((2, 3)) + 1.5,
}


@pytest.mark.parametrize("opset", [17, 21])
def test_bfloat16(opset: int) -> None:
    torch.manual_seed(0)
    check(FUNCTIONS, torch.rand(2, 4, 6, 6, dtype=torch.bfloat16), opset=opset)
