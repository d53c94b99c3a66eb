"""``torch.jit.is_tracing()`` in a model with dynamic sizes.

Models ask it to avoid a shortcut that holds for one size alone, so that an exported model takes all sizes::

    if not torch.jit.is_tracing() and height == self.native_height:
        return self.position_embeddings

It is false in a capture, since torch.jit does not trace: some models return less if it is true. It is true in a line
whose branch on a symbolic size would otherwise be fixed to that of the example.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import torch

from opbridge.capture.failures import T
from opbridge.capture.patching import patch_code
from opbridge.capture.symbolic_sizes.syntax import Line, running_line
from opbridge.errors import UnsupportedError

_jit: Any = torch.jit  # whose stub lacks is_tracing


class _Shortcut(BaseException):
    """The model takes a shortcut. Not an Exception, which the model might catch."""

    def __init__(self, line: Line) -> None:
        super().__init__()
        self.line = line


class _Lines:
    """The lines that have asked whether the model is traced, and those that are told so."""

    def __init__(self, traced: frozenset[Line]) -> None:
        self.asked: set[Line] = set()
        self.traced = traced


_lines: ContextVar[_Lines | None] = ContextVar("_lines", default=None)  # of this thread's capture


def capture_without_shortcuts(capture: Callable[[], T]) -> T:
    """Calls ``capture()`` until it fixes no branch on a size in a line that asks whether the model is traced. If the
    model is refused without its shortcuts, they are allowed."""
    traced: frozenset[Line] = frozenset()
    while True:
        try:
            with _trace_lines(traced):
                return capture()
        except _Shortcut as shortcut:
            traced |= {shortcut.line}
        except UnsupportedError:
            if not traced:
                raise
            break
    return capture()


def avoid_shortcut(frame: FrameType) -> None:
    """Starts the capture again if the line of ``frame``, which branches on a size, has asked whether the model is
    traced."""
    lines = _lines.get()
    if lines is not None and (line := running_line(frame)) in lines.asked - lines.traced:
        raise _Shortcut(line)


@contextlib.contextmanager
def _trace_lines(traced: frozenset[Line]) -> Iterator[None]:
    token = _lines.set(_Lines(traced))
    try:
        with patch_code(_jit.is_tracing, "original() or is_told()", is_told=_is_told):
            yield
    finally:
        _lines.reset(token)


def _is_told() -> bool:
    """Whether the caller of torch.jit.is_tracing, which calls this, is told that the model is traced."""
    lines = _lines.get()
    if lines is None:
        return False
    line = running_line(sys._getframe(2))
    lines.asked.add(line)
    return line in lines.traced
