"""Makes ranges of constant numbers literal tensors: a capture knows their values, and a model may read these."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.autograd_function.constants import MOST_ELEMENTS
from opbridge.torch_compat import pytree, unset_fake_temporarily

_OPTIONS = {"dtype", "device", "start", "end", "step", "steps"}


def _as_literal(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> torch.Tensor:
        numbers = pytree.tree_leaves((args, [kwargs[name] for name in kwargs.keys() - {"dtype", "device"}]))
        if not kwargs.keys() <= _OPTIONS or not all(type(number) in (int, float) for number in numbers):
            return make(*args, **kwargs)
        with unset_fake_temporarily():
            made = make(*args, **kwargs)
        if made.numel() > MOST_ELEMENTS:
            return make(*args, **kwargs)
        return torch.tensor(made.tolist(), dtype=made.dtype, device=made.device)

    return call


LITERALS = {make: _as_literal(make) for make in (torch.arange, torch.linspace)}
