"""Warnings about values that hold only for the captured run."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from opbridge.capture.source import line_text, users_frame


class TraceWarning(UserWarning):
    """A value of the captured run has become a constant; the program uses it for all inputs.

    ``warnings.simplefilter("error", opbridge.TraceWarning)`` makes it an error.
    """


_shown: dict[Any, Any] = {}  # the warnings of this capture: Python's default filter shows each once


def forget_shown() -> None:
    """Forgets the warnings that were shown. Call it before a capture, which may run the model several times."""
    _shown.clear()


def warn_of_run(what: str) -> None:
    frame = users_frame(sys._getframe(1)) or sys._getframe(1)
    warn_of_run_at(what, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def warn_of_run_at(what: str, location: tuple[str, int, str]) -> None:
    """``location`` is a file, a line, and the function in it."""
    text = f"{what}; the captured program always uses the value of this run: {line_text(*location)}"
    warnings.warn_explicit(text, TraceWarning, location[0], location[1], registry=_shown)
