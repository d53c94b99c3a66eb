"""Verifies that both ends of the bridge compute the same: PyTorch in eager mode and ONNX Runtime."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.environment import Mode, enter_inference
from opbridge.capture.failures import failure_of
from opbridge.capture.inputs import Inputs, as_module, read_inputs
from opbridge.capture.state.attributes import restore_attributes, restore_contents
from opbridge.errors import Error
from opbridge.runtime import run, session
from opbridge.torch_compat import pytree


class VerificationError(Error):
    """The model's results differ from PyTorch's."""


@dataclasses.dataclass(frozen=True)
class OutputDifference:
    """The difference of one output of ONNX Runtime from PyTorch's."""

    name: str
    max_absolute: float
    max_relative: float
    mismatch: str = ""  # describes the difference; empty if the output agrees


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
        """The differences, one line per output."""
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

    PyTorch runs in evaluation mode without gradients. Inputs are matched by order, whatever their names in the file;
    items of dicts and of ``**kwargs`` are matched by name.

    Values, shapes and element types must agree; NaN equals NaN. Default tolerances, relative and absolute, depend on
    the element type: 1e-4 for float32, 1e-6 for float64, 1e-2 for float16, 5e-2 for bfloat16, 0 for integers. Returns
    the differences. On a mismatch, raises VerificationError, which names the first node of the program whose value
    differs and its source line.
    """
    return proven(Comparison(path, model, args, kwargs, rtol, atol))


def proven(comparison: Comparison) -> Verification:
    """The differences; raises VerificationError on a mismatch."""
    result = comparison.result()
    if not result.ok:
        raise VerificationError(f"{result.text()}\n{_origin(comparison)}")
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
    """Like verify, but always returns the differences."""
    return Comparison(path, model, args, kwargs, rtol, atol).result()


def _origin(comparison: Comparison) -> str:
    from opbridge.first_difference import first_difference

    try:
        return first_difference(comparison)
    except Exception as error:  # the mismatch must be reported even if its origin is not found
        return f"its origin was not found: {next(iter(str(error).splitlines()), type(error).__name__)}"


class Comparison:
    """One run of both ends on the same inputs. ``expected`` are PyTorch's outputs, ``feeds`` are ONNX Runtime's
    inputs other than parameters of the model."""

    def __init__(
        self,
        path: Any,
        model: Any,
        args: Any,
        kwargs: Any,
        rtol: float | None = None,
        atol: float | None = None,
        mode: Mode = "evaluation",
    ) -> None:
        self.path = path
        self.mode = mode
        self.module = as_module(model)
        self.inputs = read_inputs(self.module, args, kwargs)
        self.tolerances = (rtol, atol)
        running = session(path)
        self.names = [value.name for value in running.get_outputs()]
        names, parameters = self._separated([value.name for value in running.get_inputs()])
        self.feeds = feeds_for(names, self.inputs)
        self.actual = run(running, self.feeds | parameters)
        self.expected = self._run_module()

    def result(self) -> Verification:
        return self.against(self.actual)

    def against(self, actual: Sequence[torch.Tensor]) -> Verification:
        """The differences of other outputs from PyTorch's."""
        if len(actual) != len(self.expected):
            raise VerificationError(f"the ONNX model has {len(actual)} outputs, PyTorch returns {len(self.expected)}")
        triples = zip(self.names, actual, self.expected, strict=True)
        return Verification(tuple(difference(name, a, e, *self.tolerances) for name, a, e in triples))

    def _separated(self, names: list[str]) -> tuple[list[str], dict[str, torch.Tensor]]:
        """The names without those of parameters, which follow the others, and these parameters."""
        state = self.module.state_dict()
        given = len(self.inputs.tensors)
        if len(names) <= given or not all(name in state for name in names[given:]):
            return names, {}
        return names[:given], {name: state[name] for name in names[given:]}

    def _run_module(self) -> list[Any]:
        inputs = self.inputs.copied()  # keeps writes of the model from the caller's tensors
        module = self.module
        with enter_inference(module, self.mode), restore_attributes(module), restore_contents(module.buffers()):
            try:
                returned = module(*inputs.args, **inputs.kwargs)
            except Exception as error:
                raise failure_of(module, inputs, error) from error
            outputs = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
            outputs = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in outputs]
            return outputs + self._written(self.names[len(outputs) :], inputs)

    def _written(self, names: Sequence[str], inputs: Inputs) -> list[torch.Tensor]:
        """The inputs and buffers that the model has just written, for the outputs ``NAME_out``."""
        tensors = dict(self.module.named_parameters()) | dict(self.module.named_buffers())
        tensors |= feeds_for(list(self.feeds), inputs)
        written = (tensors.get(name.removesuffix("_out")) for name in names if name.endswith("_out"))
        return [tensor.clone() for tensor in written if isinstance(tensor, torch.Tensor)]


def feeds_for(names: Sequence[str], inputs: Inputs) -> dict[str, torch.Tensor]:
    """The inputs of an ONNX model by their names in the file: in order, except for items of dicts.

    A model that opbridge did not write may have numbers as inputs, and may lack unused inputs.
    """
    leaves = list(zip(inputs.names, inputs.leaves, inputs.are_ordered, strict=True))
    given = [item for item in leaves if isinstance(item[1], torch.Tensor)]
    if len(given) != len(names):
        given = [item for item in leaves if isinstance(item[1], (torch.Tensor, bool, int, float))]
    by_name = {name: leaf for name, leaf, _ in given}
    if len(given) != len(names):
        if not set(names) <= set(by_name):
            count = len(inputs.tensors)
            raise VerificationError(f"the ONNX model has the inputs {list(names)}, but {count} tensors are given")
        paired = {name: by_name[name] for name in names}
    else:
        unordered = {name for name, _, is_ordered in given if not is_ordered}
        by_keyword = unordered == {name for name, item in zip(names, given, strict=True) if not item[2]}
        paired = {
            name: by_name[name] if by_keyword and name in unordered else leaf
            for name, (_, leaf, _) in zip(names, given, strict=True)
        }
    return {name: leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf) for name, leaf in paired.items()}


def difference(
    name: str, actual: torch.Tensor, expected: Any, rtol: float | None, atol: float | None
) -> OutputDifference:
    expected = in_pairs(expected)
    if actual.dtype != expected.dtype:
        return OutputDifference(
            name, math.nan, math.nan, f"element type {actual.dtype}, PyTorch returns {expected.dtype}"
        )
    if actual.shape != expected.shape:
        return OutputDifference(
            name, math.nan, math.nan, f"shape {tuple(actual.shape)}, PyTorch returns {tuple(expected.shape)}"
        )
    actual, expected = actual.contiguous(), expected.contiguous()
    return OutputDifference(
        name,
        *_core.compare_tensors(expected.dtype, expected.shape, actual.data_ptr(), expected.data_ptr(), rtol, atol),
    )


def in_pairs(value: Any) -> torch.Tensor:
    """Converts an output of PyTorch to its ONNX form: numbers become tensors, complex numbers become pairs."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    tensor = tensor.detach().cpu()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
