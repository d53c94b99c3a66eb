"""Checks operators that remove axes of size 1.

torch decides during the capture whether an axis is removed: an axis of symbolic size stays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from opbridge.capture.inputs import Inputs
from opbridge.capture.operators import Operator, operator_of
from opbridge.capture.program import Sizes
from opbridge.capture.run_warnings import Location, location_of_run, warn_of_run_at
from opbridge.capture.source import line_of_location
from opbridge.capture.state.isolated_call import restore_model
from opbridge.capture.symbolic_sizes.dynamic_axes import AS_IN_EXAMPLE, DynamicSizes
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload
from opbridge.torch_compat.fake_tensors import data_of
from opbridge.torch_compat.symbols import always

_SQUEEZES = frozenset({"squeeze", "squeeze_", "squeeze_copy"})


def is_squeeze(operator: Operator) -> bool:
    return operator.stem in _SQUEEZES and operator.key.startswith("aten::")


def check_squeeze(
    operator: Operator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    sizes: Sizes | DynamicSizes,
    location: Location,
) -> None:
    """Warns if a squeeze keeps an axis whose size may be 1, and refuses the squeeze if the axis has size 1 in the
    example. ``args`` and ``kwargs`` hold the tensors of the capture."""
    tensor, dims = _squeezed(operator, args, kwargs)
    data = data_of(tensor)
    warning = ""
    removed, by_data = 0, False
    for dim in dims:
        size: Any = tensor.shape[dim] if tensor.shape else 1
        if not isinstance(size, torch.SymInt):
            removed += size == 1
            continue
        env: Any = size.node.shape_env
        expr = size.node.expr
        if 1 in (sizes.in_example(expr, env), expr.xreplace(env.backed_var_to_val)):
            raise UnsupportedError(
                f"squeeze() keeps the axis of the size '{sizes.text_of(expr)}' in a capture; {AS_IN_EXAMPLE}",
                line_of_location(location),
            )
        if data is not None and data.shape[dim] == 1:  # torch would go on with two tensors of different ranks
            raise _refusal_by_data(f"the axis of the size '{sizes.text_of(expr)}'", location)
        # torch compiles the bodies of torch.cond and loops for sizes of at least 2, which no user has asked for.
        compiled_for_more = any(guard.expr == sympy.Ge(expr, 2) for guard in env.guards)
        if always(env, sympy.Eq(expr, 1)) is None or compiled_for_more:
            shown = sizes.text_of(expr)
            warning = f"squeeze() keeps the axis of the dynamic size '{shown}', which eager mode removes if it is 1"
            by_data |= not expr.free_symbols <= env.backed_var_to_val.keys()
    if by_data:
        sizes.squeezes.setdefault(location[:2], set()).add((tensor.dim(), tensor.dim() - removed))
    if warning:
        warn_of_run_at(warning, location)


def check_squeezes_in_example(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes) -> None:
    """Refuses the model if a squeeze that keeps an axis in the capture removes it in the example, where its size, which
    depends on data, is 1."""
    if not sizes.squeezes:
        return

    removed_at: list[Location] = []

    def compare(function: OpOverload, args: Any) -> None:
        operator = operator_of(function)
        if not is_squeeze(operator):
            return
        location = location_of_run()
        tensor, dims = _squeezed(operator, args, {})
        rank = tensor.dim()
        captured = {made for given, made in sizes.squeezes.get(location[:2], ()) if given == rank}
        if captured and rank - sum(tensor.shape[dim] == 1 for dim in dims) not in captured:
            removed_at.append(location)

    given = (inputs.example or inputs).copied()
    with restore_model(model, inputs, compare), contextlib.suppress(Exception):  # its capture has met the error, or not
        model(*given.args, **given.kwargs)
    if removed_at:
        raise _refusal_by_data("an axis of a size", removed_at[0])


def _squeezed(operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[torch.Tensor, Sequence[int]]:
    """The tensor, and the axes to remove if they have the size 1."""
    given = dict(zip(operator.names, args, strict=False)) | dict(kwargs)
    tensor = given["self"]
    dims = given.get("dim", range(tensor.dim()))
    return tensor, [dims] if isinstance(dims, int) else dims


def _refusal_by_data(axis: str, location: Location) -> UnsupportedError:
    return UnsupportedError(
        f"squeeze() keeps {axis}, which depends on data, in a capture, and removes it in this run, where the size is "
        "1; name the axes to remove, as in squeeze(0), or reshape",
        line_of_location(location),
    )
