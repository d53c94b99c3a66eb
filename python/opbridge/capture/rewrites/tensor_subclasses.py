"""Tensors of a class of the user's, which ``tensor.as_subclass(cls)`` makes, in captures on fake tensors."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.torch_compat import DisableTorchFunctionSubclass, FakeTensor
from opbridge.torch_compat.fake_tensors import makes_fakes
from opbridge.torch_compat.patch_points import AS_SUBCLASS


def keep_subclasses() -> contextlib.AbstractContextManager[None]:
    """Gives fake tensors the methods and the ``__torch_function__`` of the user's class; torch's as_subclass, which
    lets only plain tensors change their class, refuses them."""
    original = AS_SUBCLASS.original
    fakes = functools.lru_cache(maxsize=None)(_class_of_fakes)

    def as_subclass(tensor: torch.Tensor, cls: Any) -> Any:
        if not makes_fakes() or not _is_class_of_data(cls):
            return original(tensor, cls)
        with DisableTorchFunctionSubclass():
            alias = torch.ops.aten.alias.default(tensor)
        if not isinstance(alias, FakeTensor):
            return original(tensor, cls)
        alias.__class__ = cls if issubclass(cls, FakeTensor) else fakes(cls)
        return alias

    return patch(AS_SUBCLASS, as_subclass)


def _is_class_of_data(cls: Any) -> bool:
    """Whether operators run on the data of such a tensor, instead of in its class."""
    return issubclass(cls, FakeTensor) or cls.__torch_dispatch__ == torch.Tensor.__torch_dispatch__


class _OfSubclass(FakeTensor):
    """Converts results to the class of the arguments, as torch.Tensor does. torch switches this off for FakeTensor, and
    for classes below it unless they define the method."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        convert: Any = torch.Tensor.__torch_function__
        return convert.__func__(cls, func, types, args, kwargs)


def _class_of_fakes(cls: Any) -> Any:
    if cls is torch.Tensor:
        return FakeTensor
    return type(cls)(cls.__name__, (cls, _OfSubclass), {"__module__": cls.__module__})


def class_of_fake(tensor: FakeTensor) -> type[torch.Tensor]:
    """The class that the tensor has in eager mode, but for parameters."""
    kind = type(tensor)
    return torch.Tensor if kind is FakeTensor else kind.__bases__[0]
