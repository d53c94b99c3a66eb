"""Shuffles of channels and pixels."""

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

FUNCTIONS = {
    "channel_shuffle": lambda x: F.channel_shuffle(x, 3),
    "native_channel_shuffle": lambda x: torch.native_channel_shuffle(x, 2),
    "of rows": lambda x: F.channel_shuffle(x[:, :, 0], 4),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "without batch": lambda x: F.pixel_shuffle(x[0], 2),
    "two batch dims": lambda x: F.pixel_shuffle(x.unsqueeze(0), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "pixel_unshuffle without batch": lambda x: F.pixel_unshuffle(x[0], 2),
}


@pytest.mark.parametrize("opset", [13, 21])
def test_dynamic(opset):
    dynamic = torch.export.Dim.DYNAMIC
    check(
        {
            name: f for name, f in FUNCTIONS.items() if name != "native_channel_shuffle"
        },  # torch treats its sizes as constants
        torch.randn(2, 12, 4, 6),
        opset=opset,
        dynamic=({0: dynamic, 2: 2 * torch.export.Dim("h", min=1, max=9)},),
        also=[(torch.randn(3, 12, 2, 6),)],
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.bfloat16, torch.float64])
def test_dtypes(dtype):
    check(FUNCTIONS, torch.randint(0, 2, (1, 12, 4, 2)).to(dtype))
