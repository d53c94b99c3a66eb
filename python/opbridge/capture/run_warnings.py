"""Warnings of what holds for the captured run alone."""

from __future__ import annotations

import sys
import warnings

from opbridge.capture.source import line_text, users_frame


class TraceWarning(UserWarning):
    """Something of this one run has become part of the captured program."""


def warn_of_run(what: str) -> None:
    frame = users_frame(sys._getframe(1)) or sys._getframe(1)
    warn_of_run_at(what, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def warn_of_run_at(what: str, place: tuple[str, int, str]) -> None:
    """``place`` is a file, a line, and the function in it."""
    text = f"{what}, and the captured program always uses what it was in this run: {line_text(*place)}"
    warnings.warn_explicit(text, TraceWarning, place[0], place[1])
