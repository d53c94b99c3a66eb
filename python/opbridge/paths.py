"""Checks paths that callers give."""

from __future__ import annotations

import os

from opbridge.errors import InvalidArgumentError


def checked_path(path: str | os.PathLike[str]) -> str:
    """The path as text. Refuses a path with a zero byte, at which the system would truncate it."""
    text = os.fspath(path)
    if "\0" in text:
        raise InvalidArgumentError(f"a path with a zero byte: {text!r}")
    return text
