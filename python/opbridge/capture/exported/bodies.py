"""The bodies of regions and of control flow in a program of torch.export."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.torch_compat import name_of

# Operators that call a body once: the indices of the body and of its first operand.
_REGIONS = {
    "wrap_with_set_grad_enabled": (1, 2),
    "wrap_with_autocast": (4, 5),
    "invoke_subgraph": (0, 2),
    "tag_activation_checkpoint": (0, 1),
    "wrap_activation_checkpoint": (0, 1),
    "wrap": (0, 1),
}


def region_of(node: torch.fx.Node) -> tuple[Any, tuple[Any, ...]] | None:
    """The argument that names the body, if the node calls one once, and what it passes to the body."""
    places = _REGIONS.get(name_of(node.target))
    return None if places is None else (node.args[places[0]], node.args[places[1] :])


def graphs_of(module: torch.nn.Module) -> Iterator[torch.fx.Graph]:
    """The graph and those of the bodies in it."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield part.graph


def nodes_of(module: torch.nn.Module) -> Iterator[torch.fx.Node]:
    for graph in graphs_of(module):
        yield from graph.nodes


def attribute_of(node: torch.fx.Node) -> Any:
    """What a node ``get_attr`` names: a body or a constant."""
    return operator.attrgetter(str(node.target))(node.graph.owning_module)
