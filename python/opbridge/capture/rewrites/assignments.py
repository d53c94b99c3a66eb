"""Parts of a tensor that dynamic sizes name, and assignment to a part, from which torch drops leading axes of size 1.

For a dynamic size that is 1 in the example, this axis may have another size later. Broadcasting needs no axis dropped.
"""

from __future__ import annotations

from types import FrameType
from typing import Any

import sympy
import torch

from opbridge.capture.rewrites.eager_only import index_of_masks
from opbridge.torch_compat.symbols import FUNCTION_MODE

# In an index without tensors and lists, which names a part of a tensor.
_OF_PARTS = {torch.SymInt, int, slice, type(None), type(Ellipsis)}


def assign(tensor: torch.Tensor, index: Any, value: Any) -> None:
    index = index_of_masks(index)
    kinds = _kinds_in(index)
    if torch.SymInt in kinds and kinds <= _OF_PARTS:
        part, others = _with_sizes_selected(tensor, index)
        _write(part[others], value)
    else:
        torch.Tensor.__setitem__(*_with_sizes_apart(tensor, index), value)


def item(tensor: torch.Tensor, index: Any) -> Any:
    return torch.Tensor.__getitem__(*_with_sizes_apart(tensor, index))


def _kinds_in(index: Any) -> set[type]:
    return set(map(type, index if isinstance(index, tuple) else (index,)))


def _with_sizes_apart(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, Any]:
    """The tensor and its index. If dynamic sizes stand beside tensors or lists in the index, torch would take them for
    constants, or refuse them: then the part of the tensor that they name, and the rest of the index."""
    kinds = _kinds_in(index)
    return (tensor, index) if torch.SymInt not in kinds or kinds <= _OF_PARTS else _with_sizes_selected(tensor, index)


def _with_sizes_selected(tensor: torch.Tensor, index: Any) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """The part of the tensor that the dynamic sizes in the index name, and the rest of the index."""
    parts = index if isinstance(index, tuple) else (index,)
    skipped = tensor.dim() - sum(map(axes_of, parts))
    selected, axis = [], 0
    for part in parts:
        if type(part) is torch.SymInt:
            selected.append((axis, part))
        axis += skipped if part is Ellipsis else axes_of(part)
    for axis, size in reversed(selected):
        tensor = tensor.select(axis, size)
    return tensor, tuple(part for part in parts if type(part) is not torch.SymInt)


def is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def axes_of(index: Any) -> int:
    """How many axes of the tensor a part of an index takes."""
    if is_mask(index):
        return int(index.dim())
    return 0 if index is None or index is Ellipsis or isinstance(index, bool) else 1


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
