"""Facts about PyTorch's operators that a capture needs, read once for each operator from its schema."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.operator_names import stem
from opbridge.torch_compat import CHECK_OF_ASSIGNED_DATA, FakeTensorMode, OpOverload, pytree, schema_of
from opbridge.torch_compat.symbols import DimDynamic, ShapeEnv, StatelessSymbolicContext

# Operators whose result sizes depend on data, although torch does not tag them so.
_UNTAGGED = frozenset(
    {
        "aten::where",
        "aten::nonzero_numpy",
        "aten::repeat_interleave.self_Tensor",
        "aten::tensor_split.tensor_indices_or_sections",
        "aten::_pack_padded_sequence",
        "aten::_pad_packed_sequence",
    }
)

# In training mode these change their running statistics, although their schemas do not say so.
_STATISTICS = frozenset({"running_mean", "running_var"})
_OF_STATISTICS = frozenset({"batch_norm", "native_batch_norm", "cudnn_batch_norm", "instance_norm"})


class Operator:
    """``key`` is ``aten::add.Tensor``; ``names`` are the arguments in the schema's order.

    ``written`` are the names of the arguments that a call changes; ``stem`` is ``add``. ``sizes_depend_on_data``
    is true for ``nonzero`` and similar operators, ``is_property`` for ``sym_size`` and others that return no tensor and
    read no data.
    """

    __slots__ = ("is_property", "key", "names", "sizes_depend_on_data", "stem", "written")

    def __init__(self, overload: OpOverload) -> None:
        schema = schema_of(overload)
        self.key = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.stem = stem(schema.name)
        self.names = tuple(argument.name for argument in schema.arguments)
        self.sizes_depend_on_data = torch.Tag.dynamic_output_shape in overload.tags or self.key in _UNTAGGED
        kinds = {str(result.type) for result in schema.returns}
        reads = torch.Tag.data_dependent_output in overload.tags
        self.is_property = bool(kinds) and not reads and not any("Tensor" in kind for kind in kinds)
        self.written = frozenset(
            argument.name
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        if self.stem in _OF_STATISTICS and schema.name.startswith("aten::"):
            self.written |= _STATISTICS


def aten_overload(name: str) -> OpOverload:
    """The overload of a name such as ``clamp.Tensor``, ``clamp`` or ``aten::clamp``."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    found: OpOverload = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return found


_known: dict[OpOverload, Operator] = {}


def operator_of(overload: OpOverload) -> Operator:
    operator = _known.get(overload)
    if operator is None:
        operator = _known[overload] = Operator(overload)
    return operator


AUTOGRAD_FUNCTION = "opbridge::autograd_function"  # stands for all functions with ``symbolic``

_probed: dict[OpOverload, bool] = {}


def custom_sizes_depend_on_data(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the fake implementation of an operator outside of ``aten`` returns sizes that depend on data.

    False if it has no fake implementation.
    """
    if overload.namespace == "aten":
        return False
    if operator_of(overload).key == AUTOGRAD_FUNCTION:
        return _has_new_symbols(overload, args, kwargs)
    known = _probed.get(overload)
    if known is None:
        known = _probed[overload] = _has_new_symbols(overload, args, kwargs)
    return known


def _has_new_symbols(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    with FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True) as mode:
        static: Any = StatelessSymbolicContext

        def fake(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            return mode.from_tensor(leaf, symbolic_context=static(dynamic_sizes=[DimDynamic.STATIC] * leaf.dim()))

        try:
            results = overload(*pytree.tree_map(fake, args), **pytree.tree_map(fake, kwargs))
        except Exception:
            return False
    tensors = [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
    return any(isinstance(size, torch.SymInt) for tensor in tensors for size in tensor.shape)


def is_assignment_of_data(node: torch.fx.Node) -> bool:
    """Whether the node comes from ``tensor.data = other``: torch records only the check before the assignment."""
    return node.target is CHECK_OF_ASSIGNED_DATA
