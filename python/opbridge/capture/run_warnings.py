"""Warnings about values that hold only for the captured run."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from opbridge.capture.source import line_text, users_frame


class TraceWarning(UserWarning):
    """A value of the captured run has become a constant; the program uses it for all inputs.

    ``warnings.simplefilter("error", opbridge.TraceWarning)`` makes it an error.
    """


_shown: dict[Any, Any] = {}  # the warnings of this capture: Python's default filter shows each once
# Text, file and line of the warnings of each attempt to capture that is under way, and of those that failed.
_held: list[list[tuple[str, str, int]]] = []
_failed: list[tuple[str, str, int]] = []


def forget_shown() -> None:
    """Forgets the warnings that were shown. Call it before a capture, which may run the model several times."""
    _shown.clear()


def warn_of_run(what: str) -> None:
    frame = users_frame(sys._getframe(1)) or sys._getframe(1)
    warn_of_run_at(what, (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))


def warn_of_run_at(what: str, location: tuple[str, int, str]) -> None:
    """``location`` is a file, a line, and the function in it."""
    text = f"{what}; the captured program always uses the value of this run: {line_text(*location)}"
    _warn(text, location[0], location[1])


def _warn(text: str, file: str, line: int) -> None:
    if _held:
        _held[-1].append((text, file, line))
    else:
        warnings.warn_explicit(text, TraceWarning, file, line, registry=_shown)


@contextlib.contextmanager
def hold_warnings() -> Iterator[None]:
    """Shows the warnings of an attempt to capture when it has succeeded. If it fails, another one may follow."""
    _held.append([])
    try:
        yield
    except BaseException:
        _failed.extend(_held.pop())
        raise
    for warning in _held.pop():
        _warn(*warning)


@contextlib.contextmanager
def show_if_refused() -> Iterator[None]:
    """Shows the warnings of attempts that failed if no other one succeeds."""
    _failed.clear()
    try:
        yield
    except Exception:
        for warning in _failed:
            _warn(*warning)
        raise
