"""The program that both captures build, and the conversion of torch's tensors and sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

import sympy
import torch

from opbridge import _core, dtypes  # noqa: F401 - dtypes tells the core about torch
from opbridge.capture.symbolic_sizes.dynamic_axes import with_names
from opbridge.capture.symbolic_sizes.numbers import emit_integer, integer_parts
from opbridge.errors import FileError, UnsupportedError
from opbridge.torch_compat import is_fake, is_traceable_wrapper_subclass
from opbridge.torch_compat.symbols import expression_of, finite_bound

if TYPE_CHECKING:
    from opbridge.capture.autograd_function.calls import FunctionCall
    from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
    from opbridge.capture.symbolic_sizes.numbers import Emit

Shape = Sequence["int | _core.Dim"]


@dataclasses.dataclass
class Program:
    """A captured model: its graph, and the calls of autograd Functions in it.

    The attribute ``call`` of a node ``autograd_function::NAME`` is an index in ``calls``. ``domain_versions`` are the
    opset versions of custom domains that calls of torch.onnx.ops.symbolic state; the conversion fills it.
    """

    graph: _core.Graph
    calls: list[FunctionCall] = dataclasses.field(default_factory=list)
    domain_versions: dict[str, int] = dataclasses.field(default_factory=dict)


class Sizes:
    """Converts torch's sizes to sizes of the graph, and renames symbols to the user's names."""

    def __init__(
        self,
        names: dict[str, str] | None = None,
        example: DynamicSizes | None = None,
        range_of: Callable[[Any], Any] | None = None,
    ) -> None:
        """``range_of`` gives the range of a symbol if it isn't the one that its ShapeEnv has by now."""
        self._names = names or {}
        self._example = example
        self._range_of = range_of
        self._dims: dict[Any, _core.Dim] = {}
        self._symbols: dict[str, _core.Dim] = {}
        self._emit: Emit | None = None
        # torch's symbol of a number read from a tensor → a function that returns its value where it is called
        self.read: dict[Any, Callable[[], _core.ProgramValue]] = {}
        self._computed: dict[Any, Any] = {}  # part of an expression → the symbol of the node that computes it

    def compute_with(self, emit: Emit) -> None:
        """From here on, ``emit`` adds the nodes for numbers that no Dim expresses."""
        self._emit = emit

    def dim(self, size: torch.SymInt) -> _core.Dim:
        return self.dim_of(size.node.expr, size.node.shape_env)

    def dim_of(self, expr: Any, env: Any) -> _core.Dim:
        """``expr`` is a sympy expression, ``env`` the ShapeEnv of its symbols."""
        dim = self._dims.get(expr)
        if dim is None:
            for symbol in expr.free_symbols:
                if str(symbol) not in self._symbols:
                    self._symbols[str(symbol)] = self._symbol(symbol, env)
            try:
                dim = _core.Dim.parse(str(expr), self._symbols)
            except FileError as error:
                parts = integer_parts(expr)
                if self._emit is None or not parts:
                    raise self._refusal(expr, error) from error
                symbols = {part: self._compute(part, env, self._emit) for part in parts}
                dim = self.dim_of(expr.xreplace(symbols), env)
            self._dims[expr] = dim
        return dim

    def _refusal(self, expr: Any, error: FileError) -> UnsupportedError:
        if expr.has(sympy.Piecewise):
            return UnsupportedError(f"the model chooses '{self.text_of(expr)}' by a condition; write an if statement")
        return UnsupportedError(self.text_of(error.message))

    def _compute(self, part: Any, env: Any, emit: Emit) -> Any:
        """The symbol of the node that computes a part of an expression."""
        if part not in self._computed:
            name = f"computed_{len(self._computed)}"
            self._symbols[name] = _core.Dim.symbol(name, *_limits(part, env))
            emit_integer(part, self._symbols[name], env, emit, self)
            self._computed[part] = sympy.Symbol(name, integer=True)
        return self._computed[part]

    def in_example(self, expr: Any, env: Any) -> int | bool | None:
        return None if self._example is None else self._example.in_example(expr, env)

    @property
    def squeezes(self) -> dict[Any, set[tuple[int, int]]]:
        return {} if self._example is None else self._example.squeezes

    def text_of(self, expr: Any) -> str:
        """The text of an expression, or of a message, with the user's names."""
        return with_names(expr, self._names)

    def _symbol(self, symbol: Any, env: Any) -> _core.Dim:
        name = self._names.get(str(symbol), str(symbol))
        while str(symbol) not in self._names and name in self._names.values():
            name += "_"
        least = most = None
        if symbol in env.var_to_range:
            range_ = env.var_to_range[symbol] if self._range_of is None else self._range_of(symbol)
            least, most = finite_bound(range_.lower), finite_bound(range_.upper)
        # The lower bound 2 of an input's axis only means that torch treats 0 and 1 like any other size.
        if symbol.is_positive and (least is None or least <= 2):
            least = 0 if env.backed_var_to_val.get(symbol) == 0 else 1
        if self._example is not None:  # torch knows the bounds only in its own captures
            low, high = map(finite_bound, self._example.bounds_of(name))
            least = max(least or 0, low) if low is not None and low > 1 else least
            most = high if most is None else most
        return _core.Dim.symbol(name, least, most)

    def shape(self, shape: Sequence[int | torch.SymInt]) -> Shape:
        for size in shape:
            if not isinstance(size, int):
                return [size if isinstance(size, int) else self.dim(size) for size in shape]
        return cast(Shape, shape)


NUMBER = _core.Dim.parse("0")  # stands for the shape of a number that is not a size
Result = tuple[str, torch.dtype, "Shape | _core.Dim"]
NUMBER_DTYPES = {
    torch.SymInt: torch.int64,
    torch.SymFloat: torch.float64,
    torch.SymBool: torch.bool,
    int: torch.int64,
    float: torch.float32,
    bool: torch.bool,
}


def describe(name: str, value: Any, sizes: Sizes, results: list[Result]) -> None:
    """Appends to ``results`` the outputs of a node that makes ``value``: one for each tensor or number."""
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            raise UnsupportedError(f"the node '{name}' makes a nested tensor, which ONNX lacks; use padding and a mask")
        results.append((name, value.dtype, sizes.shape(value.shape)))
    elif isinstance(value, torch.SymInt):
        results.append((name, torch.int64, sizes.dim(value)))
    elif isinstance(value, (torch.SymFloat, torch.SymBool)):
        results.append((name, NUMBER_DTYPES[type(value)], NUMBER))
    elif isinstance(value, (list, tuple)):
        for i, element in enumerate(value):
            describe(f"{name}.{i}", element, sizes, results)
    elif value is not None:
        raise UnsupportedError(f"the node '{name}' returns a {type(value).__name__}, which a graph cannot hold")


def argument_names(arguments: Sequence[Any]) -> tuple[str, ...]:
    """The names of the arguments of an operator that names none: higher-order operators, and those of numbers."""
    return tuple(f"arg{i}" for i in range(len(arguments)))


def returned(builder: _core.ProgramBuilder, result: Any, value: Any, name: str) -> _core.ProgramValue:
    """Makes a tensor of ``value``, the graph's value for ``result``: a number goes through ``aten::scalar_tensor``."""
    if isinstance(result, torch.Tensor):
        return cast(_core.ProgramValue, value)
    dtype = torch.float32 if isinstance(result, torch.SymFloat) else NUMBER_DTYPES.get(type(result))
    if dtype is None:
        raise UnsupportedError(f"the model returns '{result}', which is neither a tensor nor a number")
    names = ("s", "dtype")
    return builder.call("aten::scalar_tensor", names, (value, dtype), {}, [(name, dtype, ())], "", "")[0]


def layout_of_strided(operator: str, tensor: Any, sizes: Sizes) -> dict[str, Any]:
    """Strides and offset of the tensor that an operator like ``as_strided`` reads; its result depends on them."""
    if not operator.startswith(("aten::as_strided", "prims::as_strided")) or not isinstance(tensor, torch.Tensor):
        return {}
    offset = sizes.shape((tensor.storage_offset(),))[0]
    return {"self_stride": list(sizes.shape(tensor.stride())), "self_offset": offset}


_MOVES = frozenset({"aten::to.device", "aten::to.dtype_layout"})
_ARGUMENTS_OF_CONVERSION = ("self", "dtype", "non_blocking", "copy", "memory_format")


def without_own_device(
    key: str, names: Sequence[str], tensor: Any, arguments: Sequence[Any], named: dict[str, Any]
) -> tuple[str, Sequence[Any], dict[str, Any]]:
    """Removes the device from a call of ``tensor.to(…)`` if the tensor is on that device: the call may then return the
    tensor itself."""
    if key not in _MOVES or not isinstance(tensor, torch.Tensor):
        return key, arguments, named
    given = {**dict(zip(names, arguments, strict=False)), **named}
    if given.get("device") not in (None, tensor.device) or given.get("layout") not in (None, torch.strided):
        return key, arguments, named
    if given.get("dtype") is None:
        given["dtype"] = tensor.dtype
    return "aten::to.dtype", (), {name: given[name] for name in _ARGUMENTS_OF_CONVERSION if name in given}


def without_nested_lists(operator: str, named: dict[str, Any]) -> dict[str, Any]:
    """The arguments of torch.onnx.ops.symbolic without lists of lists, which a graph cannot hold: pairs are flattened,
    and shapes are left out, since the results have them."""
    if not operator.startswith("onnx_symbolic::"):
        return named
    flat = [bound for pair in named["attr_pos"] for bound in pair]
    return {name: value for name, value in named.items() if name != "shapes"} | {"attr_pos": flat}


def own_generator_refusal(key: str, line: str) -> UnsupportedError:
    """The refusal of an operator that draws from a ``torch.Generator`` which it is given."""
    return UnsupportedError(
        f"{key} draws from a generator of the model's own, whose numbers an exported model cannot repeat; leave "
        "generator= out, or make the numbers an input of the model",
        line,
    )


def refuse_sparse_input(name: str, tensor: torch.Tensor) -> None:
    if tensor.layout is not torch.strided:
        raise UnsupportedError(
            f"the input {name} has the layout {tensor.layout}; ONNX has only dense tensors: pass it as to_dense(), or "
            "its indices and values"
        )


def note_layout(builder: _core.ProgramBuilder, value: Any, tensor: torch.Tensor, sizes: Sizes) -> None:
    """Notes the strides of an input or weight that is not contiguous, which a reshape may copy, and its offset in its
    storage, from which ``as_strided`` counts."""
    layout: dict[str, Any] = {}
    if not _is_contiguous(tensor):
        layout["self_stride"] = list(sizes.shape(tensor.stride()))
    if expression_of(tensor.storage_offset()) != 0:
        layout["self_offset"] = sizes.shape((tensor.storage_offset(),))[0]
    if layout:
        builder.call("opbridge::memory_layout", ("self",), (value,), layout, [], "", "")


def _is_contiguous(tensor: torch.Tensor) -> bool:
    """Unlike ``tensor.is_contiguous()``, adds no guard."""
    shape = [expression_of(size) for size in tensor.shape]
    expected: Any = 1
    for size, stride in zip(reversed(shape), reversed(tensor.stride()), strict=True):
        if size != 1 and expression_of(stride) != expected:
            return 0 in shape
        expected = expected * size
    return True


def _limits(expr: Any, env: Any) -> tuple[int | None, int | None]:
    """The least and the greatest value of an expression, as far as torch knows them."""
    try:
        bounds = env.bound_sympy(expr)
    except (TypeError, RuntimeError):  # torch takes the remainder of a floating-point number for an integer
        return None, None
    return finite_bound(bounds.lower), finite_bound(bounds.upper)


class WrappedWeight:
    """A weight that is a tensor subclass around other tensors, as in quantized models. The inner tensors are the
    weights of the graph; torch.export accesses them one by one."""

    def __init__(self, name: str, tensor: torch.Tensor) -> None:
        self._name = name
        self._tensor = tensor
        self._inner: dict[str, Any] = {}

    def inner(self, builder: _core.ProgramBuilder, attribute: str) -> _core.ProgramValue | WrappedWeight:
        if attribute not in self._inner:
            tensor = getattr(self._tensor, attribute)
            self._inner[attribute] = weight_of(builder, f"{self._name}.{attribute}", tensor)
        return cast("_core.ProgramValue | WrappedWeight", self._inner[attribute])

    def refuse(self) -> NoReturn:
        refuse_weight(self._name, self._tensor)


def weight_of(builder: _core.ProgramBuilder, name: str, tensor: torch.Tensor) -> _core.ProgramValue | WrappedWeight:
    is_wrapper: bool = is_traceable_wrapper_subclass(tensor)
    return WrappedWeight(name, tensor) if is_wrapper else add_weight(builder, name, tensor)


def refuse_weight(name: str, tensor: torch.Tensor) -> NoReturn:
    raise UnsupportedError(
        f"the weight '{name}' is a {type(tensor).__name__} of {tensor.dtype}, {tensor.layout}, on {tensor.device}; "
        "only plain dense tensors with data can be exported"
    )


def add_weight(builder: _core.ProgramBuilder, name: str, tensor: torch.Tensor) -> _core.ProgramValue:
    """Adds an initializer that borrows the tensor's memory, or that of a copy if it is not contiguous CPU memory."""
    is_wrapper: bool = is_fake(tensor) or is_traceable_wrapper_subclass(tensor)
    if tensor.is_meta:
        raise UnsupportedError(
            f"the weight '{name}' is on the meta device, without a value: pass weights=, the path of .safetensors files"
        )
    if tensor.layout != torch.strided or tensor.is_quantized or is_wrapper:
        refuse_weight(name, tensor)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    try:
        address = plain.data_ptr()
    except RuntimeError as error:
        raise UnsupportedError(f"the weight '{name}' is a {type(tensor).__name__} without memory of its own") from error
    size = plain.numel() * plain.element_size()
    value = builder.weight(name, plain.dtype, tuple(plain.shape), address, size, plain)
    note_layout(builder, value, tensor, Sizes())
    return value
