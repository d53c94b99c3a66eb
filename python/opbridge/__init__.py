"""opbridge converts PyTorch models to ONNX and runs them there, whatever operators they contain."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opbridge._core import __version__
    from opbridge.capture.run_warnings import TraceWarning
    from opbridge.errors import (
        Error,
        FileError,
        InternalError,
        InvalidArgumentError,
        InvalidNodeError,
        UnsupportedError,
    )
    from opbridge.exporter import export
    from opbridge.onnx_program import ONNXProgram
    from opbridge.operator_build import build
    from opbridge.operators import load_operators, ort_library, torch_library
    from opbridge.runtime import session
    from opbridge.symbolic_helper import parse_args
    from opbridge.symbolics.registry import (
        register_custom_op_symbolic,
        register_op,
        symbolic,
        unregister_custom_op_symbolic,
    )
    from opbridge.verification import Verification, VerificationError, verify
    from opbridge.weights import meta_parameters

# Loaded on first access: describing operators needs neither torch nor ONNX Runtime.
_HOMES = {
    "__version__": "_core",
    "Error": "errors",
    "FileError": "errors",
    "InternalError": "errors",
    "InvalidArgumentError": "errors",
    "InvalidNodeError": "errors",
    "UnsupportedError": "errors",
    "TraceWarning": "capture.run_warnings",
    "export": "exporter",
    "ONNXProgram": "onnx_program",
    "build": "operator_build",
    "meta_parameters": "weights",
    "load_operators": "operators",
    "ort_library": "operators",
    "torch_library": "operators",
    "session": "runtime",
    "parse_args": "symbolic_helper",
    "register_custom_op_symbolic": "symbolics.registry",
    "register_op": "symbolics.registry",
    "symbolic": "symbolics.registry",
    "unregister_custom_op_symbolic": "symbolics.registry",
    "Verification": "verification",
    "VerificationError": "verification",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'opbridge' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"opbridge.{home}"), name)
    globals()[name] = value
    return value


__all__ = [
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidNodeError",
    "ONNXProgram",
    "TraceWarning",
    "UnsupportedError",
    "Verification",
    "VerificationError",
    "__version__",
    "build",
    "export",
    "load_operators",
    "meta_parameters",
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
