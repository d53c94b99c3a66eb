"""Functions of torchvision's detection models whose code branches on the number of boxes or loops over boxes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import torch

from opbridge.capture.patching import patch
from opbridge.torch_compat.torchvision import patch_points_of


def batched_nms(boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Non-maximum suppression within each class: boxes are shifted so that classes do not overlap.

    torchvision does the same for few boxes. It loops over the classes if there are many, and has a branch for no boxes
    at all; both would make the captured program depend on the image.
    """
    largest = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).max()
    shifts = idxs.to(boxes) * (largest + 1)
    kept: torch.Tensor = torch.ops.torchvision.nms(boxes + shifts[:, None], scores, iou_threshold)
    return kept


def paste_masks_in_image(
    masks: torch.Tensor, boxes: torch.Tensor, img_shape: tuple[int, int], padding: int = 1
) -> torch.Tensor:
    """Resizes masks (n, 1, size, size) to their boxes, in images of zeros (n, 1, height, width).

    Resizing is linear along both axes, so it is a product of matrices.
    """
    module = sys.modules["torchvision.models.detection.roi_heads"]
    masks, scale = module.expand_masks(masks, padding=padding)
    left, top, right, bottom = module.expand_boxes(boxes, scale).to(torch.int64).unbind(1)
    rows = _resized(top, bottom, masks.shape[-2], img_shape[0])
    columns = _resized(left, right, masks.shape[-1], img_shape[1])
    return rows[:, None] @ masks @ columns.mT[:, None]


def _resized(first: torch.Tensor, last: torch.Tensor, size: int, length: int) -> torch.Tensor:
    """The weights of ``size`` samples in ``length`` points, if the samples are resized to the points ``first`` to
    ``last``: (n, length, size)."""
    index = torch.arange(length, device=first.device) - first[:, None]
    count = (last - first + 1)[:, None]
    source = ((index + 0.5) * (size / count.clamp(min=1).float()) - 0.5).clamp(min=0)[:, :, None]
    low = source.floor().clamp(max=size - 1)
    samples = torch.arange(size, device=first.device)
    shares = torch.where(samples == low, 1 - (source - low), 0.0)
    shares = shares + torch.where(samples == (low + 1).clamp(max=size - 1), source - low, 0.0)
    return torch.where(((index >= 0) & (index < count))[:, :, None], shares, 0.0)


def heatmaps_to_keypoints(maps: torch.Tensor, rois: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Calls opbridge's operator, since the size of a resized map depends on its box."""
    from opbridge.operators import load_operators

    load_operators()
    keypoints, scores = torch.ops.opbridge.heatmaps_to_keypoints(maps, rois)
    return keypoints, scores


def attributes_made_once(model: torch.nn.Module) -> set[str]:
    """The paths of the scales that a region pool derives from the sizes of its first images and then keeps."""
    return {
        f"{path}.{name}".lstrip(".")
        for path, module in model.named_modules()
        if type(module).__name__ == "MultiScaleRoIAlign" and type(module).__module__.startswith("torchvision.")
        for name in ("scales", "map_levels")
    }


@contextlib.contextmanager
def patch_detection() -> Iterator[None]:
    """Replaces torchvision's functions by those of the same names above."""
    with contextlib.ExitStack() as until_the_end:
        for function in (batched_nms, paste_masks_in_image, heatmaps_to_keypoints):
            for point in patch_points_of(function.__name__):
                until_the_end.enter_context(patch(point, function))
        yield
