"""The smallest model of every module of timm."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import timm
import torch

from zoo.entry import Entry

# Words for sizes in timm's names, the smallest first.
_SMALL = (
    "test",
    "atto",
    "femto",
    "pico",
    "nano",
    "zepto",
    "xxs",
    "xxt",
    "tiny",
    "micro",
    "xs",
    "small",
    "mini",
    "lite",
    "_s",
    "_t",
    "_b0",
)


def entries() -> Iterator[Entry]:
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            name = min(names, key=_size)
            yield Entry(
                f"timm/{module}: {name}", functools.partial(timm.create_model, name), functools.partial(_batch, name)
            )


def _size(name: str) -> tuple[int, list[int], int, str]:
    rank = next((i for i, word in enumerate(_SMALL) if word in name), len(_SMALL))
    return rank, [int(number) for number in re.findall(r"\d+", name)], len(name), name


def _batch(name: str, variant: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(variant)
    return {"x": torch.rand(1 + variant, *timm.get_pretrained_cfg(name, allow_unregistered=True).input_size)}
