"""Symbolic sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import sympy
import torch

from opbridge.torch_compat.lookup import PatchPoint, expect, find, look_up

with look_up():
    import torch._prims_common.wrappers
    import torch._refs
    import torch._tensor
    import torch.fx.experimental._config
    from torch._higher_order_ops.associative_scan import generic_associative_scan
    from torch._ops import OpOverload
    from torch._subclasses import fake_impls
    from torch.fx.experimental import proxy_tensor, sym_node, symbolic_shapes
    from torch.fx.experimental.proxy_tensor import fake_signature, get_proxy_mode
    from torch.fx.experimental.sym_node import SymNode
    from torch.fx.experimental.symbolic_shapes import (
        DimDynamic,
        GuardOnDataDependentSymNode,
        ShapeEnv,
        StatelessSymbolicContext,
        free_unbacked_symbols,
        uninteresting_files,
    )
    from torch.library import _scoped_library as scoped_library
    from torch.utils._sympy import functions as _functions
    from torch.utils._sympy.functions import (
        FloatTrueDiv,
        FloorDiv,
        Identity,
        IntTrueDiv,
        Max,
        Min,
        Mod,
        PowByNatural,
        PythonMod,
        ToFloat,
    )
    from torch.utils._sympy.numbers import int_oo
    from torch.utils._sympy.value_ranges import ValueRanges

    expect(
        ShapeEnv, "create_symintnode", "replace", "suppress_guards", "_maybe_evaluate_static", "_update_var_to_range"
    )
    expect(SymNode, "expr", "hint", "has_hint", "int_")
    expect(torch.fx.experimental._config, "backed_size_oblivious", "patch")
    # The names of torch's own expression classes in programs of torch.export, besides sympy's.
    for _name in ("IntTrueDiv", "FloatTrueDiv", "FloatPow", "PythonMod"):
        find(_functions, _name)
    for _name in ("OpaqueUnaryFn_sqrt", "TruncToInt", "RoundToInt", "FloorToInt", "CeilToInt"):
        find(_functions, _name)
    sym_cos, sym_log2, sym_sin, sym_tanh = UNARY_FUNCTIONS = tuple(
        find(torch, f"_sym_{_name}") for _name in ("cos", "log2", "sin", "tanh")
    )
    for _function in UNARY_FUNCTIONS:
        find(_functions, f"OpaqueUnaryFn{_function.__name__.removeprefix('_sym')}")

EXPECTATION = find(SymNode, "expect_true").__code__  # torch._check calls this method
CONVERSION_TO_INT = find(SymNode, "int_").__code__  # int() and C++ call this method
_SIGNATURE = fake_signature(len, 1).__code__  # the code of a lambda that gives a function of torch a signature
INT_OF_SYMBOL = PatchPoint(SymNode, "guard_int")
FLOAT_OF_SYMBOL = PatchPoint(SymNode, "guard_float")
BOOL_OF_SYMBOL = PatchPoint(SymNode, "guard_bool")
EXPECTED_SYMBOL = PatchPoint(SymNode, "expect_true")
FLOAT_ARITHMETIC = tuple(PatchPoint(SymNode, name) for name in ("_add", "_sub", "_mul"))
DIFFERENCE_OF_SYMBOLS = PatchPoint(SymNode, "sub")
SUM_OF_SYMBOLS = PatchPoint(SymNode, "add")
EQUALITY = PatchPoint(SymNode, "eq")
INEQUALITY = PatchPoint(SymNode, "ne")
NODE_OF_OPERAND = PatchPoint(sym_node, "to_node")
OPERATIONS_ON_BITS = tuple(  # and on booleans; torch 2.13 has no xor of these
    PatchPoint(SymNode, name)
    for name in ("and_", "or_", "xor", "bitwise_and", "bitwise_or", "bitwise_xor")
    if hasattr(SymNode, name)
)
INTEGER_DIVISION = PatchPoint(SymNode, "_int_floordiv")
CEIL_OF_SYMBOL = PatchPoint(SymNode, "_ceil")
FLOOR_OF_SYMBOL = PatchPoint(SymNode, "_floor")
TRUNC_OF_SYMBOL = PatchPoint(SymNode, "_trunc")
MAXIMUM_OF_SYMBOLS = PatchPoint(SymNode, "_sym_max")
MINIMUM_OF_SYMBOLS = PatchPoint(SymNode, "_sym_min")
NEW_SYMBOL = PatchPoint(ShapeEnv, "create_symbol")  # with the size of the example
SYMBOL_OF_SIZE = PatchPoint(symbolic_shapes, "make_symbol")
SYMBOL_REPLACEMENT = PatchPoint(ShapeEnv, "_set_replacement")  # called when an equation fixes a symbol
STATIC_VALUE = PatchPoint(symbolic_shapes, "_maybe_evaluate_static_worker")
BIT_LENGTH = PatchPoint(torch.SymInt, "bit_length")
ROUND = PatchPoint(torch.SymInt, "__round__")  # torch's method ignores the digits
FLOOR_DIVISION = PatchPoint(torch.SymInt, "__floordiv__")
FLOOR_DIVISION_OF_FLOAT = PatchPoint(torch.SymFloat, "__floordiv__")
FLOOR_DIVISION_BY_SYMBOL = PatchPoint(torch.SymInt, "__rfloordiv__")
FLOOR_DIVISION_BY_FLOAT = PatchPoint(torch.SymFloat, "__rfloordiv__")
HASH_OF_SYMBOL = PatchPoint(torch.SymInt, "__hash__")
INT_TEXT = PatchPoint(torch.SymInt, "__repr__")
FLOAT_TEXT = PatchPoint(torch.SymFloat, "__repr__")
BOOL_TEXT = PatchPoint(torch.SymBool, "__repr__")
INT_FORMAT = PatchPoint(torch.SymInt, "__format__")
FLOAT_FORMAT = PatchPoint(torch.SymFloat, "__format__")
LINSPACE = PatchPoint(torch, "linspace")
AS_TENSOR = PatchPoint(torch, "as_tensor")
AS_ARRAY = PatchPoint(torch, "asarray")
PAD = PatchPoint(torch.nn.functional, "pad")
AVERAGES, MAXIMA = (  # of windows, whose lengths they make numbers
    tuple(PatchPoint(torch.nn.functional, f"{kind}_pool{rank}d") for rank in (1, 2, 3)) for kind in ("avg", "max")
)
NEW_TENSOR = PatchPoint(torch.Tensor, "new_tensor")
SPLIT = PatchPoint(torch, "tensor_split")  # it compares the remainder of a size with the index of each part
SPLIT_METHOD = PatchPoint(torch.Tensor, "tensor_split")
BROADCAST_SHAPE = PatchPoint(torch._C, "_infer_size")
OVERLAP = PatchPoint(torch, "_debug_has_internal_overlap")  # it asks whether each size is 1
INDEX_OF_SLICE = PatchPoint(fake_impls, "_compute_slice_index")
NUMBER_OF_TYPE = PatchPoint(torch._prims_common.wrappers, "_maybe_convert_to_dtype")
UNIQUE_SHAPES = PatchPoint(fake_impls, "_unique")  # it uses a negative dim as an index into the sizes

# The code of the functions that determine the shape of a broadcast.
BROADCASTING = frozenset(
    find(owner, name).__code__
    for owner, name in ((torch._refs, "_broadcast_shapes"), (torch._refs, "expand"), (fake_impls, "infer_size"))
)
_EXPAND = find(torch._refs, "expand").__code__
# Of an expansion: it requires equal sizes where it does not know that the tensor's is 1.
EXPANSION = frozenset({find(torch._prims, "_broadcast_in_dim_meta").__code__})
# The code of the functions that find out whether a tensor can be a view. This does not change the values of a result.
LAYOUT = frozenset(find(fake_impls, name).__code__ for name in ("_is_contiguous_with_hinted_checks", "_hinted_eq"))
# The files with functions of torch whose branches by sizes change their results.
BRANCHING_FILES = (
    generic_associative_scan.__code__.co_filename,  # it halves a size again and again
    str(torch.signal.windows.windows.__file__),
)
FUNCTION_MODE = "__torch_function__"  # the method of a mode of torch functions
CALL_OF_OPERATOR = find(OpOverload, "__call__").__code__
FILE_OF_PROXIES = str(proxy_tensor.__file__)  # the recording of torch.export
FILE_OF_TENSOR = str(torch._tensor.__file__)  # the methods that are written in Python
LOGGER = symbolic_shapes.__name__


INTEGERS = (int, torch.SymInt)
FLOATS = (float, torch.SymFloat)


def expression_of(number: int | float | torch.SymInt | torch.SymFloat) -> Any:
    """sympy's expression of a symbolic number; any other number itself."""
    return number.node.expr if isinstance(number, (torch.SymInt, torch.SymFloat)) else number


def expanded_size(frame: FrameType) -> Any:
    """The size that is being expanded, if the function of ``frame`` expands a tensor to given sizes; otherwise None."""
    return frame.f_locals.get("x") if frame.f_code is _EXPAND else None


def always(env: Any, expression: Any) -> Any:
    """The value of the expression if it is the same for all sizes that ``env`` allows; otherwise None."""
    return env._maybe_evaluate_static(expression)


@contextlib.contextmanager
def restore_ranges(env: Any) -> Iterator[None]:
    """Forgets what ``env`` learns of the bounds of its symbols."""
    before = dict(env.var_to_range)
    try:
        yield
    finally:
        if any(env.var_to_range[symbol] != known for symbol, known in before.items()):
            env.var_to_range.update(before)
            env._maybe_evaluate_static.cache_clear()


def asserted_minimum(env: Any, size: Any) -> int:
    """The least value of a constant, or of a size that depends on data, of which torch has asserted that it is at least
    a constant. 0 if nothing is known."""
    if size.is_Integer:
        return int(size)
    asserted = [each.expr for each in env.deferred_runtime_asserts.get(size, ())]
    least = [each.lhs for each in asserted if isinstance(each, sympy.Le) and each.rhs == size and each.lhs.is_Integer]
    return max(map(int, least), default=0)


def is_signature(code: CodeType) -> bool:
    """Whether ``code`` is a lambda of torch that only calls a function: its file is that of code from a text."""
    return code.co_filename == _SIGNATURE.co_filename and code.co_names == _SIGNATURE.co_names


def with_expression(node: Any, expression: Any) -> Any:
    """A symbol like ``node`` with another expression of the same value."""
    return SymNode(expression, node.shape_env, node.pytype, node.hint, fx_node=node.fx_node)


def has_shape_rule(operator: Any) -> bool:
    """Whether torch knows the shapes of the operator's results without running it."""
    known: bool = operator.has_kernel_for_dispatch_key(torch._C.DispatchKey.Meta)
    return known


def set_size_oblivious(enabled: bool) -> contextlib.AbstractContextManager[None]:
    """Sets whether torch ignores the values of the example's sizes in its reasoning, in this thread."""
    config: Any = torch.fx.experimental._config
    patched: contextlib.AbstractContextManager[None] = config.patch(backed_size_oblivious=enabled)
    return patched


__all__ = [
    "AS_ARRAY",
    "AS_TENSOR",
    "AVERAGES",
    "BOOL_OF_SYMBOL",
    "BOOL_TEXT",
    "BRANCHING_FILES",
    "BROADCASTING",
    "BROADCAST_SHAPE",
    "CEIL_OF_SYMBOL",
    "CONVERSION_TO_INT",
    "DIFFERENCE_OF_SYMBOLS",
    "EQUALITY",
    "EXPANSION",
    "EXPECTATION",
    "EXPECTED_SYMBOL",
    "FILE_OF_PROXIES",
    "FILE_OF_TENSOR",
    "FLOAT_ARITHMETIC",
    "FLOAT_FORMAT",
    "FLOAT_OF_SYMBOL",
    "FLOAT_TEXT",
    "FLOOR_OF_SYMBOL",
    "FUNCTION_MODE",
    "INDEX_OF_SLICE",
    "INEQUALITY",
    "INTEGER_DIVISION",
    "INT_FORMAT",
    "INT_OF_SYMBOL",
    "INT_TEXT",
    "LAYOUT",
    "LINSPACE",
    "LOGGER",
    "MAXIMA",
    "MAXIMUM_OF_SYMBOLS",
    "MINIMUM_OF_SYMBOLS",
    "NEW_SYMBOL",
    "NEW_TENSOR",
    "NODE_OF_OPERAND",
    "NUMBER_OF_TYPE",
    "OPERATIONS_ON_BITS",
    "OVERLAP",
    "SPLIT",
    "SPLIT_METHOD",
    "SYMBOL_OF_SIZE",
    "SYMBOL_REPLACEMENT",
    "TRUNC_OF_SYMBOL",
    "UNIQUE_SHAPES",
    "DimDynamic",
    "FloatTrueDiv",
    "FloorDiv",
    "GuardOnDataDependentSymNode",
    "Identity",
    "IntTrueDiv",
    "Max",
    "Min",
    "Mod",
    "PowByNatural",
    "PythonMod",
    "ShapeEnv",
    "StatelessSymbolicContext",
    "SymNode",
    "ToFloat",
    "always",
    "asserted_minimum",
    "call_of_function",
    "call_of_operator",
    "expanded_size",
    "forget_facts",
    "free_unbacked_symbols",
    "get_proxy_mode",
    "has_shape_rule",
    "is_signature",
    "leave_unlimited",
    "restore_ranges",
    "scoped_library",
    "set_size_oblivious",
    "sym_cos",
    "sym_log2",
    "sym_sin",
    "sym_tanh",
    "uninteresting_files",
    "with_expression",
]


def finite_bound(bound: Any) -> int | None:
    """A bound of one of torch's ranges; None for infinity, and for the integer limit, by which torch represents it."""
    is_integer = isinstance(bound, int) or getattr(bound, "is_Integer", False)
    return int(bound) if is_integer and abs(int(bound)) < 2**62 else None


@contextlib.contextmanager
def forget_facts(env: Any) -> Iterator[None]:
    """Makes torch forget what it infers meanwhile about sizes that depend on data and that exist now, such as that
    ``u0`` is 4 after ``x.reshape(4, 3)``."""
    known = {symbol for symbol in env.var_to_range if free_unbacked_symbols(symbol)}
    asserted = {symbol: list(facts) for symbol, facts in env.deferred_runtime_asserts.items()}
    kept = [
        (env.var_to_range, dict(env.var_to_range)),
        (env.replacements, dict(env.replacements)),
        (env.deferred_runtime_asserts, asserted),
    ]
    axioms, divisible, size_like = dict(env.axioms), set(env.divisible), set(env.size_like)
    try:
        yield
    finally:
        for facts, before in kept:
            for symbol in known & facts.keys():
                del facts[symbol]
            facts.update({symbol: before[symbol] for symbol in known & before.keys()})
        env.axioms = axioms
        env.divisible = divisible
        env.size_like -= known - size_like
        env._version_counter += 1  # of torch's caches
        env._replacements_version_counter += 1


def leave_unlimited(env: Any, symbol: Any) -> None:
    """Makes the integer limit, by which torch bounds a size that depends on data, no bound: torch fails to derive those
    of ``n`` from ``symbol == 5 * n``, for which it rounds."""
    known = env.var_to_range.get(symbol)
    if known is not None and known.is_int and finite_bound(known.upper) is None:
        env.var_to_range[symbol] = ValueRanges(known.lower, int_oo)


def call_of_operator(frame: FrameType) -> tuple[Any, Any, Any] | None:
    """The operator and the arguments of the call that ``frame`` runs; None if it runs something else."""
    if frame.f_code is not CALL_OF_OPERATOR:
        return None
    return frame.f_locals["self"], frame.f_locals["args"], frame.f_locals["kwargs"]


def call_of_function(frame: FrameType) -> tuple[Any, Any, Any] | None:
    """The same for a function of torch that a mode intercepts."""
    names = frame.f_locals
    if frame.f_code.co_name != FUNCTION_MODE or not {"func", "args", "kwargs"} <= names.keys():
        return None
    return names["func"], names["args"], names["kwargs"] or {}


def limit_size(size: torch.SymInt, least: Any, most: Any) -> None:
    """Tells torch the bounds of a symbol; None, or infinity, if there is none. A least size of up to 2 says nothing:
    torch treats 0 and 1 like any other size."""
    node: Any = size.node
    symbol, env = node.expr, node.shape_env
    low, high = finite_bound(least), finite_bound(most)
    if symbol.is_Symbol and ((low or 0) > 2 or high is not None):
        known = env.var_to_range[symbol]
        low = max(low or 0, finite_bound(known.lower) or 0)
        env._update_var_to_range(
            symbol, ValueRanges(sympy.Integer(low), int_oo if high is None else sympy.Integer(high))
        )
