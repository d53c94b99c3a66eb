"""Restores real tensors that in-place operators overwrite while a model runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.operators import Operator
from opbridge.torch_compat import is_fake, storage_id, unset_fake_temporarily
from opbridge.torch_compat.batching import without_transforms


class Originals:
    """Restores the content of inputs, weights and constants after the run.

    The graph borrows the weights' memory, so the weights must have the content with which the model starts.
    """

    def __init__(self) -> None:
        self._watched: dict[int, torch.Tensor] = {}
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def watch(self, tensor: torch.Tensor) -> None:
        self._watched.setdefault(storage_id(tensor), tensor)

    def keep(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Copies what a call of ``operator`` is about to overwrite."""
        for tensor in written_tensors(operator, args, kwargs):
            storage = storage_id(tensor)
            if storage in self._watched and storage not in self._kept and not is_fake(tensor):
                # One that is made in inference mode or a transform, which the model may be in, cannot be written later.
                with unset_fake_temporarily(), torch.inference_mode(False), without_transforms():
                    whole = _whole(self._watched[storage])
                    self._kept[storage] = (whole, whole.clone())

    def restore(self) -> None:
        with unset_fake_temporarily():
            for tensor, content in self._kept.values():
                tensor.copy_(content)


def written_tensors(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    """The arguments of a call that the call writes to."""
    for name, argument in [*zip(operator.names, args, strict=False), *kwargs.items()]:
        if name in operator.written:
            tensors = argument if isinstance(argument, (list, tuple)) else (argument,)
            yield from (tensor for tensor in tensors if tensor is not None)  # running statistics may be None


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage of the tensor, as bytes."""
    storage = tensor.detach().untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
