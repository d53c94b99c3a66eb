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
    torch.Tensor.__setitem__(tensor, index_of_masks(index), value)


def drops_axis(asked: Any, frame: FrameType | None) -> bool:
    """Whether ``assign`` asks, in C++ called from ``frame``, if a dynamic size is not 1, to drop its axis otherwise."""
    while frame is not None and frame.f_code.co_name == FUNCTION_MODE:  # of modes
        frame = frame.f_back
    return frame is not None and frame.f_code is assign.__code__ and isinstance(asked, sympy.Ne) and 1 in asked.args
