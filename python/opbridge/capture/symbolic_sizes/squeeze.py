"""The operators that leave out axes of size 1.

Torch decides whether an axis goes when a model is captured: an axis whose size is a symbol stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from opbridge.capture.operators import Operator
from opbridge.capture.program import Sizes
from opbridge.capture.symbolic_sizes.dynamic_axes import AS_IN_EXAMPLE
from opbridge.errors import UnsupportedError
from opbridge.torch_compat.symbols import always

_SQUEEZES = frozenset({"squeeze", "squeeze_", "squeeze_copy"})


def squeeze_told(operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Sizes) -> str:
    """What to warn of where a squeeze keeps an axis whose size may be 1; empty otherwise. Refuses it where the axis is
    of size 1 in the example. ``args`` and ``kwargs`` hold the tensors that torch captures with."""
    if operator.stem not in _SQUEEZES or not operator.key.startswith("aten::"):
        return ""
    given = dict(zip(operator.names, args, strict=False)) | dict(kwargs)
    shape = given["self"].shape
    dims = given.get("dim", range(len(shape)))
    told = ""
    for dim in [dims] if isinstance(dims, int) else dims:
        size = shape[dim] if shape else 1
        if not isinstance(size, torch.SymInt):
            continue
        env: Any = size.node.shape_env
        expr = size.node.expr
        if sizes.in_example(expr, env) == 1:
            raise UnsupportedError(f"squeeze() keeps the axis of the size '{expr}', which is {AS_IN_EXAMPLE}")
        if always(env, sympy.Eq(expr, 1)) is None:
            told = f"squeeze() keeps the axis of the dynamic size '{expr}', which may be 1 and then goes"
    return told
