"""Arithmetic of any two types and shapes: promotion, broadcasting, empty and 0-d tensors, Python numbers, NaN."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_check import check

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "maximum": lambda a, b: torch.maximum(torch.as_tensor(a), torch.as_tensor(b)),
    "eq": operator.eq,
    "lt": operator.lt,
    "ge": operator.ge,
    "where": lambda a, b: torch.where(torch.as_tensor(a) > 0, a, b),
    "logical": lambda a, b: torch.logical_xor(torch.as_tensor(a), torch.as_tensor(b)),
    "true division": torch.true_divide,
    "floor division": lambda a, b: torch.floor_divide(a, _without_zeros(b)),
    "trunc division": lambda a, b: torch.div(a, _without_zeros(b), rounding_mode="trunc"),
    "remainder": lambda a, b: torch.remainder(a, _without_zeros(b)),
    "fmod": lambda a, b: torch.fmod(a, _without_zeros(b)),
    "bitwise and": operator.and_,
}


def _without_zeros(value: Any) -> Any:
    """PyTorch raises an error if integers are divided by zero."""
    if isinstance(value, torch.Tensor):
        return value if value.is_floating_point() else value + (value == 0).to(value.dtype)
    return value or 1


@st.composite
def operands(draw: st.DrawFn) -> tuple[Any, Any]:
    """Two tensors that broadcast, or a tensor and a number."""
    dims = draw(st.lists(st.integers(0, 3), max_size=3))

    def shape() -> list[int]:
        kept = dims[draw(st.integers(0, len(dims))) :]
        return [draw(st.sampled_from([size, 1])) for size in kept]

    def tensor() -> torch.Tensor:
        dtype = draw(st.sampled_from([*FLOATS, *INTEGERS, torch.bool]))
        sizes = shape()
        generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
        values = torch.randint(-20, 20, sizes, generator=generator)
        if dtype.is_floating_point:
            odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])[values % 4]
            return torch.where(values > 14, odd, values / 4).to(dtype)
        return values.to(dtype) if dtype.is_signed else values.abs().to(dtype)

    first: Any = tensor()
    second: Any = draw(st.one_of(st.just(None), st.integers(-3, 3), st.sampled_from([0.5, -2.0, True])))
    second = tensor() if second is None else second
    return first, second


def _defined(functions: dict[str, Callable[..., Any]], *tensors: torch.Tensor) -> dict[str, Callable[..., Any]]:
    """The operations that PyTorch itself accepts for the tensors."""

    def is_defined(function: Callable[..., Any]) -> bool:
        try:
            function(*tensors)
        except (RuntimeError, TypeError, NotImplementedError):
            return False
        return True

    return {name: function for name, function in functions.items() if is_defined(function)}


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(operands())
def test_two_operands(pair: tuple[Any, Any]) -> None:
    first, second = pair
    if isinstance(second, torch.Tensor):
        check(_defined(FUNCTIONS, first, second), first, second)
        return
    functions = {}
    for name, function in FUNCTIONS.items():
        functions[name] = lambda x, function=function: function(x, second)
        functions[f"{name}, turned"] = lambda x, function=function: function(second, x)
    check(_defined(functions, first), first)
