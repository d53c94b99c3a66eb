"""Writes that torch's second pass gets wrong.

It adds up what is written to tensors several elements of which share memory. A write to windows (unfold) clears what no
window holds. Where dynamic sizes decide whether a tensor is a copy, it takes the answer for the example: a write then
reaches too much, or too little.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.exported.bodies import attribute_of, graphs_of, region_of
from opbridge.capture.operators import Operator, operator_of
from opbridge.capture.source import line_of_stack_trace
from opbridge.capture.state.overwritten_tensors import written_tensors
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload, exporting, schema_of


def refuse_overlapping_writes(exported: torch.export.ExportedProgram) -> None:
    for graph in graphs_of(exported.graph_module):
        for node, called in _calls(graph):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda made: made.meta.get("val"))
            if any(map(_may_overlap, written_tensors(called, args, kwargs))):
                raise _refusal(node, f"{called.key} writes to a tensor several elements of which share memory")
        for node, tensor, what in _writes(graph):
            if any(original.target is _WINDOWS for original in _originals(tensor)):
                raise _refusal(node, f"{what} writes to the result of aten::unfold")


def refuse_writes_beside_possible_copies(exported: torch.export.ExportedProgram) -> None:
    for graph in graphs_of(exported.graph_module):
        positions = {node: position for position, node in enumerate(graph.nodes)}
        for node, tensor, what in _writes(graph):
            if _is_seen_by_possible_copies(tensor, node, positions):
                raise _refusal(node, f"{what} writes to memory that a tensor shares for some sizes alone")


def _refusal(node: torch.fx.Node, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}; call .clone() before writing", line_of_stack_trace(node.meta.get("stack_trace", ""))
    )


def _writes(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, torch.fx.Node, str]]:
    """The nodes that write, what they write to, and what is said of them."""
    for node, called in _calls(graph):
        written: Any = written_tensors(called, node.args, node.kwargs)
        yield from ((node, tensor, called.key) for tensor in written if isinstance(tensor, torch.fx.Node))
    for node in graph.nodes:
        if (region := region_of(node)) is not None:
            body, operands = attribute_of(region[0]).graph, region[1]
            roots = {_originals(tensor)[-1]: what for _, tensor, what in _writes(body)}
            for placeholder, operand in zip(body.find_nodes(op="placeholder"), operands, strict=False):
                if placeholder in roots and isinstance(operand, torch.fx.Node):
                    yield node, operand, roots[placeholder]


def _is_seen_by_possible_copies(
    tensor: torch.fx.Node, write: torch.fx.Node, positions: dict[torch.fx.Node, int]
) -> bool:
    """Whether tensors are read after the write of which the sizes decide whether it reaches them."""
    originals = _originals(tensor)
    root, copies_above = originals[-1], frozenset(filter(_may_copy, originals))
    if copies_above and root.op != "call_function":
        return True  # the caller may read it
    pending = [(root, frozenset[torch.fx.Node]())]
    while pending:
        node, copies = pending.pop()
        for user in node.users:
            if _original(user) is node:
                may_copy_before = positions[user] < positions[write] and _may_copy(user)
                pending.append((user, copies | {user} if may_copy_before else copies))
            elif copies != copies_above and _reads(user) and positions[user] >= positions[write] and user is not write:
                return True
    return False


def _originals(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The node, the one that it may be a view of, and so on."""
    originals = [node]
    while (original := _original(originals[-1])) is not None:
        originals.append(original)
    return originals


def _original(node: torch.fx.Node) -> torch.fx.Node | None:
    """The tensor, or list of tensors, whose memory the result shares, for some sizes at least."""
    shares = node.target is operator.getitem or exporting.is_of_vmap(node.target)
    if not shares and isinstance(node.target, OpOverload):
        results = schema_of(node.target).returns
        shares = bool(results) and results[0].alias_info is not None
    original = node.args[0] if shares and node.args else None
    return original if isinstance(original, torch.fx.Node) else None


_WINDOWS = torch.ops.aten.unfold.default
_COPYING_BY_LAYOUT = {f"aten::{name}" for name in ("contiguous", "reshape", "reshape_as", "flatten", "ravel")}


def _may_copy(node: torch.fx.Node) -> bool:
    """Whether a dynamic size decides if the result is a copy."""
    return (
        isinstance(node.target, OpOverload)
        and schema_of(node.target).name in _COPYING_BY_LAYOUT
        and any(isinstance(size, torch.SymInt) for size in node.meta["val"].shape)
    )


def _reads(node: torch.fx.Node) -> bool:
    return not (isinstance(node.target, OpOverload) and operator_of(node.target).is_property)


def _calls(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, Operator]]:
    for node in graph.nodes:
        if isinstance(node.target, OpOverload):
            yield node, operator_of(node.target)


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
