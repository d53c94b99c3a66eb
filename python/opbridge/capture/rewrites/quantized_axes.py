"""The axes along which torchao reduces a tensor to find the scales of its blocks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.patching import patch_attributes

_MODULE = "torchao.quantization.quant_primitives"
_NAME = "_get_reduction_params"


@contextlib.contextmanager
def reduce_whole_axes() -> Iterator[None]:
    """Makes torchao reduce a dynamic axis that is one block, whatever its size: its own function asks whether the size
    is 1, which only saves a reduction of one element."""
    original: Any = getattr(sys.modules.get(_MODULE), _NAME, None)
    if original is None:  # torchao is not in use, or of another version
        yield
        return

    def axes(block_size: Sequence[Any], input_size: Sequence[Any]) -> tuple[list[Any], list[int]]:
        shape: list[Any] = []
        reduced: list[int] = []
        for block, size in zip(block_size, input_size, strict=True):
            is_whole = isinstance(block, torch.SymInt) and isinstance(size, torch.SymInt)
            if is_whole and block.node.expr == size.node.expr:
                shape_of_axis, reduced_of_axis = [size], [0]
            else:
                shape_of_axis, reduced_of_axis = original([block], [size])
            reduced += [len(shape) + axis for axis in reduced_of_axis]
            shape += shape_of_axis
        return shape, reduced

    with patch_attributes(sys.modules[_MODULE], **{_NAME: axes}):
        yield
