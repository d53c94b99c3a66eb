"""A call of each symbolic function that is compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torchvision
from torch import nn

IMAGE = torch.rand(1, 4, 8, 8)
ROIS = torch.tensor([[0.0, 0, 0, 4, 4], [0, 1, 1, 6, 7]])
ROTATED = torch.tensor([[0.0, 3, 3, 4, 4, 0.5]])
WEIGHT = torch.rand(4, 4, 3, 3)
OFFSET, MASK = torch.rand(1, 18, 8, 8), torch.rand(1, 9, 8, 8)
BOXES, SCORES = torch.rand(1, 5, 4), torch.rand(1, 2, 5)
POOLED = torch.rand(2, 4, 2, 2)
TOKENS = torch.rand(2, 3, 4)


@dataclasses.dataclass
class OfFunction:
    """A call of an autograd.Function. Its ``forward``, which needs compiled code, is replaced by one that returns
    ``results``."""

    arguments: Sequence[Any]
    results: Sequence[torch.Tensor]


@dataclasses.dataclass
class OfOperator:
    name: str
    call: Callable[..., Any]
    inputs: Sequence[torch.Tensor]


# File and class.
MMCV: dict[tuple[str, str], OfFunction] = {
    ("border_align", "BorderAlignFunction"): OfFunction(
        (torch.rand(1, 8, 4, 4), torch.rand(1, 16, 4), 2), [torch.rand(1, 2, 16, 4)]
    ),
    ("carafe", "CARAFENaiveFunction"): OfFunction(
        (IMAGE, torch.rand(1, 9, 16, 16), 3, 1, 2), [torch.rand(1, 4, 16, 16)]
    ),
    ("carafe", "CARAFEFunction"): OfFunction((IMAGE, torch.rand(1, 9, 16, 16), 3, 1, 2), [torch.rand(1, 4, 16, 16)]),
    ("deform_conv", "DeformConv2dFunction"): OfFunction((IMAGE, OFFSET, WEIGHT, (1, 1), (1, 1), (1, 1), 1, 1), [IMAGE]),
    ("deform_roi_pool", "DeformRoIPoolFunction"): OfFunction((IMAGE, ROIS, None, (2, 2), 1.0, 2, 0.1), [POOLED]),
    ("masked_conv", "MaskedConv2dFunction"): OfFunction((IMAGE, MASK[:, 0], WEIGHT, torch.rand(4), 1, 1), [IMAGE]),
    ("modulated_deform_conv", "ModulatedDeformConv2dFunction"): OfFunction(
        (IMAGE, OFFSET, MASK, WEIGHT, torch.rand(4), (1, 1), (1, 1), (1, 1), 1, 1), [IMAGE]
    ),
    ("nms", "SoftNMSop"): OfFunction(
        (BOXES[0], SCORES[0, 0], 0.5, 0.5, 0.1, 1, 0), [torch.rand(5, 5), torch.arange(5)]
    ),
    ("prroi_pool", "PrRoIPoolFunction"): OfFunction((IMAGE, ROIS, (2, 2), 1.0), [POOLED]),
    ("psa_mask", "PSAMaskFunction"): OfFunction((torch.rand(1, 9, 8, 8), 0, (3, 3)), [torch.rand(1, 64, 8, 8)]),
    ("roi_align", "RoIAlignFunction"): OfFunction((IMAGE, ROIS, (2, 2), 0.5, 2, "avg", True), [POOLED]),
    ("roi_align_rotated", "RoIAlignRotatedFunction"): OfFunction(
        (IMAGE, ROTATED, (2, 2), 0.5, 2, True, False), [POOLED[:1]]
    ),
    ("roi_pool", "RoIPoolFunction"): OfFunction((IMAGE, ROIS, (2, 2), 1.0), [POOLED]),
    ("rotated_feature_align", "RotatedFeatureAlignFunction"): OfFunction(
        (IMAGE, torch.rand(1, 8, 8, 5), 0.125, 1), [IMAGE]
    ),
    # SyncBatchNormFunction.symbolic gives an attribute without the suffix of its kind, which torch.onnx refuses.
}

# For each file and function of mmdeploy, a call of the autograd.Function, of another project or of mmdeploy, that the
# function maps.
MMDEPLOY_FUNCTIONS: dict[tuple[str, str], OfFunction] = {
    ("mmcv/ops/deform_conv", "deform_conv__default"): MMCV["deform_conv", "DeformConv2dFunction"],
    ("mmcv/ops/deform_conv", "deform_conv_openvino"): MMCV["deform_conv", "DeformConv2dFunction"],
    ("mmcv/ops/modulated_deform_conv", "modulated_deform_conv_default"): MMCV[
        "modulated_deform_conv", "ModulatedDeformConv2dFunction"
    ],
    ("mmcv/ops/multi_scale_deform_attn", "ms_deform_attn_default"): OfFunction(
        (
            torch.rand(1, 20, 2, 4),
            torch.tensor([[4, 4], [2, 2]]),
            torch.tensor([0, 16]),
            torch.rand(1, 6, 2, 2, 3, 2),
            torch.rand(1, 6, 2, 2, 3),
            64,
        ),
        [torch.rand(1, 6, 8)],
    ),
    ("mmcv/ops/roi_align", "roi_align_default"): MMCV["roi_align", "RoIAlignFunction"],
    ("mmcv/ops/roi_align_rotated", "roi_align_rotated_default"): MMCV["roi_align_rotated", "RoIAlignRotatedFunction"],
    ("mmcv/ops/nms", "ONNXNMSop"): OfFunction((BOXES, SCORES, 3, 0.5, 0.1), [torch.zeros(3, 3, dtype=torch.int64)]),
    ("mmcv/ops/nms", "TRTBatchedNMSop"): OfFunction(
        (BOXES.unsqueeze(2), SCORES.mT, 2, 5, 3, 0.5, 0.1), [torch.rand(1, 3, 5), torch.zeros(1, 3, dtype=torch.int64)]
    ),
    ("mmcv/ops/nms_match", "ONNXNMSMatchOp"): OfFunction(
        (BOXES, SCORES, torch.tensor([0.5]), torch.tensor([0.1])), [torch.zeros(3, 4, dtype=torch.int64)]
    ),
    ("mmcv/ops/nms_rotated", "ONNXNMSRotatedOp"): OfFunction(
        (torch.rand(1, 5, 5), SCORES, 0.5, 0.1), [torch.zeros(3, 3, dtype=torch.int64)]
    ),
}
MMDEPLOY_OPERATORS: dict[tuple[str, str], OfOperator] = {
    ("pytorch/symbolics/adaptive_pool", "adaptive_avg_pool2d__ncnn"): OfOperator(
        "adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(2), [IMAGE]
    ),
    ("pytorch/symbolics/gelu", "gelu__ncnn"): OfOperator("gelu", nn.GELU(), [IMAGE]),
    ("pytorch/symbolics/grid_sampler", "grid_sampler__default"): OfOperator(
        "grid_sampler",
        lambda x, grid: nn.functional.grid_sample(x, grid, align_corners=False),
        [IMAGE, torch.rand(1, 5, 5, 2)],
    ),
    ("pytorch/symbolics/hardsigmoid", "hardsigmoid__default"): OfOperator("hardsigmoid", nn.Hardsigmoid(), [IMAGE]),
    ("pytorch/symbolics/instance_norm", "instance_norm__tensorrt"): OfOperator(
        "group_norm", nn.GroupNorm(2, 4), [IMAGE]
    ),
    ("pytorch/symbolics/layer_norm", "layer_norm__default"): OfOperator("layer_norm", nn.LayerNorm(4), [TOKENS]),
    ("pytorch/symbolics/layer_norm", "layer_norm__ncnn"): OfOperator("layer_norm", nn.LayerNorm(4), [TOKENS]),
    ("pytorch/symbolics/linear", "linear__ncnn"): OfOperator("linear", nn.Linear(4, 3), [TOKENS[0]]),
    ("pytorch/symbolics/roll", "roll_default"): OfOperator("roll", lambda x: x.roll((1, 2), (1, 2)), [TOKENS]),
    ("pytorch/symbolics/squeeze", "squeeze__default"): OfOperator("squeeze", lambda x: x.squeeze(0), [IMAGE]),
}

# The function that torchvision registers for each operator.
TORCHVISION: dict[str, OfOperator] = {
    "symbolic_multi_label_nms": OfOperator(
        "torchvision::nms", lambda boxes, scores: torchvision.ops.nms(boxes, scores, 0.5), [BOXES[0], SCORES[0, 0]]
    ),
    "roi_align_opset11": OfOperator(
        "torchvision::roi_align", lambda x, rois: torchvision.ops.roi_align(x, rois, 2, 0.5, 2), [IMAGE, ROIS]
    ),
    "roi_align_opset16": OfOperator(
        "torchvision::roi_align", lambda x, rois: torchvision.ops.roi_align(x, rois, 2, 0.5, 2), [IMAGE, ROIS]
    ),
    "roi_pool": OfOperator(
        "torchvision::roi_pool", lambda x, rois: torchvision.ops.roi_pool(x, rois, 2, 0.5), [IMAGE, ROIS]
    ),
}
