"""Scenario 2: a TORCH_LIBRARY operator, `torchvision.ops.DeformConv2d`: with a user's symbolic, and bundled."""

from __future__ import annotations

from typing import Any

import onnxruntime
import torch
import torchvision
from scenario import Row, check, table

import opbridge


# --8<-- [start:model]
class Model(torch.nn.Module):
    """Deformable convolution whose offsets, and optionally mask, come from ordinary convolutions."""

    def __init__(self, channels: int = 3, masked: bool = False, offset_groups: int = 1, **options: Any) -> None:
        super().__init__()
        stride, dilation = options.get("stride", 1), options.get("dilation", 1)
        self.offset = torch.nn.Conv2d(channels, 18 * offset_groups, 3, stride=stride, dilation=dilation)
        self.mask = (
            torch.nn.Conv2d(channels, 9 * offset_groups, 3, stride=stride, dilation=dilation) if masked else None
        )
        self.deform = torchvision.ops.DeformConv2d(channels, channels, 3, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.sigmoid(self.mask(x)) if self.mask is not None else None
        return self.deform(x, self.offset(x), mask)


# --8<-- [end:model]


# --8<-- [start:symbolic]
@opbridge.parse_args("v", "v", "v", "v", "v", "i", "i", "i", "i", "i", "i", "i", "i", "b")
def deform_conv2d(
    g: Any, input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: int, stride_w: int, pad_h: int,
    pad_w: int, dil_h: int, dil_w: int, n_weight_grps: int, n_offset_grps: int, use_mask: bool,
) -> Any:  # fmt: skip
    return g.op(
        "custom::deform_conv2d", input, weight, offset, mask if use_mask else None, bias,
        stride_h_i=stride_h, stride_w_i=stride_w, pad_h_i=pad_h, pad_w_i=pad_w, dilation_h_i=dil_h, dilation_w_i=dil_w,
        groups_i=n_weight_grps, offset_groups_i=n_offset_grps, use_mask_i=use_mask,
    )  # fmt: skip


# --8<-- [end:symbolic]


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "with mask": {"masked": True},
    "groups": {"channels": 4, "groups": 2},
    "offset groups, mask": {"channels": 4, "offset_groups": 2, "masked": True},
    "stride and dilation": {"stride": 2, "dilation": 2},
}


# ONNX Runtime has a CPU kernel for it in releases after 1.23.
RUNTIME_HAS_DEFORM_CONV = tuple(map(int, onnxruntime.__version__.split(".")[:2])) > (1, 23)


def rows() -> list[Row]:
    result = []
    for name, options in VARIANTS.items():
        torch.manual_seed(0)
        model = Model(**options).eval()
        x = (torch.rand(1, options.get("channels", 3), 12, 12),)
        opbridge.register_custom_op_symbolic("torchvision::deform_conv2d", deform_conv2d, 9)
        result.append(check(f"DeformConv2d, {name}: own kernel", "mapping, runtime", model, x, opset_version=13))
        opbridge.unregister_custom_op_symbolic("torchvision::deform_conv2d", 9)
        if RUNTIME_HAS_DEFORM_CONV:
            result.append(check(f"DeformConv2d, {name}: bundled", "mapping", model, x, opset_version=19))
    return result


if __name__ == "__main__":
    print(table(rows()))
