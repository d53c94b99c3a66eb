"""Symbolic functions in Python: they map calls of PyTorch operators to ONNX nodes."""

from __future__ import annotations

from opbridge.symbolics.builder import GraphContext
from opbridge.symbolics.registry import (
    register_custom_op_symbolic,
    register_op,
    symbolic,
    unregister_custom_op_symbolic,
)
from opbridge.symbolics.values import SequenceType, Value, ValueType

__all__ = [
    "GraphContext",
    "SequenceType",
    "Value",
    "ValueType",
    "register_custom_op_symbolic",
    "register_op",
    "symbolic",
    "unregister_custom_op_symbolic",
]
