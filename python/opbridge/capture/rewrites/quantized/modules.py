"""Stand-ins for the quantized tensors and packed weights that modules hold."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.capture.rewrites.quantized.embeddings import Table
from opbridge.capture.rewrites.quantized.levels import Levels
from opbridge.capture.rewrites.quantized.operators import Packed
from opbridge.capture.rewrites.quantized.tensor import stands_for, wrapped
from opbridge.capture.rewrites.quantized.unpacking import unpacked
from opbridge.torch_compat import buffers_of


@contextlib.contextmanager
def hide_quantized_tensors(module: torch.nn.Module) -> Iterator[None]:
    """Hides the quantized tensors and the packed weights, which no capture can represent, behind their stand-ins."""
    kind, parts = type(module), [buffers_of(module), module.__dict__]
    of_torch = any(base.__module__.startswith("torch.ao.nn.") for base in kind.__mro__)
    stand_ins = [
        {name: made for name, value in part.items() if (made := _stand_in_of(name, value, of_torch)) is not None}
        for part in parts
    ]
    members: dict[str, Any] = {}
    for name, made in {**stand_ins[0], **stand_ins[1]}.items():
        members[name] = property(functools.partial(lambda value, _: value, made))
    if not members:
        yield
        return
    before = [dict(part) for part in parts]
    for part, made in zip(parts, stand_ins, strict=True):
        for name in made:
            del part[name]
    members |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    module.__class__ = type(kind.__name__, (kind,), members)
    try:
        yield
    finally:
        module.__class__ = kind
        for part, made, values in zip(parts, stand_ins, before, strict=True):
            part.update({name: values[name] for name in made})
            for name in filter(part.__contains__, values):
                part[name] = part.pop(name)


def _stand_in_of(name: str, value: Any, of_torch: bool) -> Any:
    """The stand-in for an attribute of a module; None if it needs none. ``of_torch``: the module is one of torch's."""
    if of_torch and name in ("scale", "zero_point") and isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    made = unpacked(value)
    if isinstance(made, Levels):
        return wrapped(made)
    if isinstance(made, Packed | Table):
        return stands_for(made, torch.empty(0))
    return made
