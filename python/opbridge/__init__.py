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
from opbridge.export import ExportReport, export
from opbridge.operators import load_operators, ort_library, torch_library
from opbridge.runtime import session
from opbridge.symbolic_helper import parse_args
from opbridge.symbolics.registry import (
    register_custom_op_symbolic,
    register_op,
    symbolic,
    unregister_custom_op_symbolic,
)
from opbridge.verify import Verification, VerificationError, verify

__all__ = [
    "Error",
    "ExportReport",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidNodeError",
    "UnsupportedError",
    "Verification",
    "VerificationError",
    "export",
    "load_operators",
    "ort_library",
    "parse_args",
    "register_custom_op_symbolic",
    "register_op",
    "session",
    "symbolic",
    "torch_library",
    "unregister_custom_op_symbolic",
    "verify",
]
