"""Operators of derivatives, in simpler ones where they are differentiated again. torch's own derivatives of these
operators are written in C++, where they make symbolic sizes numbers."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import torch

from opbridge.capture.operators import aten_overload
from opbridge.torch_compat.kernels import AUTOGRAD, replace_kernel
from opbridge.torch_compat.symbols import scoped_library

_expected = contextvars.ContextVar("_expected", default=False)


def expects_second_derivatives() -> bool:
    """Whether the calling thread is inside of ``differentiate_again()``."""
    return _expected.get()


@contextlib.contextmanager
def differentiate_again() -> Iterator[None]:
    """Replaces what autograd calls for the operators, for all threads: it is right for any call."""
    before = _expected.set(True)
    try:
        with scoped_library("aten", "IMPL") as library:
            for name, kernel in _KERNELS.items():
                replace_kernel(library, aten_overload(name), kernel, AUTOGRAD)
            yield
    finally:
        _expected.reset(before)


def _sgn(x: torch.Tensor) -> torch.Tensor:
    """The derivative of ``abs``. That of a complex number is 0 where torch.sgn is 0."""
    if not x.is_complex():
        return x.sign()
    length = x.abs()
    is_zero = length == 0
    return torch.where(is_zero, 0, x / torch.where(is_zero, 1, length))


def _glu_backward(gradient: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    half = x.shape[dim] // 2
    gate = x.narrow(dim, half, half).sigmoid()
    of_values = gradient * gate
    return torch.cat([of_values, of_values * (1 - gate) * x.narrow(dim, 0, half)], dim)


_KERNELS: dict[str, Callable[..., torch.Tensor]] = {"sgn": _sgn, "glu_backward": _glu_backward}
