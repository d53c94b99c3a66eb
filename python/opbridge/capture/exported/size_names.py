"""The names that a caller gives to the dynamic sizes of an ExportedProgram."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from opbridge.capture.inputs import Inputs, read_inputs_of
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
from opbridge.errors import InvalidArgumentError


def names_of_symbols(exported: torch.export.ExportedProgram, **declared: Any) -> dict[str, str]:
    """Names for the program's symbols, from the arguments of DynamicSizes. The program decides what is dynamic: an axis
    that it makes constant is an error."""
    sizes = DynamicSizes(_inputs_of(exported), **declared)
    shapes = shapes_of_inputs(exported)
    sizes.check_that_they_are_dynamic(shapes)
    return sizes.name_symbols(shapes)


def shapes_of_inputs(exported: torch.export.ExportedProgram) -> list[torch.Size | None]:
    """The shapes of the inputs, in order; None for those that are not tensors."""
    shapes: list[torch.Size | None] = []
    for node, spec in zip(exported.graph.nodes, exported.graph_signature.input_specs, strict=False):
        if spec.kind is InputKind.USER_INPUT:
            value: Any = node.meta.get("val")
            shapes.append(value.shape if isinstance(value, torch.Tensor) else None)
    return shapes


def _inputs_of(exported: torch.export.ExportedProgram) -> Inputs:
    signature = exported.module_call_graph[0].signature
    if exported.example_inputs is None or signature is None or signature.forward_arg_names is None:
        raise InvalidArgumentError("the ExportedProgram has no example inputs, so its dynamic sizes cannot be named")
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in signature.forward_arg_names]
    return read_inputs_of(inspect.Signature(parameters), "ExportedProgram", *exported.example_inputs)
