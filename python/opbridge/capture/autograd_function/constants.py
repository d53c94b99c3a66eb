"""Keeps the values of small constants in a capture, so that a model, or the ``forward`` of an autograd.Function, may
read them.

If sizes are dynamic, or torch.export captures, the model runs on tensors without values, and ``forward`` runs on
made-up values. A tensor that the model holds, or makes from numbers, keeps its own value: the sizes of feature maps,
for example, decide what ``forward`` computes.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.state.real_tensors import compute_with_written
from opbridge.torch_compat import is_fake, version_of
from opbridge.torch_compat.fake_tensors import CALL_ON_FAKES, MAY_TURN_CONST, is_fake_of, makes_fakes, value_of

MOST_ELEMENTS = 1024
_ALLOCATING = frozenset(
    {torch.ops.aten.new_empty.default, torch.ops.aten.new_empty_strided.default, torch.ops.aten.empty_like.default}
)

_state: list[torch.Tensor] = []  # the small tensors that the model registers


@contextlib.contextmanager
def keep_constants(model: torch.nn.Module) -> Iterator[None]:
    """Keeps the values of small constants while ``model`` is captured. torch keeps those of one element."""
    global _state
    before = _state
    _state = [each for each in itertools.chain(model.parameters(), model.buffers()) if each.numel() <= MOST_ELEMENTS]
    original = MAY_TURN_CONST.original

    def may_turn_const(mode: Any, tensor: torch.Tensor) -> bool:
        if not is_fake(tensor) and tensor.layout == torch.strided and not tensor.is_meta:
            return tensor.numel() <= MOST_ELEMENTS and not _is_nan(tensor)
        return bool(original(mode, tensor))

    try:
        with patch(MAY_TURN_CONST, may_turn_const), _keep_nothing_uninitialized(), compute_with_written(model):
            yield
    finally:
        _state = before


def _keep_nothing_uninitialized() -> contextlib.AbstractContextManager[None]:
    """torch also keeps what memory holds that an operator allocates like that of a constant; its own kernels of fake
    tensors allocate their results so."""
    original = CALL_ON_FAKES.original

    def call(mode: Any, operator: Any, *args: Any) -> Any:
        result = original(mode, operator, *args)
        if operator in _ALLOCATING:
            result.constant = None
        return result

    return patch(CALL_ON_FAKES, call)


def _is_nan(tensor: torch.Tensor) -> bool:
    """Whether torch may have computed the number with NaN in place of a torch.SymFloat, as in ``aten.mul(n, 0.5)``."""
    return tensor.dim() == 0 and tensor.is_floating_point() and bool(tensor.isnan())


def constant_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The value of an argument that does not depend on the model's inputs; None if it does, if the value is unknown, or
    if the model runs on real tensors."""
    if not is_fake(tensor):
        return tensor if makes_fakes() else None
    if (value := value_of(tensor)) is not None:
        return value
    if version_of(tensor) or not all(isinstance(size, int) for size in tensor.shape):
        return None  # comparing a symbolic size would fix it; a tensor that was written to has another value
    alike = (each for each in _state if each.shape == tensor.shape and each.dtype == tensor.dtype)
    return next((each for each in alike if is_fake_of(tensor, each)), None)
