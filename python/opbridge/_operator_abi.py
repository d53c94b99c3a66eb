"""The tables and shape rules of operator libraries, accessed through ``opbridge/operator_abi.h``."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_ABI = 2


class _OperatorRow(ctypes.Structure):
    _fields_ = (
        ("schema", ctypes.c_char_p),
        ("version", ctypes.c_int32),
        ("backward_of", ctypes.c_int32),
        ("lowered_since", ctypes.c_int32),
    )


class _Table(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("operators", ctypes.POINTER(_OperatorRow)),
        ("error", ctypes.c_char_p),
    )


class _Dim(ctypes.Structure):
    _fields_ = (("value", ctypes.c_int64), ("symbolic", ctypes.c_int64))


class _TensorType(ctypes.Structure):
    _fields_ = (("element_type", ctypes.c_int32), ("rank", ctypes.c_int32), ("dims", ctypes.POINTER(_Dim)))


class _Argument(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("tensors", ctypes.POINTER(_TensorType)),
        ("values", ctypes.POINTER(ctypes.c_int64)),
        ("ints", ctypes.POINTER(_Dim)),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("strings", ctypes.POINTER(ctypes.c_char_p)),
    )


_DimPointer = ctypes.POINTER(_Dim)
_ARITHMETIC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int32, _DimPointer, _DimPointer, _DimPointer)
_COMPARE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.py_object, ctypes.c_int32, _DimPointer, _DimPointer, ctypes.POINTER(ctypes.c_int32)
)
_REQUIRE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int32, _DimPointer, _DimPointer, ctypes.c_char_p)
_DATA_SIZE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, _DimPointer)
_OUTPUT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_int32, ctypes.POINTER(_TensorType))


class _Host(ctypes.Structure):
    _fields_ = (
        ("user", ctypes.py_object),
        ("arithmetic", _ARITHMETIC),
        ("compare", _COMPARE),
        ("require", _REQUIRE),
        ("data_size", _DATA_SIZE),
        ("output", _OUTPUT),
    )


class ForeignLibraryError(ValueError):
    """The library has no operators written against ``opbridge/operator.h``."""


class Library:
    """An open library; it stays open as long as the process lives."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        handle = ctypes.CDLL(self.path)
        try:
            table_function = handle.opbridge_operators
            self._infer = handle.opbridge_infer
        except AttributeError:
            raise ForeignLibraryError(f"{path} is not a library of opbridge operators") from None
        table_function.restype = ctypes.POINTER(_Table)
        table = table_function().contents
        if table.abi != _ABI:
            raise ValueError(f"{path} was built with another opbridge (ABI {table.abi}, not {_ABI}): rebuild it")
        self._error: bytes | None = table.error
        self.rows = [
            (row.schema.decode(), int(row.version), int(row.backward_of), int(row.lowered_since))
            for row in (table.operators[i] for i in range(table.count))
        ]
        """For each operator: the schema line; the opset version; the index of the operator whose gradient it computes,
        or -1; the first opset at which it has a lowering to standard ONNX, or 0."""

    def check_registered(self) -> None:
        if self._error is not None:
            raise RuntimeError(f"PyTorch refused operators of {self.path}: {self._error.decode()}")

    def infer(self, index: int, schema_types: Sequence[str], values: Sequence[Any]) -> list[tuple[int, list[Any]]]:
        """Runs the shape rule of operator ``index`` on one value per argument. ``schema_types`` are PyTorch's
        ``str(argument.type)``. Returns the element type (ONNX's number) and the sizes of each output."""
        run = ShapeRun()
        arguments = (_Argument * len(values))(*map(run.argument, schema_types, values))
        host = _Host(run, *_CALLBACKS)
        message = ctypes.create_string_buffer(1024)
        status = self._infer(
            ctypes.c_int32(index),
            arguments,
            ctypes.c_int32(len(arguments)),
            ctypes.byref(host),
            message,
            ctypes.c_size_t(len(message)),
        )
        if run.error is not None:
            raise run.error
        if status != 0:
            raise RuntimeError(message.value.decode(errors="replace"))
        return run.outputs


_NONE, _TENSOR, _TENSORS, _INT, _INTS, _FLOAT, _FLOATS, _STRING, _STRINGS = range(9)


class ShapeRun:
    """One run of a shape rule: gives each symbolic size an index, and does the arithmetic of the rule."""

    def __init__(self) -> None:
        self.sizes: list[Any] = []  # torch.SymInt
        self.outputs: list[tuple[int, list[Any]]] = []  # element type, sizes
        self.error: BaseException | None = None
        self._kept: list[object] = []

    def encode(self, size: Any) -> _Dim:
        if type(size) is int:
            return _Dim(size, 0)
        self.sizes.append(size)
        return _Dim(len(self.sizes) - 1, 1)

    def decode(self, dim: _Dim) -> Any:
        return self.sizes[dim.value] if dim.symbolic else dim.value

    def argument(self, schema_type: str, value: Any) -> _Argument:
        """Converts an argument; ``schema_type`` is PyTorch's text, such as ``Optional[List[int]]``."""
        if value is None:
            return _Argument(kind=_NONE)
        kind = schema_type.removeprefix("Optional[")
        is_list = kind.startswith("List[")
        kind = kind.removeprefix("List[").rstrip("]")
        values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        result = _Argument(count=len(values))
        if kind == "Tensor":
            result.kind = _TENSORS if is_list else _TENSOR
            result.tensors = self._array(_TensorType, [self._tensor_type(tensor) for tensor in values])
        elif kind in ("int", "SymInt", "bool"):
            result.kind = _INTS if is_list else _INT
            result.ints = self._array(_Dim, [self.encode(int(v) if type(v) is bool else v) for v in values])
        elif kind == "float":
            result.kind = _FLOATS if is_list else _FLOAT
            result.floats = self._array(ctypes.c_double, [float(v) for v in values])
        else:
            result.kind = _STRINGS if is_list else _STRING
            result.strings = self._array(ctypes.c_char_p, [v.encode() for v in values])
        return result

    def _tensor_type(self, tensor: Any) -> _TensorType:
        from opbridge.dtypes import ELEMENT_TYPES  # imports torch, without which libraries can be listed

        dims = self._array(_Dim, [self.encode(size) for size in tensor.shape])
        return _TensorType(ELEMENT_TYPES[tensor.dtype], tensor.dim(), dims)

    def _array(self, element: Any, values: Sequence[Any]) -> Any:
        array = (element * len(values))(*values)
        self._kept.append(array)
        return array


def _guarded(action: Callable[..., None]) -> Callable[..., int]:
    def call(run: ShapeRun, *args: Any) -> int:
        try:
            action(run, *args)
        except BaseException as error:
            run.error = error
            return 1
        return 0

    return call


def _arithmetic(run: ShapeRun, what: int, a: Any, b: Any, result: Any) -> None:
    import torch

    functions = (
        lambda x, y: x + y,
        lambda x, y: x - y,
        lambda x, y: x * y,
        lambda x, y: x // y,
        lambda x, y: x % y,
        torch.sym_min,
        torch.sym_max,
    )
    result[0] = run.encode(functions[what](run.decode(a[0]), run.decode(b[0])))


def _condition(run: ShapeRun, what: int, a: Any, b: Any) -> Any:
    x, y = run.decode(a[0]), run.decode(b[0])
    return (x == y, x != y, x < y, x <= y)[what]


def _compare(run: ShapeRun, what: int, a: Any, b: Any, result: Any) -> None:
    result[0] = int(bool(_condition(run, what, a, b)))


def _require(run: ShapeRun, what: int, a: Any, b: Any, message: bytes) -> None:
    from opbridge.torch_compat import check

    text = message.decode(errors="replace")
    check(_condition(run, what, a, b), lambda: text)


def _data_size(run: ShapeRun, result: Any) -> None:
    import torch

    result[0] = run.encode(torch.library.get_ctx().new_dynamic_size())


def _output(run: ShapeRun, _index: int, tensor: Any) -> None:
    described = tensor[0]
    sizes = [run.decode(described.dims[i]) for i in range(described.rank)]
    run.outputs.append((described.element_type, sizes))


_CALLBACKS = (
    _ARITHMETIC(_guarded(_arithmetic)),
    _COMPARE(_guarded(_compare)),
    _REQUIRE(_guarded(_require)),
    _DATA_SIZE(_guarded(_data_size)),
    _OUTPUT(_guarded(_output)),
)
