"""Proof that both ends of the bridge compute the same: PyTorch in eager mode against ONNX Runtime."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from opbridge.capture.inputs import Inputs, as_module, read_inputs
from opbridge.errors import Error
from opbridge.runtime import run, session

# Relative and absolute tolerance by dtype: wider than torch.testing.assert_close's, because rounding differs at every
# node of a deep model, and narrower than any wrong formula would pass.
_TOLERANCES = {
    torch.float64: (1e-6, 1e-6),
    torch.float32: (1e-4, 1e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (5e-2, 5e-2),
}


class VerificationError(Error):
    """The model computes something else than PyTorch."""


@dataclasses.dataclass(frozen=True)
class OutputDifference:
    """How far one output of ONNX Runtime lies from PyTorch's."""

    name: str
    max_absolute: float
    max_relative: float
    mismatch: str = ""  # what is wrong with it; empty where it agrees


@dataclasses.dataclass(frozen=True)
class Verification:
    """The comparison of all outputs."""

    outputs: tuple[OutputDifference, ...]

    @property
    def ok(self) -> bool:
        return not any(output.mismatch for output in self.outputs)

    @property
    def max_absolute(self) -> float:
        return max((output.max_absolute for output in self.outputs), default=0.0)

    @property
    def max_relative(self) -> float:
        return max((output.max_relative for output in self.outputs), default=0.0)

    def check(self) -> None:
        """Raises VerificationError unless all outputs agree."""
        if not self.ok:
            lines = [f"{output.name}: {output.mismatch}" for output in self.outputs if output.mismatch]
            raise VerificationError("ONNX Runtime and PyTorch differ:\n  " + "\n  ".join(lines))


def verify(
    path: str | os.PathLike[str],
    model: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> Verification:
    """Runs the model at ``path`` in ONNX Runtime and ``model`` in PyTorch on the same inputs, and compares the outputs.

    Values, shapes and element types must agree; NaN equals NaN. The tolerances default by element type. Raises
    VerificationError on a mismatch; returns the differences otherwise.
    """
    result = compare(path, model, args, kwargs, rtol=rtol, atol=atol)
    result.check()
    return result


def compare(
    path: str | os.PathLike[str],
    model: Callable[..., Any],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> Verification:
    """Like verify, but returns the differences whatever they are."""
    module = as_module(model)
    inputs = read_inputs(module, args, kwargs)
    running = session(path)
    names = [value.name for value in running.get_inputs()]
    # ONNX Runtime first: PyTorch may write to its inputs.
    actual = run(running, feeds_for(names, inputs))
    with torch.no_grad():
        expected = [leaf for leaf in pytree.tree_leaves(module(*inputs.args, **inputs.kwargs)) if leaf is not None]
    outputs = [value.name for value in running.get_outputs()]
    if len(actual) != len(expected):
        raise VerificationError(f"the ONNX model has {len(actual)} outputs, PyTorch returns {len(expected)}")
    return Verification(
        tuple(_difference(name, a, e, rtol, atol) for name, a, e in zip(outputs, actual, expected, strict=True))
    )


def feeds_for(names: Sequence[str], inputs: Inputs) -> dict[str, torch.Tensor]:
    """The inputs by the names of the ONNX model's: by name where the names agree, otherwise in order."""
    tensors = {
        name: leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        for name, leaf in zip(inputs.names, inputs.leaves, strict=True)
        if isinstance(leaf, (torch.Tensor, bool, int, float))
    }
    if all(name in tensors for name in names):
        return {name: tensors[name] for name in names}
    given = [
        tensors[name] for name, leaf in zip(inputs.names, inputs.leaves, strict=True) if isinstance(leaf, torch.Tensor)
    ]
    if len(given) != len(names):
        raise VerificationError(f"the ONNX model has the inputs {list(names)}, and {len(given)} tensors are given")
    return dict(zip(names, given, strict=True))


def _difference(
    name: str, actual: torch.Tensor, expected: Any, rtol: float | None, atol: float | None
) -> OutputDifference:
    if not isinstance(expected, torch.Tensor):
        expected = torch.tensor(expected)
    expected = expected.detach().cpu()
    if expected.is_complex():
        expected = torch.view_as_real(expected)
    if actual.dtype != expected.dtype:
        return OutputDifference(name, np.nan, np.nan, f"element type {actual.dtype}, PyTorch gives {expected.dtype}")
    if actual.shape != expected.shape:
        return OutputDifference(
            name, np.nan, np.nan, f"shape {tuple(actual.shape)}, PyTorch gives {tuple(expected.shape)}"
        )
    default_rtol, default_atol = _TOLERANCES.get(expected.dtype, (0.0, 0.0))
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    a, e = actual.double(), expected.double()
    same = (a == e) | (a.isnan() & e.isnan())
    error = torch.where(same, 0.0, (a - e).abs())
    relative = torch.where(same, 0.0, error / e.abs().clamp_min(torch.finfo(torch.float64).tiny))
    wrong = ~same & ~(error <= atol + rtol * e.abs())
    absolute = float(error.max()) if error.numel() else 0.0
    largest = float(relative.max()) if relative.numel() else 0.0
    if not bool(wrong.any()):
        return OutputDifference(name, absolute, largest)
    place = tuple(int(index) for index in wrong.nonzero()[0])
    return OutputDifference(
        name,
        absolute,
        largest,
        f"{int(wrong.sum())} of {wrong.numel()} elements differ by more than atol={atol:g} + rtol={rtol:g}; the first "
        f"at {list(place)}: {actual[place].item()} in ONNX Runtime, {expected[place].item()} in PyTorch",
    )
