"""Proof that both ends of the bridge compute the same: PyTorch in eager mode against ONNX Runtime."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from opbridge import _core
from opbridge.capture.attributes import attributes_kept, contents_kept
from opbridge.capture.environment import inference
from opbridge.capture.inputs import Inputs, as_module, read_inputs
from opbridge.errors import Error
from opbridge.runtime import run, session


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

    def text(self) -> str:
        """What differs, a line for each output."""
        lines = [f"{output.name}: {output.mismatch}" for output in self.outputs if output.mismatch]
        return "\n  ".join(["ONNX Runtime and PyTorch differ:", *lines]) if lines else "all outputs agree"


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

    PyTorch runs in evaluation mode, without gradients and without the fast paths of ``nn.TransformerEncoder``.

    Values, shapes and element types must agree; NaN equals NaN. The tolerances default by element type: 1e-4 for
    float32, 1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16, both relative and absolute, 0 for integers. Raises
    VerificationError on a mismatch, which names the first node of the program whose value differs and the line of the
    model it comes from; returns the differences otherwise.
    """
    result = compare(path, model, args, kwargs, rtol=rtol, atol=atol)
    if not result.ok:
        raise VerificationError(f"{result.text()}\n{_origin(path, model, args, kwargs, rtol, atol)}")
    return result


def _origin(path: Any, model: Any, args: Any, kwargs: Any, rtol: float | None, atol: float | None) -> str:
    from opbridge.first_difference import first_difference

    module = as_module(model)
    try:
        return first_difference(path, module, read_inputs(module, args, kwargs), rtol, atol)
    except Exception as error:  # the mismatch is the news, whatever keeps its origin from being found
        return f"where it begins could not be found: {next(iter(str(error).splitlines()), type(error).__name__)}"


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
    actual = run(running, feeds_for(names, inputs))
    outputs = [value.name for value in running.get_outputs()]
    # What the model writes to stays the caller's.
    inputs = inputs.copied()
    with inference(module), attributes_kept(module), contents_kept(module.buffers()):
        expected = [leaf for leaf in pytree.tree_leaves(module(*inputs.args, **inputs.kwargs)) if leaf is not None]
        expected = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in expected]
        expected += _written(outputs[len(expected) :], module, inputs)
    if len(actual) != len(expected):
        raise VerificationError(f"the ONNX model has {len(actual)} outputs, PyTorch returns {len(expected)}")
    return Verification(
        tuple(difference(name, a, e, rtol, atol) for name, a, e in zip(outputs, actual, expected, strict=True))
    )


def _written(names: Sequence[str], module: torch.nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """The inputs and buffers, which the model has just written to, that the outputs ``NAME_out`` stand for."""
    tensors = dict(zip(inputs.names, inputs.leaves, strict=True)) | dict(module.named_parameters())
    tensors |= dict(module.named_buffers())
    written = (tensors.get(name.removesuffix("_out")) for name in names if name.endswith("_out"))
    return [tensor.clone() for tensor in written if isinstance(tensor, torch.Tensor)]


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


def difference(
    name: str, actual: torch.Tensor, expected: Any, rtol: float | None, atol: float | None
) -> OutputDifference:
    if not isinstance(expected, torch.Tensor):
        expected = torch.tensor(expected)
    expected = expected.detach().cpu()
    if expected.is_complex():
        expected = torch.view_as_real(expected)
    if actual.dtype != expected.dtype:
        return OutputDifference(
            name, math.nan, math.nan, f"element type {actual.dtype}, PyTorch gives {expected.dtype}"
        )
    if actual.shape != expected.shape:
        return OutputDifference(
            name, math.nan, math.nan, f"shape {tuple(actual.shape)}, PyTorch gives {tuple(expected.shape)}"
        )
    actual, expected = actual.contiguous(), expected.contiguous()
    return OutputDifference(
        name,
        *_core.compare_tensors(expected.dtype, expected.shape, actual.data_ptr(), expected.data_ptr(), rtol, atol),
    )
