"""Numbers that a model reads from its tensors, such as ``if self.initialized:``.

torch.export, and a trace on fake tensors, run the model on parameters, buffers and tensors in other attributes without
their values. If that fails because the model branches on data, the model runs again with small ones that keep their
values. They do not from the start: a number that is read without a branch stays data.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from opbridge.capture.autograd_function.constants import MOST_ELEMENTS
from opbridge.capture.loops import end_at_branch
from opbridge.capture.patching import patch
from opbridge.capture.state.attributes import Attributes
from opbridge.capture.symbolic_sizes.asking import NeedsNumberOfData
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import exporting, is_fake
from opbridge.torch_compat.fake_tensors import fake_of, give_value
from opbridge.torch_compat.messages import is_branch_on_data, is_of_values_in_numpy

T = TypeVar("T")


def retry_with_tensors(model: torch.nn.Module, capture: Callable[[], T]) -> T:
    """``capture()``; if the model branches on data, or makes an array of it, again with the values of its tensors. If
    that is refused too, raises the error of the attempt that went on to another line, or NodeFound."""
    try:
        return capture()
    except UnsupportedError as error:
        cause = error.__cause__
        on_data = cause is not None and (is_branch_on_data(cause) or is_of_values_in_numpy(cause))
        if not on_data and not isinstance(error, NeedsNumberOfData):
            raise
        refusal = error
    if next(tensors_to_know(model), None) is not None:
        try:
            with _known_tensors():
                return capture()
        except UnsupportedError as error:
            if error.where != refusal.where:
                refusal = error
    end_at_branch()
    raise refusal


def _known_tensors() -> contextlib.AbstractContextManager[None]:
    original = exporting.FAKE_STATE.original
    known: list[torch.Tensor] = []

    def fakes_of_state(mode: Any, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        fakes: dict[str, torch.Tensor] = original(mode, model)
        known.extend(give_values(mode, model))
        return fakes

    return patch(exporting.FAKE_STATE, fakes_of_state)


def give_values(mode: Any, model: torch.nn.Module) -> list[torch.Tensor]:
    """Makes the fake tensors of ``mode`` for tensors_to_know keep their values. torch finds these fake tensors by the
    real ones as long as they live: the result holds them."""
    fakes = []
    for tensor in tensors_to_know(model):
        fakes.append(fake_of(mode, tensor))
        give_value(mode, fakes[-1], tensor)
    return fakes


def tensors_to_know(model: torch.nn.Module) -> Iterator[torch.Tensor]:
    """The small parameters, buffers and tensors in other attributes with memory of their own: a write to another owner
    would change them."""
    tensors = {id(each): each for each in (*model.parameters(), *model.buffers(), *Attributes(model).tensors)}
    owners = collections.Counter(map(_storage, tensors.values()))
    for tensor in tensors.values():
        if _is_small(tensor) and owners[_storage(tensor)] == 1:
            yield tensor


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else id(tensor)


def _is_small(tensor: torch.Tensor) -> bool:
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    return is_plain and not tensor.is_meta and not is_fake(tensor) and tensor.numel() <= MOST_ELEMENTS
