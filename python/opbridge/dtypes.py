"""PyTorch's dtypes and the numbers of ONNX's TensorProto.DataType."""

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

_core.set_torch_types(torch.dtype, ELEMENT_TYPES, (torch.device, torch.layout, torch.memory_format, torch.Generator))
