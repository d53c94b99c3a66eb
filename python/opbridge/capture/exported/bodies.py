"""The bodies of regions and of control flow in a program of torch.export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def graphs_of(module: torch.nn.Module) -> Iterator[torch.fx.Graph]:
    """The graph and those of the bodies in it."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield part.graph


def nodes_of(module: torch.nn.Module) -> Iterator[torch.fx.Node]:
    for graph in graphs_of(module):
        yield from graph.nodes


def body_of(argument: torch.fx.Node) -> Any:
    """The body that a node ``get_attr`` names."""
    owner: Any = argument.graph.owning_module
    return owner.get_submodule(argument.target)
