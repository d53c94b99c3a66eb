"""opbridge takes PyTorch models to ONNX and makes them run there, whatever operators they contain."""

from __future__ import annotations

from opbridge.errors import (
    Error,
    FileError,
    InternalError,
    InvalidArgumentError,
    InvalidNodeError,
    UnsupportedError,
)

__all__ = [
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidNodeError",
    "UnsupportedError",
]
