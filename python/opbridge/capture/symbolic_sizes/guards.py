"""Keeps sizes symbolic where Python would convert them to numbers; refuses or warns where it cannot."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from opbridge.capture.patching import patch
from opbridge.capture.rewrites.dynamic_convolutions import keep_convolutions_dynamic
from opbridge.capture.rewrites.dynamic_pools import keep_pools_dynamic
from opbridge.capture.rewrites.dynamic_windows import WINDOWS
from opbridge.capture.rewrites.float_arguments import OF_FLOAT_ARGUMENTS
from opbridge.capture.rewrites.made_by_size import MADE_BY_SIZE
from opbridge.capture.rewrites.products import PRODUCTS
from opbridge.capture.rewrites.quantized_axes import reduce_whole_axes
from opbridge.capture.rewrites.replaced_functions import ReplaceFunctions
from opbridge.capture.rewrites.torch_functions import keep_sizes_in_tensors
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.branches import judge_assumptions, note_branches, note_fixed_sizes
from opbridge.capture.symbolic_sizes.caches_by_size import keep_caches_by_size
from opbridge.capture.symbolic_sizes.conversions import (
    keep_order_of_operations,
    pass_sizes_as_numbers,
    refuse_numbers,
    warn_of_texts,
)
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes, Fixing
from opbridge.capture.symbolic_sizes.equal_masks import SELECTIONS, EqualMasks
from opbridge.capture.symbolic_sizes.long_shapes import forget_long_shapes
from opbridge.capture.symbolic_sizes.multiples import shorten_expressions
from opbridge.capture.symbolic_sizes.operands import take_any_operand
from opbridge.capture.symbolic_sizes.python_functions import (
    bit_length,
    compare_with_infinity,
    divide_as_python,
    round_to_digits,
)
from opbridge.capture.symbolic_sizes.shape_rules import (
    add_missing_shapes,
    keep_sizes_beside_complex,
    leave_overlap_open,
    patch_element_type_of_normal,
    patch_shapes_of_unbind,
    patch_shapes_of_unique,
)
from opbridge.capture.symbolic_sizes.slices import find_indices_of_slices, shorten_sums
from opbridge.torch_compat import symbols as points
from opbridge.torch_compat.size_methods import keep_numel_symbolic


@contextlib.contextmanager
def watch_sizes(
    sizes: DynamicSizes, fixings: dict[str, Fixing], caught: Caught, of_data: bool = False
) -> Iterator[None]:
    """Watches what a model does with symbolic sizes: each operation stays exact, is refused, or causes a warning.
    ``of_data`` includes sizes that depend on data, for which torch would use the example's. Fills ``fixings`` with the
    causes that fix sizes; ``caught`` records refusals."""
    contexts: tuple[contextlib.AbstractContextManager[Any], ...] = (
        keep_sizes_in_tensors(),
        ReplaceFunctions(
            *(EqualMasks(), OF_FLOAT_ARGUMENTS, PRODUCTS, WINDOWS, MADE_BY_SIZE, SELECTIONS, sizes.padding.watched())
        ),
        keep_pools_dynamic(),
        reduce_whole_axes(),
        keep_convolutions_dynamic(),
        patch_shapes_of_unique(),
        patch_element_type_of_normal(),
        patch_shapes_of_unbind(),
        find_indices_of_slices(),
        shorten_sums(),
        leave_overlap_open(),
        keep_sizes_beside_complex(),
        add_missing_shapes(),
        forget_long_shapes(caught),
        refuse_numbers(sizes, caught, of_data),
        note_branches(sizes, caught),
        judge_assumptions(sizes, caught),
        pass_sizes_as_numbers(),
        take_any_operand(caught),
        keep_numel_symbolic(),
        keep_order_of_operations(),
        shorten_expressions(sizes.branches.is_natural),
        warn_of_texts(sizes),
        keep_caches_by_size(sizes, caught),
        patch(points.BIT_LENGTH, bit_length),
        patch(points.ROUND, round_to_digits),
        divide_as_python(),
        compare_with_infinity(),
        note_fixed_sizes(sizes, fixings, caught),
    )
    with contextlib.ExitStack() as until_the_end:
        for context in contexts:
            until_the_end.enter_context(context)
        yield
