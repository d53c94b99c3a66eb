"""The exceptions of opbridge. Errors of the C++ core are translated to these too."""

from __future__ import annotations


class Error(RuntimeError):
    """Base of every exception that opbridge raises.

    ``message`` says what went wrong and what to do next. ``where`` is the location, if known: a file, a node, a line of
    the user's model.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{message}\n  at {where}" if where else message)
        self.message = message
        self.where = where


class InvalidArgumentError(Error):
    """The caller asked for something impossible."""


class FileError(Error):
    """A file is missing, truncated, of the wrong kind, or cannot be written."""


class InvalidNodeError(Error):
    """A symbolic function built a node that ONNX does not allow."""


class UnsupportedError(Error):
    """Correct input that opbridge cannot convert; the message says what would help."""


class InternalError(Error):
    """A broken invariant of opbridge itself."""
