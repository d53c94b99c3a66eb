"""Integers of 8 and 16 bits wrap around, and compare with numbers beyond their range, as in PyTorch.

PyTorch evaluates an expression of them as int32; ONNX Runtime lacks most kernels for them.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from lowering_check import check

FUNCTIONS = {
    "add": lambda x: x + 100,
    "add, alpha": lambda x: torch.add(x, x, alpha=100),
    "rsub": lambda x: 100 - x,
    "mul": lambda x: x * 100,
    "square": lambda x: x.square(),
    "abs": lambda x: x.abs(),
    "abs of a difference": lambda x: (x - x.flip(0)).abs(),
    "pow": lambda x: x.pow(3),
    "pow of a tensor": lambda x: x.pow(x.abs()),
    "floor_divide": lambda x: x // 3,
    "remainder": lambda x: x.remainder(7),
    "remainder of a tensor": lambda x: x.remainder(x | 1),
    "fmod": lambda x: x.fmod(7),
    "div": lambda x: torch.div(x, 7, rounding_mode="trunc"),
    "gcd": lambda x: torch.gcd(x, x.flip(0)),
    "lcm": lambda x: torch.lcm(x, x.flip(0)),
    "shift": lambda x: x << 3,
    "shift by all bits": lambda x: x << 17,
    "shift right": lambda x: x >> 1,
    "not": lambda x: ~x,
    "clamp": lambda x: x.clamp(4, 90),
    "maximum": lambda x: torch.maximum(x, -x),
    "hardtanh": lambda x: F.hardtanh(x, -300, 300),
    "hardtanh near 0": lambda x: F.hardtanh(x, -2, 3),
    "threshold": lambda x: F.threshold(x, 2, 100),
    "relu6": F.relu6,
    "l1_loss": lambda x: F.l1_loss(x, x.flip(0), reduction="none"),
    "arange": lambda x: torch.arange(0, 300, 7).to(x.dtype) + x[:1],
    "arange beyond the type": lambda x: torch.arange(0, 300, dtype=torch.int8),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=3),
    "addr": lambda x: torch.addr(x[:, None].expand(-1, len(x)), x, x, alpha=3, beta=2),
    "addmm": lambda x: torch.addmm(x[:1, None], x[None], x[:, None], alpha=3, beta=2),
    "cross": lambda x: torch.linalg.cross(x[:3], x[1:4]),
    "kron": lambda x: torch.kron(x, x),
    "sum": lambda x: x.sum(dtype=x.dtype),
    "prod": lambda x: x.prod(dtype=x.dtype),
    "cumsum": lambda x: x.cumsum(0, dtype=x.dtype),
    "cumprod": lambda x: x.cumprod(0, dtype=x.dtype),
    "cummax": lambda x: x.cummax(0)[0],
    "cummin": lambda x: x.cummin(0)[0],
    "diff": lambda x: x.diff(),
    "trapezoid": lambda x: torch.trapezoid(x),
    "vander": lambda x: torch.vander(x, 4),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 0]), x[:2], alpha=3),
    "scatter prod": lambda x: x.scatter_reduce(0, torch.tensor([0, 0]), x[:2], "prod"),
    "scatter mean": lambda x: x.scatter_reduce(0, torch.tensor([0, 0]), x[:2], "mean"),
    "scatter amax": lambda x: x.scatter_reduce(0, torch.tensor([0, 0]), x[:2], "amax", include_self=False),
    "median": lambda x: x.median(),
    "mode": lambda x: x.mode()[0],
    "topk": lambda x: x.topk(3)[0],
    "isin": lambda x: torch.isin(x, torch.tensor([300, 3])),
    "heaviside": lambda x: torch.heaviside(x, x),
    "max_pool": lambda x: F.max_pool1d(x[None], 2),
    "count": lambda x: torch.bincount(x.abs() % 5),
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16])
def test_functions(dtype: torch.dtype) -> None:
    x = torch.tensor([-128, 127, 100, -77, 3, -1, 0, 64, 90, -90]).to(dtype)
    if dtype == torch.int16:
        x = torch.cat([x, torch.tensor([-32768, 32767, 300], dtype=dtype)])
    runs = {}
    for name, function in FUNCTIONS.items():
        try:
            function(x)
        except RuntimeError:  # PyTorch lacks the function for this type
            continue
        runs[name] = function
    assert len(runs) > 45
    check(runs, x)


def test_large_padding() -> None:
    check(lambda x: torch.constant_pad_nd(x, (1, 0), 2**60 + 1), torch.arange(3))
