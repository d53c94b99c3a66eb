"""Checks operators that remove axes of size 1.

torch decides during the capture whether an axis is removed: an axis of symbolic size stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from opbridge.capture.operators import Operator
from opbridge.capture.program import Sizes
from opbridge.capture.symbolic_sizes.dynamic_axes import AS_IN_EXAMPLE, DynamicSizes
from opbridge.errors import UnsupportedError
from opbridge.torch_compat.fake_tensors import data_of
from opbridge.torch_compat.symbols import always

_SQUEEZES = frozenset({"squeeze", "squeeze_", "squeeze_copy"})


def squeeze_warning(
    operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], sizes: Sizes | DynamicSizes
) -> str:
    """The text of a warning if a squeeze keeps an axis whose size may be 1, otherwise empty. Refuses the squeeze if the
    axis has size 1 in the example. ``args`` and ``kwargs`` hold the tensors of the capture."""
    if operator.stem not in _SQUEEZES or not operator.key.startswith("aten::"):
        return ""
    given = dict(zip(operator.names, args, strict=False)) | dict(kwargs)
    tensor = given["self"]
    shape, data = tensor.shape, data_of(tensor)
    dims = given.get("dim", range(len(shape)))
    warning = ""
    for dim in [dims] if isinstance(dims, int) else dims:
        size = shape[dim] if shape else 1
        if not isinstance(size, torch.SymInt):
            continue
        env: Any = size.node.shape_env
        expr = size.node.expr
        if 1 in (sizes.in_example(expr, env), expr.xreplace(env.backed_var_to_val)):
            raise UnsupportedError(
                f"squeeze() keeps the axis of the size '{sizes.text_of(expr)}' in a capture; {AS_IN_EXAMPLE}"
            )
        if data is not None and data.shape[dim] == 1:  # torch would go on with two tensors of different ranks
            raise UnsupportedError(
                f"squeeze() keeps the axis of the size '{sizes.text_of(expr)}', which depends on data, in a capture, "
                "and removes it in this run, where the size is 1; name the axes to remove, as in squeeze(0), or reshape"
            )
        # torch compiles the bodies of torch.cond and loops for sizes of at least 2, which no user has asked for.
        compiled_for_more = any(guard.expr == sympy.Ge(expr, 2) for guard in env.guards)
        if always(env, sympy.Eq(expr, 1)) is None or compiled_for_more:
            shown = sizes.text_of(expr)
            warning = f"squeeze() keeps the axis of the dynamic size '{shown}', which eager mode removes if it is 1"
    return warning
