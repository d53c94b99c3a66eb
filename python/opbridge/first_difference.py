"""Locates a difference: the first node of the captured program whose value differs from PyTorch's."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import onnxruntime
import torch
from torch.export.graph_signature import InputKind

from opbridge import _core
from opbridge.capture import patch_torch
from opbridge.capture.autograd_function.calls import capture_with_functions, use_calls
from opbridge.capture.exported.torch_export import bridged, export_program
from opbridge.capture.inputs import Inputs
from opbridge.capture.program import Program
from opbridge.capture.structures import leaves_of
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
from opbridge.errors import UnsupportedError
from opbridge.runtime import run, session
from opbridge.symbolics.registry import registry_for

if TYPE_CHECKING:
    from opbridge.artifacts import CallError
    from opbridge.verification import Comparison, OutputDifference


def first_difference(comparison: Comparison) -> str:
    """Describes the first operator whose value differs, its line, and by how much.

    The model is captured by torch.export and lowered again at the opset of the file, with every value as an output. The
    values are compared with those of the captured program in PyTorch, in order. If all agree, the text names the part
    at fault: the capture, a simplification, ONNX Runtime, or the file. Errors of the capture propagate.
    """
    differences, returned = _differences(comparison)
    for found, operator, line in differences:
        if found.mismatch:
            where = f"of {operator} at {line}" if line else f"of {operator}"
            return f"the first difference is the value {where}\n  {found.mismatch}"
    outputs = [leaf for leaf in leaves_of(returned) if leaf is not None]
    from opbridge.verification import difference, in_pairs

    for name, output, expected in zip(comparison.names, outputs, comparison.expected, strict=False):
        found = difference(name, in_pairs(output), expected, *comparison.tolerances)
        if found.mismatch:
            return (
                "every operator agrees, but the program captured by torch.export differs from the model: it "
                "fixes what the model read or decided in Python during the capture\n"
                f"  {name}: {found.mismatch}"
            )
    return _part_at_fault(comparison)


def errors_of_calls(comparison: Comparison) -> list[CallError]:
    """The error of each PyTorch operator's result; empty if the model cannot be captured again."""
    try:
        differences, _ = _differences(comparison)
    except Exception:  # the page is drawn without colours then
        return []
    return [
        (f"{found.name} {operator}", found.max_absolute, found.max_relative, found.mismatch)
        for found, operator, _ in differences
    ]


def _differences(comparison: Comparison) -> tuple[list[tuple[OutputDifference, str, str]], Any]:
    """The difference of each value of the captured program, its operator and line; and what the program returns."""
    from opbridge.verification import difference

    exported, program = _captured(comparison)
    nodes = _core.expose_values(program.graph)
    names = [name for name, _, _ in nodes]
    results = _run(comparison, program, names, simplify=False) if names else []
    actual = dict(zip(names, results, strict=True))
    wanted = _Values(exported)
    with torch.no_grad(), use_calls(program.calls):
        returned = wanted.run(*_arguments(exported, comparison.inputs.copied()))
    differences = [
        (difference(name, actual[name], wanted.values[name], *comparison.tolerances), operator, line)
        for name, operator, line in nodes
        if name in wanted.values
    ]
    return differences, returned


def _part_at_fault(comparison: Comparison) -> str:
    """The part at fault if the captured program and each of its operators agree with PyTorch."""
    if _agrees(comparison, simplify=True):
        if comparison.label:
            return "a new export with these inputs agrees: the file fixes a size or a value of the inputs of its export"
        return (
            "a new export of this model agrees: the file was exported from another state (weights, inputs, "
            "export options), has the branch that other inputs took, as its export warned, or was changed afterwards"
        )
    if _agrees(comparison, simplify=False):
        return "every operator agrees: the difference comes from a simplification; use export(..., simplify=False)"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if comparison.against(
        run(session(comparison.path, sess_options=options, libraries=comparison.libraries), comparison.feeds)
    ).ok:
        return (
            "every operator agrees: the difference comes from ONNX Runtime's own optimizations "
            "(SessionOptions.graph_optimization_level switches them off)"
        )
    return "all values agree when they are outputs; ONNX Runtime computes them differently otherwise"


def _agrees(comparison: Comparison, simplify: bool) -> bool:
    _, program = _captured(comparison)
    return comparison.against(_run(comparison, program, comparison.names, simplify)).ok


def _run(comparison: Comparison, program: Program, names: list[str], simplify: bool) -> list[torch.Tensor]:
    """The program's outputs from ONNX Runtime, lowered at the opset of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        opset = _core.opset_of(os.fspath(comparison.path))
        _core.export_graph(
            program.graph, path, registry_for(program, opset), opset=opset, custom_opsets={},
            external_data="automatic", source_lines=False, simplify=simplify, mutations_as_outputs=True,
            input_names=list(comparison.feeds), output_names=names,
        )  # fmt: skip
        return run(session(path, libraries=comparison.libraries), comparison.feeds)


def _captured(comparison: Comparison) -> tuple[torch.export.ExportedProgram, Program]:
    """Captures with the dynamic sizes of the file, or without them if the capture refuses them."""
    try:
        return _capture(comparison, _axes_of(comparison))
    except UnsupportedError:
        return _capture(comparison, {})


def _capture(comparison: Comparison, axes: dict[str, dict[int, str]]) -> tuple[torch.export.ExportedProgram, Program]:
    exported: Any = None
    sizes = DynamicSizes(comparison.inputs, dynamic_axes=axes, input_names=list(comparison.feeds))
    inputs = sizes.without_ones()

    def capture() -> _core.Graph:
        nonlocal exported
        exported = export_program(comparison.module, inputs, sizes, [])
        return bridged(exported, sizes)

    with patch_torch(comparison.module, comparison.mode, comparison.with_gradients):
        program = capture_with_functions(comparison.module, capture)
    return exported, program


def _axes_of(comparison: Comparison) -> dict[str, dict[int, str]]:
    """The dynamic axes of the file's inputs, in torch.onnx's form."""
    axes = {
        value.name: {
            axis: size for axis, size in enumerate(value.shape) if isinstance(size, str) and size.isidentifier()
        }
        for value in session(comparison.path, libraries=comparison.libraries).get_inputs()
    }
    return {name: sizes for name, sizes in axes.items() if sizes}


class _Values(torch.fx.Interpreter):
    """Runs the program and keeps a copy of each node's value, under its name in the graph."""

    def __init__(self, exported: torch.export.ExportedProgram) -> None:
        super().__init__(exported.graph_module)
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self._keep(n.name, result)
        return result

    def _keep(self, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self.values[name] = value.clone()
        elif isinstance(value, (list, tuple)):
            for i, element in enumerate(value):
                self._keep(f"{name}.{i}", element)


def _arguments(exported: torch.export.ExportedProgram, inputs: Inputs) -> list[Any]:
    leaves = iter(inputs.leaves)
    arguments: list[Any] = []
    for spec in exported.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            arguments.append(next(leaves))
        elif spec.target in exported.state_dict:
            arguments.append(exported.state_dict[str(spec.target)].detach().clone())
        else:
            constant = exported.constants[str(spec.target)]
            arguments.append(constant.clone() if isinstance(constant, torch.Tensor) else constant)
    return arguments
