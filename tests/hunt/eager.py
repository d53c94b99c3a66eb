"""Runs a case in eager PyTorch: twice, to check that it is deterministic, in float64, and with random rounding."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import dataclasses
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from checking.tensors import real, widened
from hunt.case import Case, wide_spec
from hunt.forms import arguments_of
from opbridge.torch_compat import is_transformed

LARGEST = 1 << 16  # most elements of a result
_M_PERTURB = -6  # mallopt's parameter for the byte with which new memory is filled


class Rejected(Exception):
    """PyTorch itself refuses the case, or C++ leaves it undefined."""


@dataclasses.dataclass(frozen=True)
class Results:
    """``after`` has the inputs and buffers that the call has written to, by name."""

    leaves: list[torch.Tensor]
    after: dict[str, torch.Tensor]
    random: bool = False  # random numbers were drawn, so the values cannot be compared
    complex_leaves: frozenset[int] = frozenset()  # those of `leaves` that are pairs of real and imaginary parts


def in_eager(case: Case, run: int) -> Results:
    first = _run(case.module(), case.inputs(run), 0x55, watched=True)
    second = _run(case.module(), case.inputs(run), 0xAA)
    if not first.random and not _same(first, second):
        raise Rejected("two runs differ: it reads uninitialized memory")
    return first


def in_float64(case: Case, run: int) -> Results | None:
    """None if PyTorch refuses the case in float64."""
    try:
        with default_dtype(torch.float64):
            return _run(case.wide_module(), [wide_spec(spec).make() for spec in case.runs[run]], 0)
    except Exception:
        return None


def rounded_at_random(case: Case, run: int, times: int = 6) -> list[Results]:
    """Runs in which each operator's result is randomly rounded up or down (Monte Carlo arithmetic). What differs
    between these runs is not determined by the program."""
    made = []
    for seed in range(times):
        with contextlib.suppress(Exception), RoundedAtRandom(seed):
            made.append(_run(case.module(), case.inputs(run), 0))
    return made


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _run(module: torch.nn.Module, inputs: list[torch.Tensor], fill: int, watched: bool = False) -> Results:
    module.eval()
    torch.default_generator.manual_seed(fill)  # torch.manual_seed keeps its whole stack for a GPU to come
    generator = torch.get_rng_state()
    before = [_bytes(tensor) for tensor in inputs]
    args, kwargs = arguments_of(module, inputs)
    state = copy.deepcopy(kept_by(module))
    ctypes.CDLL(None).mallopt(_M_PERTURB, fill)
    try:
        with torch.no_grad(), DefinedOnly() if watched else contextlib.nullcontext():
            leaves = [leaf for leaf in pytree.tree_leaves(module(*args, **kwargs)) if leaf is not None]
    except Rejected:
        raise
    except Exception as error:
        raise Rejected(f"{type(error).__name__}: {str(error)[:200]}") from None
    finally:
        ctypes.CDLL(None).mallopt(_M_PERTURB, 0)
    kept = kept_by(module)
    if any(is_transformed(tensor) for tensor in (*kept.values(), *leaves) if isinstance(tensor, torch.Tensor)):
        raise Rejected("it keeps a tensor of a transform of torch.func, which has ended")
    draws = not torch.equal(generator, torch.get_rng_state())
    for leaf in leaves:
        if not isinstance(leaf, (torch.Tensor, bool, int, float)):
            raise Rejected(f"the result is a {type(leaf).__name__}")
        if isinstance(leaf, torch.Tensor) and (leaf.layout != torch.strided or leaf.is_quantized):
            raise Rejected("the result is not a dense tensor")
        if isinstance(leaf, torch.Tensor) and leaf.numel() > LARGEST:
            raise Rejected("the result is large")
    after = {f"x{i}": tensor for i, tensor in enumerate(inputs) if _bytes(tensor) != before[i]}
    after |= {name: tensor for name, tensor in kept.items() if name in state and not _equal(tensor, state[name])}
    return Results(
        [_copy(leaf) for leaf in leaves],
        {name: _copy(tensor) for name, tensor in after.items()},
        draws,
        frozenset(i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.is_complex()),
    )


def _copy(leaf: Any) -> torch.Tensor:
    try:
        return real(leaf).detach().clone()
    except NotImplementedError as error:  # as for a view of the negatives of bools, whose elements nothing computes
        raise Rejected(str(error)) from None


def kept_by(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters, the buffers, and the tensors in attributes of the module itself."""
    attributes = {name: value for name, value in vars(module).items() if isinstance(value, torch.Tensor)}
    return dict(module.named_parameters()) | dict(module.named_buffers()) | attributes


def _bytes(tensor: torch.Tensor) -> bytes:
    storage = tensor.untyped_storage()
    return (
        bytes(storage) if storage.nbytes() < 64 else torch.tensor([], dtype=torch.uint8).set_(storage).numpy().tobytes()
    )


def _same(one: Results, other: Results) -> bool:
    pairs = zip(one.leaves, other.leaves, strict=True)
    return all(_equal(a, b) for a, b in pairs) and all(
        name in other.after and _equal(tensor, other.after[name]) for name, tensor in one.after.items()
    )


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return bool(torch.equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


_BOUNDARIES = {"searchsorted": 0, "bucketize": 1}  # the places of the boundaries among the arguments
_WRITES_BY_INDEX = ("index_put", "index_put_", "_index_put_impl_")


class DefinedOnly(TorchDispatchMode):
    """Rejects what PyTorch or C++ leaves open: calls by ``_undefined``, conversions of floating-point numbers beyond
    the integers' range, and indices out of range, which PyTorch does not check if the result is empty."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, torch._ops.HigherOrderOperator):  # torch.cond and its like
            return func(*args, **(kwargs or {}))
        if reason := _undefined(func.overloadpacket.__name__, args):
            raise Rejected(reason)
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.as_strided.default and not args[0].numel() and result.numel():
            raise Rejected("memory beside a view without elements, whose strides PyTorch does not keep")
        if func is torch.ops.aten.index.Tensor and not result.numel() and _out_of_range(*args):
            raise Rejected("an index out of range, which PyTorch does not check because the result is empty")
        if isinstance(result, torch.Tensor) and not (result.is_floating_point() or result.is_complex()):
            source = _converted(func, args)
            if source is not None and result.dtype != torch.bool:
                _check_range(source, result.dtype)
        return result


def _undefined(name: str, args: Sequence[Any]) -> str:
    """Why PyTorch does not define the result of an operator; empty if it does."""
    others = [each for each in args[1:] if isinstance(each, torch.Tensor)] if name.endswith("_") else []
    if any(_overlap_in_part(args[0], other) for other in others):
        return "a tensor is written while another one that shares a part of its memory is read"
    if name in ("std_mean", "var_mean") and not bool(args[0].isfinite().all()):
        return "a mean that ATen updates number by number, infinite or NaN by the order of the numbers"
    if name in _WRITES_BY_INDEX and not args[0].numel() and _out_of_range(*args[:2]):
        return "an index out of range, which PyTorch does not check because nothing is written"
    if (
        name in _BOUNDARIES
        and args[_BOUNDARIES[name]].is_floating_point()
        and bool(args[_BOUNDARIES[name]].isnan().any())
    ):
        return "boundaries with NaN, in which a binary search goes by where it meets them"
    if name == "_unique2" and args[2:3] == (True,) and int(args[0].isnan().sum()) > 1:
        return "the places of several NaN, which PyTorch sorts in no order"
    if "scaled_dot_product" in name and not bool(args[0].isfinite().all() & args[1].isfinite().all()):
        return "scores of NaN, for which ATen's attention gives 0 or NaN by the number of keys"
    return ""


def _overlap_in_part(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.untyped_storage().data_ptr() != other.untyped_storage().data_ptr():
        return False
    if (one.shape, one.stride(), one.storage_offset()) == (other.shape, other.stride(), other.storage_offset()):
        return False
    return not _addresses(one).isdisjoint(_addresses(other))


def _out_of_range(tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> bool:
    """Whether an index is beyond its axis. Masks are not checked, which may take several axes."""
    return any(
        index is not None
        and index.dtype not in (torch.bool, torch.uint8)
        and bool(((index >= size) | (index < -size)).any())
        for size, index in zip(tensor.shape, indices, strict=False)
    )


def _addresses(tensor: torch.Tensor) -> set[int]:
    """The address of the first byte of each element."""
    size = tensor.element_size()
    addresses = torch.arange(tensor.untyped_storage().nbytes() // size)
    addresses = addresses.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return {place * size for place in addresses.reshape(-1).tolist()}


def _converted(func: Any, args: Sequence[Any]) -> torch.Tensor | None:
    name = func.overloadpacket.__name__
    if name in ("_to_copy", "to", "_convert"):
        source = args[0]
    elif name in ("copy_", "copy"):
        source = args[1]
    else:
        return None
    return source if isinstance(source, torch.Tensor) and (source.is_floating_point() or source.is_complex()) else None


def _check_range(source: torch.Tensor, dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    values = torch.view_as_real(source) if source.is_complex() else source
    values = values.double()
    if not bool((values.isfinite() & (values > info.min - 1.0) & (values < info.max + 1.0)).all()):
        raise Rejected("a number beyond the integers' range is converted to an integer")


# The results of LAPACK and FFTs are exact for operands that differ by a few roundings (backward stability). The effect
# on the result depends on the operand. Whole layers round several products, for which roundings of the operands stand.
_ROUNDED_OPERANDS = re.compile(
    "_fft_|_?linalg_(svd|eig|det|slogdet|solve|p?inv|lu|qr|cholesky|ldl)|_?cholesky|geqrf|lu_|triangular_solve"
    "|_native_multi_head_attention|_transformer_encoder_layer_fwd"
)


class RoundedAtRandom(TorchDispatchMode):
    """Rounds each operator's result to one of the two neighbouring floating-point numbers, at random.

    Operands of factorizations, Fourier transforms and whole layers are rounded likewise."""

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.rng = random.Random(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            return func(*args, **kwargs)
        schema = func._schema
        written = [argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments]
        is_view = any(returned.alias_info is not None for returned in schema.returns) and not any(written)
        if is_view:
            return func(*args, **kwargs)
        if _ROUNDED_OPERANDS.match(func.overloadpacket.__name__):
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._moved, (args, kwargs))
        exact = self._exact(func, args, kwargs)
        if exact is not None and schema.name.startswith("aten::_fft_"):
            exact = self._off_by_the_largest(exact, args[1])
        result = func(*args, **kwargs)
        if exact is not None:
            pairs = zip(pytree.tree_leaves(result), pytree.tree_leaves(exact), strict=False)
            for narrow, wide in pairs:
                # A module that torch imports at a first call may compute shapes with tensors without elements.
                if not isinstance(narrow, torch.Tensor) or narrow.is_meta or narrow.shape != wide.shape:
                    continue
                if narrow.is_complex() and wide.is_complex():
                    self._round(torch.view_as_real(narrow), torch.view_as_real(wide))
                elif narrow.is_floating_point():
                    self._round(narrow, wide)
        return result

    def _exact(self, func: Any, args: Any, kwargs: Any) -> Any:
        def wide(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor):
                return widened(leaf.clone())
            if leaf in (torch.float32, torch.float16, torch.bfloat16):
                return torch.float64
            return leaf

        try:
            args, kwargs = pytree.tree_map(wide, (args, kwargs))
            with default_dtype(torch.float64):
                return func(*args, **kwargs)
        except Exception:
            return None

    def _off_by_the_largest(self, transformed: torch.Tensor, dims: list[int]) -> torch.Tensor:
        """Changes each number of a Fourier transform by a few roundings of the largest one: numbers are differences."""
        if not transformed.numel():
            return transformed
        unit = 4 * torch.finfo(torch.float32).eps * transformed.abs().amax(dims, keepdim=True)
        parts = torch.view_as_real(transformed) if transformed.is_complex() else transformed.unsqueeze(-1)
        draws = torch.tensor([self.rng.uniform(-1, 1) for _ in range(parts.numel())]).reshape(parts.shape)
        parts = parts + draws * unit.unsqueeze(-1)
        return torch.view_as_complex(parts) if transformed.is_complex() else parts.squeeze(-1)

    def _moved(self, matrix: torch.Tensor) -> torch.Tensor:
        """Changes each number that is not 0 by up to four roundings."""
        if matrix.is_complex():
            return torch.view_as_complex(self._moved(torch.view_as_real(matrix)))
        if not matrix.is_floating_point():
            return matrix
        draws = torch.tensor([self.rng.uniform(-4, 4) for _ in range(matrix.numel())]).reshape(matrix.shape)
        return matrix * (1 + draws.double() * torch.finfo(matrix.dtype).eps).to(matrix.dtype)

    def _round(self, narrow: torch.Tensor, wide: torch.Tensor) -> None:
        nearest = wide.to(narrow.dtype)
        inexact = nearest.double() != wide if narrow.dtype != torch.float64 else wide.float().double() != wide
        inexact &= wide.isfinite()
        if not bool(inexact.any()):
            return
        draws = torch.tensor([self.rng.choice((-1.0, 0.0, 1.0)) for _ in range(wide.numel())]).reshape(wide.shape)
        if narrow.dtype in (torch.float16, torch.bfloat16):
            moved = (wide * (1 + draws.double() * torch.finfo(narrow.dtype).eps)).to(narrow.dtype)
        else:
            towards = torch.where(draws > 0, torch.inf, -torch.inf).to(narrow.dtype)
            moved = torch.where(draws == 0, nearest, torch.nextafter(nearest, towards))
        narrow.copy_(torch.where(inexact, moved, narrow))
