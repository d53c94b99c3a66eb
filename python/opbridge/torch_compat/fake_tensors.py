"""Fake tensors that know their values."""

from __future__ import annotations

from typing import Any

import torch

from opbridge.torch_compat import FakeTensor, FakeTensorMode, storage_id, unset_fake_temporarily
from opbridge.torch_compat.lookup import PatchPoint, expect, look_up

with look_up():
    from torch._guards import detect_fake_mode
    from torch._library.fake_impl import FakeImplHolder
    from torch._subclasses import meta_utils
    from torch._subclasses.fake_tensor import FakeTensorConverter
    from torch._subclasses.fake_tensor import _BypassDispatchCache as NotCached

    expect(FakeTensor, "nonzero_memo")
    expect(FakeTensorConverter, "add_constant_storage_mapping", "invalidate_constant_aliases")

MAY_TURN_CONST = PatchPoint(FakeTensorMode, "may_turn_const")  # whether a fake tensor keeps the value of a real one
DISPATCH_ON_FAKES = PatchPoint(FakeTensorMode, "dispatch")  # of an operator
CALL_ON_FAKES = PatchPoint(FakeTensorMode, "_dispatch_impl")  # the same, unless its shapes are known
FAKE_KERNEL = PatchPoint(FakeImplHolder, "kernel")  # of a custom operator
COPY_OF_DATA = PatchPoint(meta_utils, "_safe_copy")  # to the real tensor that a fake one carries, which is new
MAKE_CACHE_ENTRY = PatchPoint(FakeTensorMode, "_make_cache_entry")  # of a call, unless it raises NotCached


def value_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The value that a fake tensor keeps."""
    value: torch.Tensor | None = getattr(tensor, "constant", None)
    return value


def give_value(mode: Any, fake: torch.Tensor, value: torch.Tensor) -> None:
    """Makes ``fake``, of ``mode``, keep a copy of ``value``, until an operator writes something unknown to it."""
    with unset_fake_temporarily():
        fake.constant = value.detach().clone()  # type: ignore[attr-defined]
    mode.fake_tensor_converter.add_constant_storage_mapping(fake)


def fake_of(mode: Any, tensor: torch.Tensor) -> Any:
    """The fake tensor that stands for ``tensor``, which may be it."""
    return tensor if isinstance(tensor, FakeTensor) else mode.from_tensor(tensor, static_shapes=True)


def forget_value(tensor: torch.Tensor) -> None:
    """Makes the fake tensor that stands for ``tensor`` no longer keep a value."""
    fake = fake_of(detect_fake_mode(), tensor)
    fake.constant = None


def note_write(tensor: torch.Tensor) -> Any:
    """To be called after an operator has written to ``tensor``; returns the fake tensor that stands for it. The fake
    tensors that share its memory no longer keep values, unless torch has written the same to these; it does not if
    ``tensor`` is real, or keeps no value itself."""
    mode: Any = detect_fake_mode()
    fake = fake_of(mode, tensor)
    if isinstance(tensor, FakeTensor) and fake.constant is not None:
        return fake
    converter = mode.fake_tensor_converter
    kept = [ref() for refs in converter.constant_storage_mapping.values() for ref in refs]
    for each in kept:
        if each is not None and each.constant is not None and storage_id(each) == storage_id(fake):
            converter.invalidate_constant_aliases(each.constant)
    return fake


def data_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The real tensor that a fake one carries, if fake tensors carry real ones; ``tensor`` itself if it is real."""
    real = getattr(tensor, "real_tensor", None) if isinstance(tensor, FakeTensor) else tensor
    return real if real is not None else value_of(tensor)


def share_found_count(mask: Any, other: Any) -> None:
    """Makes the fake mask ``other`` find as many elements as ``mask`` has found."""
    if other.nonzero_memo is None and mask.nonzero_memo is not None:
        other.nonzero_memo = mask.nonzero_memo


def is_fake_of(tensor: torch.Tensor, real: torch.Tensor) -> bool:
    """Whether ``tensor`` is the fake tensor that stands for ``real`` in its mode."""
    mode: Any = tensor.fake_mode if isinstance(tensor, FakeTensor) else None
    return mode is not None and mode.from_tensor(real) is tensor


def mode_of_fakes() -> Any:
    """The mode that is active, in which operators return fake tensors, also those without tensors among their
    arguments; None if there is none."""
    return detect_fake_mode()


def makes_fakes() -> bool:
    return mode_of_fakes() is not None


__all__ = [
    "CALL_ON_FAKES",
    "COPY_OF_DATA",
    "DISPATCH_ON_FAKES",
    "FAKE_KERNEL",
    "MAKE_CACHE_ENTRY",
    "MAY_TURN_CONST",
    "NotCached",
    "data_of",
    "fake_of",
    "forget_value",
    "give_value",
    "is_fake_of",
    "makes_fakes",
    "mode_of_fakes",
    "note_write",
    "share_found_count",
    "value_of",
]
