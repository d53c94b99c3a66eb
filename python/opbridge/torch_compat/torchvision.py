"""Functions of torchvision, in the modules in which it looks them up. Only modules that are loaded count."""

from __future__ import annotations

import importlib
import sys

from opbridge.torch_compat.lookup import PatchPoint

_DETECTION = "torchvision.models.detection"
_FUNCTIONS = {
    "batched_nms": (("torchvision.ops", "batched_nms"), ("torchvision.ops.boxes", "batched_nms")),
    "paste_masks_in_image": (
        (f"{_DETECTION}.roi_heads", "paste_masks_in_image"),
        (f"{_DETECTION}.transform", "paste_masks_in_image"),
    ),
    "heatmaps_to_keypoints": ((f"{_DETECTION}.roi_heads", "heatmaps_to_keypoints"),),
    "output_size_of_resize": (
        ("torchvision.transforms.functional", "_compute_resized_output_size"),
        ("torchvision.transforms.v2.functional._geometry", "__compute_resized_output_size"),
    ),
}


def patch_points_of(function: str) -> list[PatchPoint]:
    """``function`` is a name of opbridge's own. Waits for a module that another thread is importing."""
    return [
        PatchPoint(importlib.import_module(module), name)
        for module, name in _FUNCTIONS[function]
        if module in sys.modules
    ]


def loaded_patch_points() -> list[PatchPoint]:
    return [point for function in _FUNCTIONS for point in patch_points_of(function)]


__all__ = ["loaded_patch_points", "patch_points_of"]
