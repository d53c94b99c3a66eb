"""Warnings about values that hold only for the captured run."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from opbridge.capture.source import line_text, users_frame


class TraceWarning(UserWarning):
    """A value of the captured run has become a constant; the program uses it for all inputs.

    ``warnings.simplefilter("error", opbridge.TraceWarning)`` makes it an error.
    """


Location = tuple[str, int, str]  # a file, a line, and the function in it
Warned = tuple[str, Location | None]  # no location: a plain warning

_held: ContextVar[list[Warned] | None] = ContextVar("_held", default=None)
_shown: dict[Any, Any] = {}  # the warnings of this capture: Python's default filter shows each once


def forget_shown() -> None:
    """Forgets the warnings that were shown. Call it before a capture, which may run the model several times."""
    _shown.clear()


def warn_of_run(what: str) -> None:
    warn_of_run_at(what, location_of_run(1))


def location_of_run(depth: int = 0) -> Location:
    """The line of the user's code that runs. ``depth`` counts the callers of the caller that are not meant."""
    caller = sys._getframe(depth + 1)
    frame = users_frame(caller) or caller
    return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name


def warn_of_run_at(what: str, location: Location) -> None:
    held = _held.get()
    if held is not None:
        held.append((what, location))
        return
    text = f"{what}; the captured program always uses the value of this run: {line_text(*location)}"
    warnings.warn_explicit(text, TraceWarning, location[0], location[1], registry=_shown)


def warn_of_model(what: str) -> None:
    """A plain warning about the captured program."""
    held = _held.get()
    if held is None:
        warnings.warn(what, stacklevel=3)
    else:
        held.append((what, None))


@contextlib.contextmanager
def hold_warnings() -> Iterator[list[Warned]]:
    """Holds the warnings of a capture whose program may not be used, for ``show_warnings``."""
    held: list[Warned] = []
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)


def show_warnings(held: list[Warned]) -> None:
    for what, location in held:
        if location is None:
            warn_of_model(what)
        else:
            warn_of_run_at(what, location)
