"""Fake kernels of custom operators that return an argument where the operator makes a tensor of its sizes.

Captures know tensors by their identity, so they would take the argument for the result from then on.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.torch_compat import find_schema, pytree
from opbridge.torch_compat.fake_tensors import FAKE_KERNEL


def return_new_tensors() -> contextlib.AbstractContextManager[None]:
    """Replaces arguments that fake kernels return by new tensors, unless the schema says that a result is one."""
    registered: Any = FAKE_KERNEL.original

    def kernel(holder: Any) -> Any:
        found = registered.fget(holder)
        if found is None or any(result.alias_info is not None for result in _schema_of(holder.qualname).returns):
            return found

        def run(*args: Any, **kwargs: Any) -> Any:
            given = {id(leaf) for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}

            def as_new(result: torch.Tensor) -> torch.Tensor:
                return torch.empty_like(result) if id(result) in given else result

            return pytree.tree_map_only(torch.Tensor, as_new, found.func(*args, **kwargs))

        return dataclasses.replace(found, func=run)

    return patch(FAKE_KERNEL, property(kernel))


def _schema_of(qualified_name: str) -> Any:
    name, _, overload = qualified_name.partition(".")
    return find_schema(name, "" if overload == "default" else overload)
