"""Operators that take or return tensors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from opbridge.capture.operators import operator_of
from opbridge.capture.torchscript.branches import Truth
from opbridge.capture.torchscript.scalars import to_bool, to_float, to_int
from opbridge.capture.torchscript.sizes import SizeTensor, computed, number_of, with_tensors
from opbridge.dtypes import SCALAR_TYPES
from opbridge.operator_names import name_in
from opbridge.torch_compat import OpOverload, schema_of
from opbridge.torch_compat.torchscript import OPERATORS_OF_TWINS, is_dispatched

Function = Callable[..., Any]
_NAME = re.compile(r"(\w+)::(\w+)(?:\.(\w+))?\(")
_DTYPES = {number: dtype for dtype, (_, number) in SCALAR_TYPES.items()}


def function_of(schema: str) -> Function | None:
    """The function for an operator; None if it is unknown."""
    name = name_in(schema)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    found = _NAME.match(schema)
    if found is None:
        return None
    overload = getattr(getattr(getattr(torch.ops, found[1]), found[2], None), found[3] or "default", None)
    return _call_of(overload) if isinstance(overload, OpOverload) and is_dispatched(overload) else None


def _call_of(overload: OpOverload) -> Function:
    schema = schema_of(overload)
    keywords = [argument.name for argument in schema.arguments if argument.kwarg_only]
    positional = len(schema.arguments) - len(keywords)
    writes = bool(operator_of(overload).written)

    def call(*arguments: Any) -> Any:
        result = computed(schema.name, arguments)
        if result is not None:
            return result
        given = with_tensors(list(arguments))
        if writes:
            for argument in arguments:
                if type(argument) is SizeTensor:
                    argument.value = None
        return overload(*given[:positional], **dict(zip(keywords, given[positional:], strict=True)))

    return call


def number_of_dtype(dtype: torch.dtype) -> int:
    """TorchScript's element types are numbers."""
    return SCALAR_TYPES[dtype][1]


def dtype_of(number: Any) -> Any:
    return _DTYPES.get(number, number)


def _item(tensor: Any) -> Any:
    number = number_of(tensor)
    return number.item() if isinstance(number, torch.Tensor) else number


def _int(tensor: Any) -> Any:
    number = number_of(tensor)
    if isinstance(number, torch.Tensor) and number.dtype == torch.bool:
        number = number.to(torch.int64)  # a bool can only become a number by a branch
    return to_int(number.item() if isinstance(number, torch.Tensor) else number)


def _float(tensor: Any) -> Any:
    return to_float(_item(tensor))


def _bool(tensor: Any) -> Any:
    number = number_of(tensor)
    return Truth(number) if isinstance(number, torch.Tensor) else to_bool(number)


def _tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> torch.Tensor:
    return torch.tensor(_numbers(data), dtype=dtype_of(dtype), device=device, requires_grad=requires_grad)


def _as_tensor(data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
    return torch.as_tensor(_numbers(data), dtype=dtype_of(dtype), device=device)


def _numbers(data: Any) -> Any:
    return [_numbers(each) for each in data] if isinstance(data, list) else number_of(data)


def _to_dtype(tensor: Any, dtype: Any = None, non_blocking: bool = False, copy: bool = False) -> Any:
    given = with_tensors(tensor)
    if dtype is None:
        return torch.ops.aten.to.other(given, given, non_blocking, copy)
    return torch.ops.aten.to.dtype(given, dtype_of(dtype), non_blocking, copy)


def _to_device(tensor: Any, device: Any, dtype: Any = None, non_blocking: bool = False, copy: bool = False) -> Any:
    given = with_tensors(tensor)
    return torch.ops.aten.to.device(
        given, device or given.device, given.dtype if dtype is None else dtype_of(dtype), non_blocking, copy
    )


def _property(name: str) -> Function:
    return lambda tensor: getattr(with_tensors(tensor), name)


def _method(name: str) -> Function:
    return lambda tensor, *arguments: getattr(with_tensors(tensor), name)(*arguments)


_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)  # by the numbers that TorchScript gives them
_FLAGS = [
    name
    for name in (
        *("is_cuda", "is_cpu", "is_meta", "is_sparse", "is_sparse_csr", "is_quantized", "is_nested", "is_mkldnn"),
        *("is_mps", "is_xla", "is_xpu", "is_vulkan", "requires_grad"),
    )
    if hasattr(torch.Tensor, name)
]
_FUNCTIONS: dict[str, Function] = {
    "aten::size": lambda tensor: list(with_tensors(tensor).size()),
    "aten::size.int": _method("size"),
    "aten::stride": lambda tensor: list(with_tensors(tensor).stride()),
    "aten::stride.int": _method("stride"),
    "aten::dim": _method("dim"),
    "aten::numel": _method("numel"),
    "prim::numel": _method("numel"),
    "aten::len.Tensor": lambda tensor: with_tensors(tensor).size(0),
    "aten::storage_offset": _method("storage_offset"),
    "aten::is_floating_point": _method("is_floating_point"),
    "aten::is_complex": _method("is_complex"),
    "aten::get_device": _method("get_device"),
    "prim::dtype": lambda tensor: number_of_dtype(with_tensors(tensor).dtype),
    "prim::device": _property("device"),
    "prim::layout": lambda tensor: _LAYOUTS.index(with_tensors(tensor).layout),
    **{f"prim::{name}": _property(name) for name in _FLAGS},
    "aten::numpy_T.a": _property("T"),
    "aten::mT.a": _property("mT"),
    "aten::mH.a": _property("mH"),
    "aten::element_size": _method("element_size"),
    "aten::has_torch_function": lambda *_: False,
    **{name: _call_of(overload) for name, overload in OPERATORS_OF_TWINS.items()},
    "prim::data": lambda tensor: with_tensors(tensor).detach(),
    "aten::Int.Tensor": _int,
    "aten::Float.Tensor": _float,
    "aten::Bool.Tensor": _bool,
    "aten::IntImplicit": _int,
    "aten::FloatImplicit": _float,
    "aten::ScalarImplicit": _item,
    "aten::item": _item,
    "aten::is_nonzero": _bool,
    "aten::tensor": _tensor,
    "aten::tensor.int": _tensor,
    "aten::tensor.float": _tensor,
    "aten::tensor.bool": _tensor,
    "aten::as_tensor": lambda tensor, dtype=None, device=None: _to_device(tensor, device, dtype),
    "aten::as_tensor.int": _as_tensor,
    "aten::as_tensor.float": _as_tensor,
    "aten::as_tensor.bool": _as_tensor,
    "aten::as_tensor.list": _as_tensor,
    "aten::to.prim_dtype": _to_dtype,
    "aten::to.prim_Device": _to_device,
    "prim::NumToTensor.Scalar": lambda number: _tensor_of(number),
    "prim::NumToTensor.bool": lambda flag: torch.scalar_tensor(flag, dtype=torch.bool),
}


def _tensor_of(number: Any) -> Any:
    if type(number) in (int, torch.SymInt):
        return SizeTensor(number)
    return torch.scalar_tensor(number, dtype=torch.float64)
