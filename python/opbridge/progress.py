"""The line on a terminal that says what a long call does."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TextIO

from opbridge import _core

if TYPE_CHECKING:
    from opbridge.drawing import Line

_DELAY = 1.0  # seconds


def is_terminal(stream: Any) -> bool:
    """Whether the stream is a terminal; ``sys.stderr`` may be None or closed."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


class ProgressLine(_core.Progress):
    """Shows the current step of a call on standard error, if that is a terminal and the call takes more than a second.

    It is a context manager, at whose end the line disappears.

    Args:
        shown: False shows nothing.
    """

    step = ""
    """The current step."""
    began = 0.0
    """The time at which the step began, by ``time.monotonic``."""
    done = 0
    """The number of bytes, or other parts, of the step that are done."""
    total = 0
    """The number of bytes or parts of the whole step; 0 if unknown."""

    def __init__(self, shown: bool = True) -> None:
        super().__init__()
        self._lock = threading.Lock()  # guards what follows
        self._line: Line | None = None
        self._timer: threading.Timer | None = None
        if shown and is_terminal(sys.stderr):
            self._timer = threading.Timer(_DELAY, self._draw, [sys.stderr])  # the model may replace sys.stderr later
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def begin(self, step: str) -> None:
        """Begins a step, and names it."""
        self.step, self.began, self.done, self.total = step, time.monotonic(), 0, 0
        with self._lock:
            if self._line is not None:
                self._line.refresh()  # the step may hold the interpreter's lock

    def advance(self, done: int, total: int) -> None:
        """Sets how much of the step is done."""
        self.done, self.total = done, total

    def end(self) -> None:
        """Removes the line."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._line is not None:
                self._line.stop()
                self._line = None

    def _draw(self, stream: TextIO) -> None:
        from opbridge.drawing import Line

        with self._lock:
            if self._timer is not None:  # otherwise the call has ended
                self._line = Line(self, stream)
                self._line.start(refresh=True)
