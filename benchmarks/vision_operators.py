"""Compares the shipped detection operators, at the sizes of real detectors, with torchvision and standard ONNX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from contest import Contestants, bound, node, session

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

from opbridge import operators

try:
    import torchvision
except ImportError:
    torchvision = None


def in_onnxruntime(
    op: str,
    inputs: Mapping[str, torch.Tensor],
    threads: int,
    attributes: Mapping[str, object],
    output: type = np.float32,
    domain: str = "opbridge",
) -> Callable[[], None]:
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    library = operators.ort_library() if domain else None
    return bound(session(node(op, domain, arrays, attributes, 20, output), threads, library), arrays)


def boxes(count: int, size: float = 800) -> torch.Tensor:
    low = torch.rand(count, 2) * size
    return torch.cat([low, low + 16 + torch.rand(count, 2) * 200], dim=1)


def roi_align(threads: int) -> Contestants:
    """The first level of a feature pyramid: 256 channels, a quarter of 800 x 1088, 7 x 7 bins of 2 x 2 samples."""
    x, rois = torch.randn(1, 256, 200, 272), torch.cat([torch.zeros(512, 1), boxes(512)], dim=1)
    inputs = {"input": x, "rois": rois}
    size = {"spatial_scale": 0.25, "sampling_ratio": 2}
    ours = {**size, "pooled_height": 7, "pooled_width": 7}
    standard = {**size, "output_height": 7, "output_width": 7, "coordinate_transformation_mode": "output_half_pixel"}
    parts = {"x": x, "boxes": rois[:, 1:].contiguous(), "images": torch.zeros(512, dtype=torch.int64)}
    contestants: Contestants = {
        "opbridge in ONNX Runtime": in_onnxruntime("roi_align", inputs, threads, ours),
        "opbridge in PyTorch": lambda: torch.ops.opbridge.roi_align(x, rois, 0.25, 7, 7, 2),
        "RoiAlign of ONNX Runtime": in_onnxruntime("RoiAlign", parts, threads, standard, domain=""),
    }
    if torchvision:
        contestants["torchvision"] = lambda: torchvision.ops.roi_align(x, rois, 7, 0.25, 2)
    return contestants


def nms(threads: int) -> Contestants:
    dets, scores = boxes(4000), torch.rand(4000)
    inputs = {"boxes": dets, "scores": scores}
    parts = {
        "boxes": dets[None],
        "scores": scores[None, None],
        "most": torch.tensor([4000]),
        "threshold": torch.tensor([0.7]),
    }
    contestants: Contestants = {
        "opbridge in ONNX Runtime": in_onnxruntime("nms", inputs, threads, {"iou_threshold": 0.7}, np.int64),
        "opbridge in PyTorch": lambda: torch.ops.opbridge.nms(dets, scores, 0.7),
        "NonMaxSuppression": in_onnxruntime("NonMaxSuppression", parts, threads, {}, np.int64, domain=""),
    }
    if torchvision:
        contestants["torchvision"] = lambda: torchvision.ops.nms(dets, scores, 0.7)
    return contestants


def grid_sample(threads: int) -> Contestants:
    inputs = {"input": torch.randn(1, 64, 100, 136), "grid": torch.rand(1, 100, 136, 2) * 2.2 - 1.1}
    return {
        "opbridge in ONNX Runtime": in_onnxruntime("grid_sample", inputs, threads, {}),
        "opbridge in PyTorch": lambda: torch.ops.opbridge.grid_sample(*inputs.values()),
        "GridSample of ONNX Runtime": in_onnxruntime("GridSample", inputs, threads, {}, domain=""),
        "PyTorch": lambda: torch.nn.functional.grid_sample(*inputs.values(), align_corners=False),
    }


def multi_scale_deformable_attention(threads: int) -> Contestants:
    """A layer of a Deformable DETR encoder on 4 levels: 8 heads of 32 channels, 4 points."""
    levels = [(50, 68), (25, 34), (13, 17), (7, 9)]
    sizes = [height * width for height, width in levels]
    positions = sum(sizes)
    inputs = {
        "value": torch.randn(1, positions, 8, 32),
        "value_spatial_shapes": torch.tensor(levels),
        "value_level_start_index": torch.tensor([0, *sizes]).cumsum(0)[:-1],
        "sampling_locations": torch.rand(1, positions, 8, 4, 4, 2),
        "attention_weights": torch.rand(1, positions, 8, 4, 4),
    }
    value, _, _, locations, weights = inputs.values()

    def by_grid_sample() -> torch.Tensor:
        grids = (2 * locations - 1).transpose(1, 2).flatten(0, 1)
        sampled = []
        for i, (level, (height, width)) in enumerate(zip(value.split(sizes, dim=1), levels, strict=True)):
            maps = level.flatten(2).transpose(1, 2).reshape(8, 32, height, width)
            sampled.append(torch.nn.functional.grid_sample(maps, grids[:, :, i], align_corners=False))
        shares = weights.transpose(1, 2).reshape(8, 1, positions, 16)
        return (torch.stack(sampled, dim=-2).flatten(-2) * shares).sum(-1).view(1, 256, positions).transpose(1, 2)

    op = "multi_scale_deformable_attention"
    return {
        "opbridge in ONNX Runtime": in_onnxruntime(op, inputs, threads, {}),
        "opbridge in PyTorch": lambda: torch.ops.opbridge.multi_scale_deformable_attention(*inputs.values()),
        "grid_sample of PyTorch": by_grid_sample,
    }


def nms_rotated(threads: int) -> Contestants:
    """Objects in an aerial image."""
    dets = torch.cat([torch.rand(5000, 2) * 1000, 10 + torch.rand(5000, 2) * 60, torch.rand(5000, 1) * 6.3], dim=1)
    inputs = {"dets": dets, "scores": torch.rand(5000)}
    return {
        "opbridge in ONNX Runtime": in_onnxruntime("nms_rotated", inputs, threads, {"iou_threshold": 0.1}, np.int64),
        "opbridge in PyTorch": lambda: torch.ops.opbridge.nms_rotated(*inputs.values(), 0.1),
    }


def rows(threads: int) -> dict[str, Contestants]:
    torch.manual_seed(0)
    return {
        "roi_align of 512 regions, 256x200x272": roi_align(threads),
        "nms of 4,000 boxes": nms(threads),
        "grid_sample 64x100x136": grid_sample(threads),
        "multi_scale_deformable_attention, 4 levels": multi_scale_deformable_attention(threads),
        "nms_rotated of 5,000 boxes": nms_rotated(threads),
    }
