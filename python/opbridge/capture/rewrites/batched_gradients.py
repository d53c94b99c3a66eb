"""torch.autograd.grad with ``is_grads_batched=True``, and jacobian and hessian of torch.autograd.functional with
``vectorize=True``. torch runs them by an older vmap, whose tensors a capture cannot see."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.capture.source import line_of_frame
from opbridge.errors import UnsupportedError
from opbridge.torch_compat.patch_points import VMAP_OF_DERIVATIVES, VMAP_OF_GRADIENTS


@contextlib.contextmanager
def follow_batched_gradients() -> Iterator[None]:
    """Runs them by torch.vmap, which cannot run those of forward mode: refuses these."""
    with patch(VMAP_OF_GRADIENTS, _vmap), patch(VMAP_OF_DERIVATIVES, _refuse_forward_mode):
        yield


def _refuse_forward_mode(*_: Any) -> Any:
    raise UnsupportedError(
        "torch.autograd.functional with vectorize=True cannot be captured in forward mode; use torch.func.jacfwd",
        line_of_frame(sys._getframe(1)),
    )


def _vmap(
    function: Callable[..., tuple[torch.Tensor | None, ...]],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """torch.vmap, which itself does not take None as a result: the gradient by an input that is not used."""

    def batched(*args: Any) -> tuple[torch.Tensor | None, ...]:
        lacking: list[int] = []

        def present(*samples: Any) -> tuple[torch.Tensor, ...]:
            results = function(*samples)
            lacking[:] = [i for i, result in enumerate(results) if result is None]
            return tuple(result for result in results if result is not None)

        results: list[torch.Tensor | None] = list(torch.vmap(present, in_dims, out_dims)(*args))
        for i in lacking:
            results.insert(i, None)
        return tuple(results)

    return batched
