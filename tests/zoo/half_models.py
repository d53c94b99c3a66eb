"""A dozen models of the other libraries in float16 and bfloat16."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from zoo import torchvision_models, transformers_models
from zoo.entry import Entry

_NAMES = [
    *(f"torchvision/{name}" for name in ("resnet18", "mobilenet_v2", "vit_b_32", "swin_t", "convnext_tiny")),
    *(f"transformers/{name}" for name in ("Bert", "ModernBert", "GPT2", "Llama", "Mistral", "T5", "ViT")),
]


def entries() -> Iterator[Entry]:
    known = {entry.name: entry for module in (torchvision_models, transformers_models) for entry in module.entries()}
    for dtype in (torch.float16, torch.bfloat16):
        for name in _NAMES:
            entry = known[name]
            yield dataclasses.replace(
                entry,
                name=f"half/{name.partition('/')[2]} {str(dtype).removeprefix('torch.')}",
                build=functools.partial(_build, entry.build, dtype),
                inputs=functools.partial(_inputs, entry.inputs, dtype),
                tolerance=4 * torch.finfo(dtype).eps,
            )


def _build(build: Callable[[], nn.Module], dtype: torch.dtype) -> nn.Module:
    return build().to(dtype)


def _inputs(inputs: Callable[[int], dict[str, Any]], dtype: torch.dtype, variant: int) -> dict[str, Any]:
    def convert(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return pytree.tree_map(convert, inputs(variant))
