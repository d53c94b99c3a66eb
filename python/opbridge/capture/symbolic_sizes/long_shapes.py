"""Shapes of long expressions, which torch computes anew for each call.

torch remembers the shapes of the results of a call. To check what it remembers, it makes a second tensor of them, whose
strides it derives and compares by sympy. Where sizes are long expressions, as those of the padded windows of an image,
this takes half of the time of a capture, more than is saved.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.suppressed_errors import Caught
from opbridge.torch_compat import pytree
from opbridge.torch_compat.fake_tensors import MAKE_CACHE_ENTRY, NotCached

_LONG = 6  # operations; sizes behind a few strided convolutions have no more, and are remembered


def forget_long_shapes(caught: Caught) -> contextlib.AbstractContextManager[None]:
    """Leaves tensors of which a size is a long expression out of what torch remembers of calls. It remembers nothing of
    a call either if the comparison of the strides fails."""
    original = MAKE_CACHE_ENTRY.original

    def make_entry(mode: Any, *call: Any) -> Any:
        *_, result = call
        if any(_is_long(size) for leaf in pytree.tree_leaves(result) for size in getattr(leaf, "shape", ())):
            raise NotCached("a size is a long expression")
        return caught.ignoring(lambda: original(mode, *call))

    return patch(MAKE_CACHE_ENTRY, make_entry)


def _is_long(size: Any) -> bool:
    return type(size) is torch.SymInt and size.node.expr.count_ops() > _LONG
