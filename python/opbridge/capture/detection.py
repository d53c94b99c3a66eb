"""torchvision's detection models, whose own code branches on how many boxes there are."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def one_way_of_batched_nms() -> Iterator[None]:
    """``batched_nms`` shifts the boxes of each class apart, as torchvision lets it where torch.jit traces.

    Otherwise it loops over the classes that it finds where there are many boxes, which is faster but another program
    for every image.
    """
    boxes: Any = sys.modules.get("torchvision.ops.boxes")
    if boxes is None:
        yield
        return
    places: tuple[Any, ...] = (boxes, sys.modules["torchvision.ops"])
    original = boxes.batched_nms
    for place in places:
        place.batched_nms = boxes._batched_nms_coordinate_trick
    try:
        yield
    finally:
        for place in places:
            place.batched_nms = original
