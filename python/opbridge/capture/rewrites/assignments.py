"""Assignment to a part of a tensor, from which torch drops the leading axes of size 1.

For a dynamic size that is 1 in the example, this axis may have another size later. Broadcasting needs no axis dropped.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

import sympy
import torch

from opbridge.capture.rewrites.eager_only import index_of_masks
from opbridge.torch_compat.symbols import FUNCTION_MODE


def assign(tensor: torch.Tensor, index: Any, value: Any) -> None:
    index = index_of_masks(index)
    if _names_part_by_size(index):
        _write(_part_of(tensor, index), value)
    else:
        torch.Tensor.__setitem__(tensor, index, value)


def _names_part_by_size(index: Any) -> bool:
    """Whether dynamic sizes are among the integers of an index that names a part of a tensor, without the elements that
    an index of tensors or lists picks. torch would take them for constants."""
    kinds = set(map(type, index if isinstance(index, tuple) else (index,)))
    return torch.SymInt in kinds and kinds <= {torch.SymInt, int, slice, type(None), type(Ellipsis)}


def _part_of(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """``tensor[index]``"""
    parts = index if isinstance(index, tuple) else (index,)
    skipped = tensor.dim() - sum(part is not None and part is not Ellipsis for part in parts)
    selected, axis = [], 0
    for part in parts:
        if type(part) is torch.SymInt:
            selected.append((axis, part))
        axis += skipped if part is Ellipsis else type(part) is not int
    view = tensor[tuple(slice(None) if type(part) is torch.SymInt else part for part in parts)]
    for axis, size in reversed(selected):
        view = view.select(axis, size)
    return view


def _write(part: torch.Tensor, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        part.fill_(value)
        return
    while value.dim() > part.dim() and value.shape[0] == 1:
        value = value[0]
    part.copy_(value)


def drops_axis(asked: Any, frame: FrameType | None) -> bool:
    """Whether ``assign`` asks, in C++ called from ``frame``, if a dynamic size is not 1, to drop its axis otherwise."""
    while frame is not None and frame.f_code.co_name == FUNCTION_MODE:  # of modes
        frame = frame.f_back
    return frame is not None and frame.f_code is assign.__code__ and isinstance(asked, sympy.Ne) and 1 in asked.args
