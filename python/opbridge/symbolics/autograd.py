"""Calls of autograd.Function subclasses that define ``symbolic``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from opbridge import _core

if TYPE_CHECKING:
    from opbridge.capture.program import Program


def autograd_callbacks(program: Program) -> list[tuple[str, Callable[..., list[_core.Value | None]]]]:
    """A callback for each autograd.Function that the program calls, under the name of its nodes."""
    return []
