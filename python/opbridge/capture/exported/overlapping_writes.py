"""Writes that torch's second pass gets wrong.

It adds up what is written to tensors several elements of which share memory. Where dynamic sizes decide whether a
tensor is a copy, it takes the answer for the example, and forgets that a write may reach the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.operators import Operator, operator_of
from opbridge.capture.source import line_of_stack_trace
from opbridge.capture.state.overwritten_tensors import written_tensors
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload, schema_of


def refuse_overlapping_writes(exported: torch.export.ExportedProgram) -> None:
    for node, operator in _calls(exported.graph_module):
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda made: made.meta.get("val"))
        if any(map(_may_overlap, written_tensors(operator, args, kwargs))):
            raise _refusal(node, f"{operator.key} writes to a tensor several elements of which share memory")


def refuse_writes_to_possible_copies(exported: torch.export.ExportedProgram) -> None:
    for node, operator in _calls(exported.graph_module):
        written: Any = written_tensors(operator, node.args, node.kwargs)
        if any(map(_may_be_a_copy, written)):
            raise _refusal(node, f"{operator.key} writes to what is a copy for some sizes and a view for others")


def _refusal(node: torch.fx.Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}; call .clone() before writing", line_of_stack_trace(node.meta.get("stack_trace", ""))
    )


_COPYING_BY_LAYOUT = {f"aten::{name}" for name in ("contiguous", "reshape", "reshape_as", "flatten", "ravel")}


def _may_be_a_copy(node: Any) -> bool:
    """Whether a dynamic size decides if the tensor, or one that it is a view of, is a copy."""
    while isinstance(node, torch.fx.Node) and isinstance(node.target, OpOverload):
        schema = schema_of(node.target)
        if schema.name in _COPYING_BY_LAYOUT and any(isinstance(size, torch.SymInt) for size in node.meta["val"].shape):
            return True
        if not schema.returns or schema.returns[0].alias_info is None:
            return False
        node = node.args[0]
    return False


def _calls(module: torch.nn.Module) -> Iterator[tuple[torch.fx.Node, Operator]]:
    for node in _nodes(module):
        if isinstance(node.target, OpOverload):
            yield node, operator_of(node.target)


def _nodes(module: torch.nn.Module) -> Iterator[torch.fx.Node]:
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from part.graph.nodes


def _may_overlap(tensor: Any) -> bool:
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return False
    lengths = [
        (_number(stride), _number(size))
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if not (isinstance(size, int) and size == 1)
    ]
    if any(size == 0 for _, size in lengths):
        return False
    extent = 1
    for stride, size in sorted(lengths):
        if stride == 0 or (size > 1 and stride < extent):
            return True
        extent += (size - 1) * stride
    return False


def _number(size: Any) -> int:
    """A size or stride; that of the example if it is dynamic."""
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else 2
