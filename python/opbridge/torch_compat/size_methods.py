"""Methods of ``torch.Size``, a type whose attributes cannot be set."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.torch_compat.lookup import find

NUMEL: Any = find(torch.Size, "numel")


def _numel(size: torch.Size) -> Any:
    return math.prod(size) if any(isinstance(each, torch.SymInt) for each in size) else NUMEL(size)


@contextlib.contextmanager
def keep_numel_symbolic() -> Iterator[None]:
    """Makes ``x.shape.numel()`` of symbolic sizes a symbol; torch's own method converts each size to a number. Other
    sizes keep that method, in all threads."""
    # A type of C keeps its methods in a dict, of which Python shows a view that cannot be changed.
    (methods,) = gc.get_referents(vars(torch.Size))
    before = methods["numel"]
    _set(methods, _numel)
    try:
        yield
    finally:
        _set(methods, before)


def _set(methods: dict[str, Any], numel: Any) -> None:
    methods["numel"] = numel
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(torch.Size))  # Python caches the methods of types
