"""One case: a sample exported, run in ONNX Runtime and compared with eager PyTorch."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import mpmath
import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

import opbridge
from checking.errors import first_line, reason
from checking.tensors import ROUNDED, as_exact, real, widened
from conformance.operators import Sample
from opbridge.runtime import run, session

PASS, REFUSED, WRONG, RUNTIME_FAILURE, ERROR, CRASH = "pass", "refused", "wrong", "runtime-failure", "error", "crash"
ROUNDING = "rounding"  # beyond the tolerance by rounding alone: see _is_rounding
NOT_IN_EAGER = "not-in-eager"  # PyTorch itself does not run the sample; not counted
RESULTS = (PASS, ROUNDING, REFUSED, WRONG, RUNTIME_FAILURE, ERROR, CRASH)

STANDARD, FUNCTION, KERNEL = "standard ONNX", "ONNX function", "opbridge kernel"
CAPTURES = ("export", "trace")
PEERS = ("dynamo", "torchscript")
EXPORTERS = CAPTURES + PEERS
# opbridge with torch's own symbolic functions, which are written for its TorchScript exporter: docs/compatibility.md.
WITH_TORCH_SYMBOLICS = "torch-symbolics"
BY_TORCH_SYMBOLICS = "torch's symbolic functions"


@dataclasses.dataclass(frozen=True)
class Outcome:
    result: str
    detail: str = ""
    by: str = ""  # the kind of nodes that the operator became, if the case passes


class _Call(torch.nn.Module):
    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.call = sample.call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


def check(sample: Sample, exporter: str, opset: int | None) -> Outcome:
    """``exporter``: opbridge's captures "export" and "trace"; "dynamo" and "torchscript" for torch's own exporters;
    "torch-symbolics" for opbridge with the symbolic functions of the latter."""
    if exporter == WITH_TORCH_SYMBOLICS:
        from conformance.torch_symbolics import register_torch_symbolics

        with register_torch_symbolics() as called:
            outcome = check(sample, "trace", opset)
        return dataclasses.replace(outcome, by=BY_TORCH_SYMBOLICS if called else "")
    model = _Call(sample).eval()
    calls = [sample]
    if sample.resized:
        calls.append(dataclasses.replace(sample, tensors=sample.resized))
    try:
        in_eager = [_in_eager(model, call) for call in calls]
    except Exception as error:
        return Outcome(NOT_IN_EAGER, first_line(error))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        try:
            _export(model, sample, path, exporter, opset)
        except opbridge.UnsupportedError as error:
            return Outcome(REFUSED, reason(error))
        except Exception as error:
            return Outcome(ERROR if exporter in CAPTURES else REFUSED, first_line(error))
        for call, eager in zip(calls, in_eager, strict=True):
            outcome = _compared(path, dataclasses.replace(call, resized=[]), eager, exporter, opset)
            if outcome.result != PASS:
                break
        return outcome


@dataclasses.dataclass(frozen=True)
class _Eager:
    """The results of a sample in eager PyTorch."""

    leaves: list[Any]
    inputs: list[torch.Tensor]  # after the call
    written: list[int]  # the indices of those that it writes to


def _in_eager(model: torch.nn.Module, sample: Sample) -> _Eager:
    inputs, before = _copies(sample), _copies(sample)
    versions = [tensor._version for tensor in inputs]
    with torch.no_grad():
        leaves = [leaf for leaf in pytree.tree_leaves(model(*inputs)) if leaf is not None]
    # Not every kernel increments the version counter.
    written = [
        i for i, tensor in enumerate(inputs) if tensor._version != versions[i] or not _same_bytes(tensor, before[i])
    ]
    return _Eager(leaves, inputs, written)


def _compared(path: pathlib.Path, sample: Sample, eager: _Eager, exporter: str, opset: int | None) -> Outcome:
    try:
        actual, returned = _run(path, _copies(sample))
    except Exception as error:
        return Outcome(RUNTIME_FAILURE, first_line(error))
    # The model must return what a call writes to its inputs.
    if exporter in CAPTURES and not returned.issuperset(eager.written):
        return Outcome(WRONG, "it writes to an input, and the model does not return that")
    expected = eager.leaves + [eager.inputs[i] for i in sorted(returned)]
    wrong = _difference(sample, actual, expected, sorted(returned))
    if not wrong:
        return Outcome(PASS, by=_made_of(path))
    rounding = _is_rounding(sample, exporter, opset, actual, expected, sorted(returned))
    return Outcome(ROUNDING if rounding else WRONG, wrong)


def _copies(sample: Sample) -> list[torch.Tensor]:
    return [tensor.clone() for tensor in sample.tensors]


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.layout is not torch.strided:
        return True
    one, other = (torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage()) for tensor in (a, b))
    return torch.equal(one, other)


def _export(model: torch.nn.Module, sample: Sample, path: pathlib.Path, exporter: str, opset: int | None) -> None:
    args = tuple(_copies(sample))
    sizes = None
    if sample.resized:
        sizes = (tuple(map(_dynamic_dims, sample.tensors, sample.resized)),)
    with torch.no_grad():
        if exporter in CAPTURES:
            opbridge.export(
                model,
                args,
                path,
                opset_version=opset,
                capture=exporter,
                dynamic_shapes=sizes,
                mutations_as_outputs=True,
            )
        else:
            dynamo = exporter == "dynamo"
            torch.onnx.export(
                model, args, os.fspath(path), opset_version=opset, dynamo=dynamo, dynamic_shapes=sizes, verbose=False
            )


def _dynamic_dims(one: torch.Tensor, other: torch.Tensor) -> dict[int, Any] | None:
    sizes = enumerate(zip(one.shape, other.shape, strict=True))
    return {dim: torch.export.Dim.DYNAMIC for dim, (a, b) in sizes if a != b} or None


def _run(path: pathlib.Path, tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], set[int]]:
    """The results, followed by the returned inputs, and the indices of these inputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    running = session(path, sess_options=options)
    names = [value.name for value in running.get_inputs()]
    if len(names) != len(tensors):  # torch's exporters drop unused inputs; the names of the others have their indices
        tensors = [tensors[int(name.rsplit("_", 1)[-1])] for name in names]
    actual = run(running, dict(zip(names, tensors, strict=True)))
    outputs = [value.name for value in running.get_outputs()]
    after = {i: outputs.index(f"{name}_out") for i, name in enumerate(names) if f"{name}_out" in outputs}
    results = [tensor for i, tensor in enumerate(actual) if i not in after.values()]
    return results + [actual[index] for index in after.values()], set(after)


def _difference(sample: Sample, actual: list[torch.Tensor], expected: list[Any], written: list[int]) -> str:
    """Why they differ; empty if they agree."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs, PyTorch returns {len(expected)}"
    exact: list[Any] | None = None
    for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
        e = real(e)
        if a.dtype != e.dtype:
            return f"output {index}: element type {a.dtype}, PyTorch gives {e.dtype}"
        if a.shape != e.shape:
            return f"output {index}: shape {tuple(a.shape)}, PyTorch gives {tuple(e.shape)}"
        try:
            torch.testing.assert_close(a, e, equal_nan=True)
            continue
        except AssertionError as error:
            wrong = f"output {index}: " + " ".join(str(error).split())
        if e.dtype in ROUNDED or sample.op in _IN_MPMATH:
            exact = exact or _exact(sample, written)
            if exact and as_exact(a, e, real(exact[index])):
                continue
        elif not e.is_floating_point() and (
            _sorts_alike(sample, a, e) or (index == 1 and _names_equal_elements(sample, a, e, expected[0]))
        ):
            continue
        return wrong
    return ""


# Functions of x for which eager PyTorch is inexact in float64 too: by up to 8e-7 a little above 5.
_IN_MPMATH: dict[str, Callable[[float], Any]] = {
    "special.bessel_j0": functools.partial(mpmath.besselj, 0),
    "special.bessel_j1": functools.partial(mpmath.besselj, 1),
    "special.bessel_y0": functools.partial(mpmath.bessely, 0),
    "special.bessel_y1": functools.partial(mpmath.bessely, 1),
}


def _widened(sample: Sample) -> list[torch.Tensor]:
    """The sample's tensors in float64 and complex128."""
    return [widened(tensor) for tensor in _copies(sample)]


def _exact(sample: Sample, written: list[int]) -> list[Any] | None:
    """The results of eager PyTorch for the same inputs in float64, or of mpmath; None if PyTorch refuses them."""
    wide = _widened(sample)
    if function := _IN_MPMATH.get(sample.op):
        return [wide[0].clone().apply_(lambda x: _real_number(function(x)))]
    try:
        with torch.no_grad():
            leaves = pytree.tree_leaves(sample.call(*wide))
    except Exception:
        return None
    return [leaf for leaf in leaves if leaf is not None] + [wide[i] for i in written]


def _real_number(value: Any) -> float:
    return math.nan if isinstance(value, mpmath.mpc) else float(value)


def _is_rounding(
    sample: Sample,
    exporter: str,
    opset: int | None,
    actual: list[torch.Tensor],
    expected: list[Any],
    written: list[int],
) -> bool:
    """Whether the mapping is right and only the order of operations differs: the largest difference to the result in
    float64 is at most eager PyTorch's own, or four times that if float64 inputs pass."""
    exact = _exact(sample, written)
    if exact is None or len(exact) != len(actual):
        return False
    as_eager = True
    for a, e, x in zip(actual, map(real, expected), map(real, exact), strict=True):
        if e.dtype not in ROUNDED:
            if not torch.equal(a, e):
                return False
            continue
        if a.shape != e.shape or a.shape != x.shape or a.dtype != e.dtype:
            return False
        ours, eager = ((t.double() - x.double()).abs() for t in (a, e))
        if not (ours.isfinite().all() and ours.max() <= 4 * eager.max()):
            return False
        as_eager &= bool(ours.max() <= eager.max())
    if as_eager:
        return True
    return check(dataclasses.replace(sample, tensors=_widened(sample)), exporter, opset).result == PASS


def _names_equal_elements(sample: Sample, actual: torch.Tensor, expected: torch.Tensor, values: torch.Tensor) -> bool:
    """Whether two tensors of indices along a dim select equal elements of the first input: it is not defined which of
    them kthvalue, mode and similar operators return."""
    data = sample.tensors[0]
    if actual.dtype != torch.int64 or values.dtype != data.dtype or values.shape != expected.shape:
        return False
    for dim in range(data.dim()):
        for indices in (actual, actual.unsqueeze(dim)):
            if indices.dim() != data.dim() or any(
                indices.shape[axis] != data.shape[axis] for axis in range(data.dim()) if axis != dim
            ):
                continue
            if bool((indices < 0).any() or (indices >= data.shape[dim]).any()):
                continue
            named = data.gather(dim, indices).reshape(values.shape)
            if torch.allclose(named, values, rtol=0, atol=0, equal_nan=True):
                return True
    return False


def _sorts_alike(sample: Sample, actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether both are permutations of the first input along a dim with the same result: the order of equal elements
    is not defined."""
    data = sample.tensors[0]
    if actual.dtype != torch.int64 or actual.shape != data.shape or data.dim() == 0:
        return False
    for dim in range(data.dim()):
        indices = actual.sort(dim).values
        all_indices = torch.arange(data.shape[dim])
        if torch.equal(indices, expected.sort(dim).values) and torch.equal(
            indices.movedim(dim, -1), all_indices.expand_as(indices.movedim(dim, -1))
        ):
            ours, theirs = data.gather(dim, actual), data.gather(dim, expected)
            if torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True):
                return True
    return False


def _made_of(path: pathlib.Path) -> str:
    model = onnx.load(path, load_external_data=False)
    functions = {(function.domain, function.name) for function in model.functions}
    custom = {(node.domain, node.op_type) for node in model.graph.node if node.domain not in ("", "ai.onnx")}
    if not custom:
        return STANDARD
    return FUNCTION if custom <= functions else KERNEL
