"""The regions of torch.autocast in a program of torch.export, whose casts torch inserts in a second pass."""

from __future__ import annotations

import operator
from typing import Any

import torch

from opbridge.capture.exported.bodies import attribute_of, graphs_of, nodes_of, region_of
from opbridge.capture.rewrites.recurrent import refuse_in_autocast
from opbridge.capture.source import line_of_stack_trace
from opbridge.torch_compat import OpOverload, has_kernel, name_of


def casts(node: torch.fx.Node) -> bool:
    """Whether the node is a region that inserts casts on the CPU."""
    if name_of(node.target) != "wrap_with_autocast":
        return False
    device, _, enabled = node.args[:3]
    return bool(enabled and device == "cpu")


def keep_element_types(module: torch.fx.GraphModule) -> None:
    """Casts the results of operators that torch.autocast does not know to the types that they have in these regions.

    autocast casts for the operators that these call, as for the ``mm`` in ``inner``. The second pass does not see them,
    and would compute in the types of the arguments."""
    regions = [region for node in nodes_of(module) if casts(node) and (region := region_of(node))]
    # A region in another one is also among the graphs of that.
    for graph in dict.fromkeys(graph for body, _ in regions for graph in graphs_of(attribute_of(body))):
        for node in [*graph.nodes]:
            refuse_in_autocast(node.target, line_of_stack_trace(node.meta.get("stack_trace") or ""))
            value = node.meta.get("val")
            if _is_composed(node.target) and isinstance(value, torch.Tensor) and value.is_floating_point():
                with graph.inserting_after(node):
                    cast = graph.call_function(torch.ops.aten.to.dtype, (node, value.dtype))
                cast.meta = dict(node.meta)
                node.replace_all_uses_with(cast, lambda user, cast=cast: user is not cast)
        owner: Any = graph.owning_module
        owner.recompile()


def _is_composed(target: Any) -> bool:
    """Whether the node calls an operator that calls others, or takes one of its results."""
    if not isinstance(target, OpOverload):
        return target is operator.getitem
    return has_kernel(target, "CompositeImplicitAutograd") and not has_kernel(target, "AutocastCPU")
