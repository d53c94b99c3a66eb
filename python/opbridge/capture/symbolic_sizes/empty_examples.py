"""Dynamic sizes that are 0 in the example, as the length of a cache before the first token.

torch takes every size for positive when it makes the symbol, so that a condition such as ``n == 0`` would be false
before anything can ask it, though the model runs the other way in the example.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from opbridge.capture.patching import patch
from opbridge.torch_compat.symbols import NEW_SYMBOL, SYMBOL_OF_SIZE

if TYPE_CHECKING:
    from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes


@contextlib.contextmanager
def let_sizes_be_zero(sizes: DynamicSizes) -> Iterator[None]:
    """Makes the symbols of sizes that are 0 in the example such that they may be 0."""
    original, make = NEW_SYMBOL.original, SYMBOL_OF_SIZE.original

    def may_be_zero(prefix: Any, index: int, *, positive: bool, **assumptions: Any) -> Any:
        return make(prefix, index, nonnegative=positive, **assumptions)

    def new_symbol(env: Any, value: Any, *args: Any, **options: Any) -> Any:
        if type(value) is not int or value != 0:
            return original(env, value, *args, **options)
        with patch(SYMBOL_OF_SIZE, may_be_zero):
            return original(env, value, *args, **options)

    with patch(NEW_SYMBOL, new_symbol) if sizes.any_is_zero else contextlib.nullcontext():
        yield
