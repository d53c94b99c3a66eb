"""Where a model and PyTorch part: the first node of the captured program whose value differs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from opbridge import _core
from opbridge.capture.bridge import bridge
from opbridge.capture.environment import capturing
from opbridge.capture.functions import functions_kept_whole
from opbridge.capture.inputs import Inputs
from opbridge.capture.program import Program
from opbridge.runtime import run, session
from opbridge.symbolics.registry import registry_for


def first_difference(
    path: str | os.PathLike[str], model: torch.nn.Module, inputs: Inputs, rtol: float | None, atol: float | None
) -> str:
    """A sentence that names the first operator whose value differs, its line, and by how much.

    The model is captured by torch.export and mapped again at the opset of ``path``, with every value an output; the
    values are compared with those of the captured program in PyTorch, in order. An error of the capture is passed on.
    """
    with capturing(model), functions_kept_whole() as calls:
        exported = torch.export.export(model, inputs.args, inputs.kwargs, strict=False)
    program = Program(bridge(exported), calls)
    nodes = _core.expose_values(program.graph)
    with tempfile.TemporaryDirectory() as folder:
        every_value = Path(folder) / "values.onnx"
        opset = _core.opset_of(os.fspath(path))
        names = [name for name, _, _ in nodes]
        _core.export_graph(
            program.graph, str(every_value), registry_for(program, opset), opset=opset, custom_opsets={},
            external_data="automatic", source_lines=False, simplify=False, input_names=[], output_names=names,
        )  # fmt: skip
        running = session(every_value)
    wanted = _Values(exported)
    leaves = [leaf for leaf in inputs.leaves if isinstance(leaf, torch.Tensor)]
    feeds = dict(zip((value.name for value in running.get_inputs()), leaves, strict=True))
    actual = dict(zip(names, run(running, feeds), strict=True))
    with torch.no_grad():
        wanted.run(*_arguments(exported, inputs))
    from opbridge.verification import difference

    for name, operator, line in nodes:
        if name in wanted.values:
            found = difference(name, actual[name], wanted.values[name], rtol, atol)
            if found.mismatch:
                where = f"of {operator} at {line}" if line else f"of {operator}"
                return f"the first value that differs is that {where}\n  {found.mismatch}"
    return (
        "with every value kept, all agree: the difference comes from a simplification (compare with simplify=False), "
        "or from ONNX Runtime's own optimizations"
    )


class _Values(torch.fx.Interpreter):
    """Runs the program and keeps a copy of what each node makes, by the names that the graph has for it."""

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
