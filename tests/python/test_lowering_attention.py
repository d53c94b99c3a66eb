"""Attention with the sums of its rows."""

import pytest
import torch
from lowering_check import check

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


@pytest.mark.parametrize("opset", [13, 21])
def test_attention_and_its_sums(opset):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, length, 8) for length in (4, 4, 4))
    functions = {
        "plain": lambda q, k, v: flash(q, k, v),
        "causal": lambda q, k, v: flash(q, k, v, is_causal=True, scale=0.5),
        "mask": lambda q, k, v: flash(q, k, v, attn_mask=k[:, :, :, :4]),
    }
    check(functions, q, k, v, opset=opset, dynamic=({0: torch.export.Dim.DYNAMIC},) * 3, also=[(q[:1], k[:1], v[:1])])
