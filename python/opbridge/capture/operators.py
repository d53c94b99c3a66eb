"""Names of PyTorch's operators and of their arguments, read once for each operator."""

from __future__ import annotations

import torch


class Operator:
    """``key`` is ``aten::add.Tensor``; ``names`` are the arguments in the schema's order.

    ``written`` are the names of the arguments that a call changes; ``stem`` is ``add``. ``sizes_depend_on_data``
    holds for ``nonzero`` and its like.
    """

    __slots__ = ("key", "names", "sizes_depend_on_data", "stem", "written")

    def __init__(self, overload: torch._ops.OpOverload) -> None:
        schema = overload._schema
        self.key = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
        self.stem = schema.name.rpartition("::")[2]
        self.names = tuple(argument.name for argument in schema.arguments)
        self.sizes_depend_on_data = torch.Tag.dynamic_output_shape in overload.tags
        self.written = frozenset(
            argument.name
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        )


_known: dict[torch._ops.OpOverload, Operator] = {}


def operator_of(overload: torch._ops.OpOverload) -> Operator:
    operator = _known.get(overload)
    if operator is None:
        operator = _known[overload] = Operator(overload)
    return operator


# They check what the capture already knows.
ASSERTIONS = frozenset(
    {
        "aten::_assert_scalar",
        "aten::_assert_tensor_metadata",
        "aten::_assert_async",
        "aten::_assert_async.msg",
        "aten::_functional_assert_async.msg",
        "aten::_functional_assert_scalar",
        "aten::_print",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
        "aten::_functional_sym_constrain_range",
        "aten::_functional_sym_constrain_range_for_size",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit._RecordFunction",
    }
)
