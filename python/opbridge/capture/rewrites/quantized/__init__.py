"""Quantized tensors that a model makes and consumes itself: as integers, with their scales and zero points.

A product of quantized tensors is computed from the dequantized values, and then quantized again. PyTorch adds up
integers instead, so a result nearly halfway between two levels may be the other level.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.rewrites.quantized.modules import hide_quantized_tensors
from opbridge.capture.rewrites.quantized.tensor import MAKERS


@contextlib.contextmanager
def patch_quantized(model: Any) -> Iterator[None]:
    """Replaces the functions that make quantized tensors, and the quantized weights of the modules."""
    with contextlib.ExitStack() as until_the_end:
        for module in model.modules() if isinstance(model, torch.nn.Module) else ():
            until_the_end.enter_context(hide_quantized_tensors(module))
        for point, function in MAKERS.items():
            until_the_end.enter_context(patch(point, function))
        yield
