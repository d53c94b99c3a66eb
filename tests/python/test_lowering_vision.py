"""torchvision's operators: standard ONNX where it computes the same, opbridge's own operator otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lowering_check import check, operators
from roi_cases import image, regions

torchvision = pytest.importorskip("torchvision")
ops = torch.ops.torchvision


def sample(channels: int = 6, dtype: type = np.float32) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(image(dtype, channels)), torch.from_numpy(regions(dtype))


@pytest.mark.parametrize(
    ("opset", "aligned", "expected"),
    [
        (9, False, "roi_align"),
        (11, False, "RoiAlign"),
        (11, True, "roi_align"),
        (16, False, "RoiAlign"),
        (16, True, "RoiAlign"),
        (22, True, "roi_align"),
    ],
)
def test_roi_align(opset: int, aligned: bool, expected: str) -> None:
    functions = {
        str(ratio): lambda x, rois, ratio=ratio: ops.roi_align(x, rois, 0.5, 3, 4, ratio, aligned)
        for ratio in (-1, 0, 2)
    }
    model = check(functions, *sample(), opset=opset, rtol=2e-5, atol=2e-5)
    assert expected in operators(model)


@pytest.mark.parametrize("opset", [16, 22])
def test_a_scale_that_float32_does_not_hold(opset: int) -> None:
    x, rois = torch.rand(1, 8, 20, 20, dtype=torch.float64), torch.tensor([[0, 3.3, 4.7, 60.1, 80.9]]).double()
    functions = {
        "align": lambda x, rois: ops.roi_align(x, rois, 0.1, 3, 3, 2, True),
        "ps_align": lambda x, rois: ops.ps_roi_align(x, rois, 0.1, 2, 2, 2)[0],
    }
    check(functions, x, rois, opset=opset, rtol=1e-12, atol=0)


def test_roi_align_of_an_open_number_of_regions() -> None:
    x, rois = sample()
    rows = torch.export.Dim("rows")
    check(
        lambda x, rois: torchvision.ops.roi_align(x, rois, (2, 2), aligned=True),
        x,
        rois,
        dynamic=({}, {0: rows}),
        also=[(x, rois[:3]), (x, rois[:1])],
        rtol=2e-5,
        atol=2e-5,
    )


def test_other_pooling() -> None:
    functions = {
        "roi_pool": lambda x, rois: torchvision.ops.roi_pool(x, rois, (3, 2), 0.5),
        "align": lambda x, rois: torchvision.ops.ps_roi_align(x, rois, (3, 2), 0.5, 2),
        "pool": lambda x, rois: torchvision.ops.ps_roi_pool(x, rois, (3, 2), 0.5),
    }
    check(functions, *sample(12), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("opset", "dtype", "expected"), [
    (9, torch.float32, "nms"), (10, torch.float32, "NonMaxSuppression"), (21, torch.float32, "NonMaxSuppression"),
    (21, torch.float64, "nms"),
])  # fmt: skip
def test_nms(opset: int, dtype: torch.dtype, expected: str) -> None:
    torch.manual_seed(0)
    low = torch.rand(200, 2, dtype=dtype) * 50
    boxes = torch.cat([low, low + torch.rand(200, 2, dtype=dtype) * 30], dim=1)
    scores = torch.randperm(200).div(10, rounding_mode="floor").to(dtype) - 3  # with equal and negative ones

    def keep(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return torchvision.ops.nms(boxes, scores, 0.5)

    assert expected in operators(check(keep, boxes, scores, opset=opset))


@pytest.mark.parametrize("tenths", [1, 2, 3, 4, 6, 7, 8, 9])
def test_boxes_that_overlap_by_the_threshold(tenths: int) -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, float(tenths), 1.0]])
    check(lambda boxes, scores: torchvision.ops.nms(boxes, scores, tenths / 10), boxes, torch.tensor([2.0, 1.0]))
