"""Numbers that a model reads from its buffers, such as ``if self.initialized:``.

torch.export, and a trace on fake tensors, run the model on buffers without values. If that fails because the model
branches on data, the model runs again with small buffers that keep theirs. They do not from the start: a number that is
read without a branch stays data.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from opbridge.capture.autograd_function.constants import MOST_ELEMENTS
from opbridge.capture.patching import patch
from opbridge.capture.run_warnings import hold_warnings
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import exporting, is_fake
from opbridge.torch_compat.fake_tensors import give_value
from opbridge.torch_compat.messages import is_branch_on_data

T = TypeVar("T")


def retry_with_buffers(model: torch.nn.Module, capture: Callable[[], T]) -> T:
    """``capture()``; if the model branches on data, again with the values of its buffers. If that is refused too,
    raises the error of the first."""
    try:
        with hold_warnings():
            return capture()
    except UnsupportedError as error:
        if error.__cause__ is None or not is_branch_on_data(error.__cause__) or next(model.buffers(), None) is None:
            raise
        refusal = error
    with contextlib.suppress(UnsupportedError), _known_buffers():
        return capture()
    raise refusal


def _known_buffers() -> contextlib.AbstractContextManager[None]:
    original = exporting.FAKE_STATE.original

    def fakes_of_state(mode: Any, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        fakes: dict[str, torch.Tensor] = original(mode, model)
        for name, buffer in buffers_to_know(model):
            give_value(mode, fakes[name], buffer)
        return fakes

    return patch(exporting.FAKE_STATE, fakes_of_state)


def buffers_to_know(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The small buffers with memory of their own: a write to another owner would change them."""
    tensors = {id(each): each for each in itertools.chain(model.parameters(), model.buffers())}.values()
    owners = collections.Counter(map(_storage, tensors))
    for name, buffer in model.named_buffers():
        if _is_small(buffer) and owners[_storage(buffer)] == 1:
            yield name, buffer


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else id(tensor)


def _is_small(tensor: torch.Tensor) -> bool:
    is_plain = type(tensor) is torch.Tensor and tensor.layout == torch.strided and not tensor.is_meta
    return is_plain and not is_fake(tensor) and tensor.numel() <= MOST_ELEMENTS
