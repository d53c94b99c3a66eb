"""Dataclasses that a model returns: their tensors are leaves, like those of a dict."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from opbridge.torch_compat import pytree


def leaves_of(value: Any) -> list[Any]:
    """The leaves of a structure. Makes its dataclasses known to torch, as torch.export.register_dataclass does."""
    while True:
        leaves: list[Any] = pytree.tree_leaves(value)
        unknown = {
            type(leaf)
            for leaf in leaves
            if dataclasses.is_dataclass(leaf) and not isinstance(leaf, (type, torch.Tensor))
        }
        if not unknown:
            return leaves
        for kind in unknown:
            torch.export.register_dataclass(kind)
