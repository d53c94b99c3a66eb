"""Makes ranges, zeros and ones literal tensors: a capture knows their values, and a model may read these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.autograd_function.constants import MOST_ELEMENTS
from opbridge.torch_compat import pytree, unset_fake_temporarily

_OPTIONS = {"dtype", "device", "start", "end", "step", "steps", "size", "fill_value"}


def _as_literal(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> torch.Tensor:
        numbers = pytree.tree_leaves((args, [kwargs[name] for name in kwargs.keys() - {"dtype", "device"}]))
        if not kwargs.keys() <= _OPTIONS or not all(type(number) in (int, float) for number in numbers):
            return make(*args, **kwargs)
        with unset_fake_temporarily():
            of_size = make(*args, **kwargs | {"device": "meta"})
            is_list = of_size.numel() > 0 or of_size.dim() == 1  # a list does not tell the axes after one of size 0
            made = make(*args, **kwargs) if is_list and of_size.numel() <= MOST_ELEMENTS else None
        if made is None:
            return make(*args, **kwargs)
        return torch.tensor(made.tolist(), dtype=made.dtype, device=made.device)

    return call


LITERALS = {make: _as_literal(make) for make in (torch.arange, torch.linspace, torch.zeros, torch.ones, torch.full)}
