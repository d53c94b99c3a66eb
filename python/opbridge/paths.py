"""Paths as callers give them."""

from __future__ import annotations

import os

from opbridge.errors import InvalidArgumentError


def checked_path(path: str | os.PathLike[str]) -> str:
    """The path as text; refused where it has a zero byte, at which the system would take it to end."""
    text = os.fspath(path)
    if "\0" in text:
        raise InvalidArgumentError(f"a path with a zero byte: {text!r}")
    return text
