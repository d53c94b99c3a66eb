"""Writes to tensors several elements of which share memory, which torch's second pass adds up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.operators import operator_of
from opbridge.capture.source import line_of_stack_trace
from opbridge.capture.state.overwritten_tensors import written_tensors
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload


def refuse_overlapping_writes(exported: torch.export.ExportedProgram) -> None:
    for node in _nodes(exported.graph_module):
        if not isinstance(node.target, OpOverload):
            continue
        operator = operator_of(node.target)
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda made: made.meta.get("val"))
        if any(map(_may_overlap, written_tensors(operator, args, kwargs))):
            raise UnsupportedError(
                f"{operator.key} writes to a tensor several elements of which share memory; call .clone() "
                "before writing",
                line_of_stack_trace(node.meta.get("stack_trace", "")),
            )


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
