"""PyTorch's dtypes, the numbers of ONNX's TensorProto.DataType, and those of c10::ScalarType."""

from __future__ import annotations

import torch

from opbridge import _core

_NUMBERS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
    "uint32": 12,
    "uint64": 13,
    "complex64": 14,
    "complex128": 15,
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e4m3fnuz": 18,
    "float8_e5m2": 19,
    "float8_e5m2fnuz": 20,
    "float8_e8m0fnu": 24,
}

ELEMENT_TYPES: dict[torch.dtype, int] = {
    getattr(torch, name): number for name, number in _NUMBERS.items() if hasattr(torch, name)
}
DTYPES: dict[int, torch.dtype] = {number: dtype for dtype, number in ELEMENT_TYPES.items()}

# c10::ScalarType: its name in TorchScript, and its number, which torch.onnx's symbolic functions are given for a dtype.
SCALAR_TYPES: dict[torch.dtype, tuple[str, int]] = {
    torch.uint8: ("Byte", 0),
    torch.int8: ("Char", 1),
    torch.int16: ("Short", 2),
    torch.int32: ("Int", 3),
    torch.int64: ("Long", 4),
    torch.float16: ("Half", 5),
    torch.float32: ("Float", 6),
    torch.float64: ("Double", 7),
    torch.complex64: ("ComplexFloat", 9),
    torch.complex128: ("ComplexDouble", 10),
    torch.bool: ("Bool", 11),
    torch.bfloat16: ("BFloat16", 15),
    torch.uint16: ("UInt16", 27),
    torch.uint32: ("UInt32", 28),
    torch.uint64: ("UInt64", 29),
}

_core.set_torch_types(torch.dtype, ELEMENT_TYPES, (torch.device, torch.layout, torch.memory_format, torch.Generator))
