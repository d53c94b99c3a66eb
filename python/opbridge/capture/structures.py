"""Dataclasses, and classes derived from dict, that a model returns: their tensors are leaves, like those of a dict."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from typing import Any

import torch

from opbridge.torch_compat import pytree


def leaves_of(value: Any) -> list[Any]:
    """The leaves of a structure. Makes its classes known to torch, as torch.export.register_dataclass does."""
    while True:
        leaves: list[Any] = pytree.tree_leaves(value)
        unknown = {type(leaf) for leaf in leaves if _holds_leaves(leaf)}
        if not unknown:
            return leaves
        for kind in unknown:
            if dataclasses.is_dataclass(kind):
                torch.export.register_dataclass(kind)
            else:
                _register_dict(kind)


def _holds_leaves(value: Any) -> bool:
    return (dataclasses.is_dataclass(value) and not isinstance(value, (type, torch.Tensor))) or isinstance(value, dict)


def _register_dict(kind: type[dict[Any, Any]]) -> None:
    def unflatten(values: Iterable[Any], keys: list[Any]) -> dict[Any, Any]:
        items = dict(zip(keys, values, strict=True))
        with contextlib.suppress(Exception):  # its constructor may take other arguments
            if list(made := kind(items)) == keys:
                return made
        made = kind.__new__(kind)
        made.update(items)
        return made

    pytree.register_pytree_node(
        kind,
        lambda held: (list(held.values()), list(held)),
        unflatten,
        serialized_type_name=f"{kind.__module__}.{kind.__name__}",
        flatten_with_keys_fn=lambda held: ([(pytree.MappingKey(key), held[key]) for key in held], list(held)),
    )
