"""Nodes for numbers that a model computes from sizes, and that no Dim expresses.

These are floating-point and boolean numbers, and integers that are rounded from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import torch

from opbridge import _core
from opbridge.errors import UnsupportedError

if TYPE_CHECKING:
    from opbridge.capture.program import Sizes

# sympy's functions → the operators that torch.export uses for the same computation.
_CALLS = {
    "Add": "_operator::add",
    "Mul": "_operator::mul",
    "IntTrueDiv": "_operator::truediv",
    "FloatTrueDiv": "_operator::truediv",
    "Pow": "_operator::pow",
    "FloatPow": "_operator::pow",
    "PowByNatural": "_operator::pow",
    "PythonMod": "_operator::mod",
    "Mod": "_operator::mod",
    "ToFloat": "torch::sym_float",
    "Abs": "_operator::abs",
    "OpaqueUnaryFn_sqrt": "torch::_sym_sqrt",
    "OpaqueUnaryFn_log2": "torch::_sym_log2",
    "OpaqueUnaryFn_sin": "torch::_sym_sin",
    "OpaqueUnaryFn_cos": "torch::_sym_cos",
    "OpaqueUnaryFn_tanh": "torch::_sym_tanh",
    "Max": "torch::sym_max",
    "Min": "torch::sym_min",
    "Equality": "_operator::eq",
    "Unequality": "_operator::ne",
    "StrictLessThan": "_operator::lt",
    "LessThan": "_operator::le",
    "StrictGreaterThan": "_operator::gt",
    "GreaterThan": "_operator::ge",
    "And": "_operator::and_",
    "Or": "_operator::or_",
}
# The functions that make integers from floating-point numbers, or that no Dim expresses.
_INTEGERS = {
    "TruncToInt": "math::trunc",
    "FloorToInt": "math::floor",
    "CeilToInt": "math::ceil",
    "RoundToInt": "builtins::round",
    "BitwiseFn_bitwise_and": "_operator::and_",
    "BitwiseFn_bitwise_or": "_operator::or_",
    "BitwiseFn_bitwise_xor": "_operator::xor",
}
_CHAINED = frozenset({"Add", "Mul", "Max", "Min", "And", "Or"})


class Emit(Protocol):
    """Adds a node that makes a number, and names it if it is a size."""

    def __call__(
        self, key: str, arguments: tuple[Any, ...], dtype: torch.dtype, size: _core.Dim = ..., /
    ) -> _core.ProgramValue: ...


def number(expr: Any, env: Any, emit: Emit, sizes: Sizes) -> Any:
    """The value of a sympy expression: a constant, a Dim, or the output of the nodes that ``emit`` makes.

    ``env`` is the ShapeEnv of its symbols; ``sizes`` knows the numbers that operators have read from tensors.
    """
    if expr in sizes.read:
        return sizes.read[expr]()
    if expr.is_Integer:
        return int(expr)
    if expr.is_Number:
        return float(expr)
    if expr.is_Boolean and expr.is_Atom and not expr.is_Symbol:
        return bool(expr)
    name = type(expr).__name__
    if name == "Identity":
        return number(expr.args[0], env, emit, sizes)
    if _is_integer(expr) or name in _INTEGERS:  # torch declares no operation on bits as an integer to sympy
        return sizes.dim_of(expr, env)
    if name not in _CALLS:
        raise UnsupportedError(f"the model computes '{sizes.text_of(expr)}' from sizes, which a graph cannot express")
    dtype = torch.bool if expr.is_Boolean or expr.is_Relational else torch.float64
    operands = [number(operand, env, emit, sizes) for operand in expr.args]
    if name not in _CHAINED:
        return emit(_CALLS[name], tuple(operands), dtype)
    result = operands[0]
    for operand in operands[1:]:
        result = emit(_CALLS[name], (result, operand), dtype)
    return result


def _is_integer(expr: Any) -> bool:
    """torch declares every remainder as an integer to sympy, also those of floating-point numbers."""
    parts = expr.args if type(expr).__name__ in ("Add", "Mul", "Mod", "PythonMod") else ()
    return bool(expr.is_integer) and all(map(_is_integer, parts))


def integer_parts(expr: Any) -> list[Any]:
    """The parts of an expression that :func:`emit_integer` computes. No part contains another."""
    if type(expr).__name__ in _INTEGERS:
        return [expr]
    return [part for operand in expr.args for part in integer_parts(operand)]


def emit_integer(
    expr: Any,
    size: _core.Dim,
    env: Any,
    emit: Emit,
    sizes: Sizes,
) -> None:
    """Adds the nodes that compute a part of an expression; the last node names it ``size``. ``env`` and ``sizes`` are
    those of :func:`number`."""
    operands = tuple(number(operand, env, emit, sizes) for operand in expr.args)
    emit(_INTEGERS[type(expr).__name__], operands, torch.int64, size)
