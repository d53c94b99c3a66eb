"""The sizes to which torchvision's transforms resize an image, without a branch on which side is shorter."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.torch_compat.torchvision import patch_points_of


def _resized(image_size: Any, shorter: Any, max_size: int | None) -> list[Any]:
    """Height and width if the shorter side becomes ``shorter``, and the other one at most ``max_size``."""
    scaled = [math.trunc(shorter * side / torch.sym_min(*image_size)) for side in image_size]
    if max_size is None:
        return scaled
    return [torch.sym_min(side, math.trunc(max_size * side / torch.sym_max(*scaled))) for side in scaled]


@contextlib.contextmanager
def patch_resizing() -> Iterator[None]:
    with contextlib.ExitStack() as until_the_end:
        for point in patch_points_of("output_size_of_resize"):
            until_the_end.enter_context(patch(point, _with_symbols(point.original)))
        yield


def _with_symbols(original: Any) -> Any:
    def output_size(image_size: Any, size: Any, max_size: int | None = None, **options: Any) -> Any:
        one_side = size is not None and len(size) == 1 and (max_size is None or max_size > size[0])
        if one_side and any(isinstance(side, torch.SymInt) for side in image_size):
            return _resized(image_size, size[0], max_size)
        if size is not None and len(size) == 2:
            return list(size)
        return original(image_size, size, max_size, **options)

    return output_size
