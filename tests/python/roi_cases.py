"""Regions for the tests of all region pooling operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from operator_models import refused_by_both_hosts


def image(dtype: type, channels: int = 5, size: tuple[int, int] = (13, 17), batch: int = 2) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, channels, *size)).astype(dtype)


def regions(dtype: type, count: int = 40) -> np.ndarray:
    """Regions in an image of 26 by 34 pixels; some exceed its borders, are empty, or have negative sizes."""
    rng = np.random.default_rng(1)
    low = rng.uniform(-8, 30, (count, 2))
    high = low + rng.uniform(0, 25, (count, 2))
    special = [
        [0, 0, 0, 34, 26],
        [1, 5, 5, 5, 5],
        [1, 3.25, 4.5, 3.25, 9],
        [0, 20, 20, 4, 2],
        [0, -90, -90, -70, -60],
        [1, 90, 90, 99, 99],
        [1, -500, -400, 600, 700],
        [0, 33.9, 25.9, 34.1, 26.1],
    ]
    rows = np.concatenate([rng.integers(0, 2, (count, 1)), low, high], axis=1)
    return np.concatenate([rows, special]).astype(dtype)


def check_that_bad_regions_are_refused(op: str, **options: Any) -> None:
    x, rois = image(np.float32, 4), regions(np.float32, 2)
    given = {"spatial_scale": 0.5, "pooled_height": 2, "pooled_width": 2, **options}

    def refused(message: str, input: np.ndarray = x, rois: np.ndarray = rois, **attributes: Any) -> None:
        outputs = (np.float32, np.int32)[: 1 if op == "roi_align" else 2]
        refused_by_both_hosts(message, op, {"input": input, "rois": rois}, outputs=outputs, **{**given, **attributes})

    refused("input must have 4 dimensions", input=x[0])
    refused("rois must have 2 dimensions", rois=rois[0])
    refused("rois must have .* columns", rois=rois[:, :3])
    refused("pooled height must be positive", pooled_height=0)
    refused("pooled width must be positive", pooled_width=-3)
    refused("is in an image that the input does not have", rois=np.float32([[2, 0, 0, 1, 1]]))
    refused("is in an image that the input does not have", rois=np.float32([[-1, 0, 0, 1, 1]]))
    refused("is in an image that the input does not have", rois=np.float32([[np.nan, 0, 0, 1, 1]]))
    refused("is in an image that the input does not have", input=x[:0])
    refused("more elements than memory can hold|a size overflows|multiple of", pooled_height=2**40, pooled_width=2**40)


def check_gradient_beside_nan(
    pool: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], image: np.ndarray, rois: np.ndarray
) -> None:
    """Asserts that the gradient of the image does not change if the last of four regions is not finite."""
    gradients = []
    for count in (4, 3):
        x, regions = torch.from_numpy(image).requires_grad_(), torch.from_numpy(rois.copy())
        regions[3, 3] = np.nan
        out = pool(x, regions[:count])
        assert out.isnan().flatten(1).all(1).tolist() == [False, False, False, True][:count]
        out.backward(torch.ones_like(out))
        assert x.grad is not None
        gradients.append(x.grad)
    assert gradients[0].any()
    assert torch.equal(*gradients)
