"""Bodies of branches and loops that a recorder fills beside the graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from opbridge import _core


class NotRecorded(BaseException):
    """A body has an effect besides its results, or results that a graph cannot have. Not an Exception, which the model
    might catch."""


@dataclasses.dataclass(eq=False)
class Body:
    """What a recorder knows inside of a body: the state that it exchanges when it enters it.

    ``operands`` are the tensors from outside that the body uses, in the order of its inputs, with their values there.
    """

    builder: _core.ProgramBuilder = dataclasses.field(default_factory=_core.ProgramBuilder)
    known: dict[int, Any] = dataclasses.field(default_factory=dict)
    by_memory: dict[int, Any] = dataclasses.field(default_factory=dict)
    operands: list[tuple[torch.Tensor, _core.ProgramValue]] = dataclasses.field(default_factory=list)
    outer: Body | None = None
