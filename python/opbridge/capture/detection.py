"""torchvision's detection models, whose own code branches on how many boxes there are."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch


def batched_nms(boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Suppression among the boxes of each class: they are shifted so that classes do not overlap.

    So does torchvision where boxes are few; where they are many it loops over the classes, which would be another
    program for every image, and no boxes are a case of their own there.
    """
    largest = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).max()
    shifts = idxs.to(boxes) * (largest + 1)
    kept: torch.Tensor = torch.ops.torchvision.nms(boxes + shifts[:, None], scores, iou_threshold)
    return kept


@contextlib.contextmanager
def one_way_of_batched_nms() -> Iterator[None]:
    """torchvision's ``batched_nms`` is the function above."""
    if "torchvision.ops" not in sys.modules:
        yield
        return
    places: tuple[Any, ...] = (sys.modules["torchvision.ops"], sys.modules["torchvision.ops.boxes"])
    original = places[0].batched_nms
    for place in places:
        place.batched_nms = batched_nms
    try:
        yield
    finally:
        for place in places:
            place.batched_nms = original
