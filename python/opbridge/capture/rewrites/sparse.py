"""Sparse tensors that a model makes and consumes itself: as indices and values, which are dense tensors.

ONNX Runtime has no kernels for sparse tensors. A product with a sparse matrix gathers one row of the dense operand per
entry and adds the rows up. So its cost grows with the number of entries, and dense elements that no entry multiplies
have no effect, even if they are infinite.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.patching import patch
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import buffers_of, pytree, wrapper_of_no_memory
from opbridge.torch_compat import patch_points as points

_LAYOUTS = (torch.sparse_coo, torch.sparse_csr)


@contextlib.contextmanager
def patch_sparse(model: Any) -> Iterator[None]:
    """Replaces the functions that make sparse tensors, and the sparse buffers and attributes of the modules."""
    with contextlib.ExitStack() as until_the_end:
        for module in model.modules() if isinstance(model, torch.nn.Module) else ():
            until_the_end.enter_context(_hide_sparse_tensors(module))
        for point, function in _MAKERS.items():
            until_the_end.enter_context(patch(point, function))
        yield


@contextlib.contextmanager
def _hide_sparse_tensors(module: torch.nn.Module) -> Iterator[None]:
    """Hides sparse tensors, which torch.export cannot represent: the module temporarily gets a subclass that holds
    stand-ins."""
    kind, parts = type(module), [buffers_of(module), module.__dict__]
    found = [
        (part, list(part), {name: value for name, value in part.items() if _is_sparse(value)})
        for part in parts
        if any(map(_is_sparse, part.values()))
    ]
    if not found:
        yield
        return
    members: dict[str, Any] = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    for part, _, tensors in found:
        for name, tensor in tensors.items():
            del part[name]
            members[name] = _Attribute(_stand_in_of(tensor))
    module.__class__ = type(kind.__name__, (kind,), members)
    try:
        yield
    finally:
        module.__class__ = kind
        for part, order, tensors in found:
            part.update(tensors)
            for name in filter(part.__contains__, order):
                part[name] = part.pop(name)


def _is_sparse(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.layout in _LAYOUTS


class _Attribute:
    """A class attribute that only instances see."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __get__(self, instance: Any, kind: type) -> Any:
        return self._value


@dataclasses.dataclass(frozen=True)
class _Entries:
    """``indices`` (rank, entries) are int64, ``values`` (entries,) of any type.

    Entries with equal indices are added. Coalesced entries have distinct indices, in order."""

    indices: torch.Tensor
    values: torch.Tensor
    shape: tuple[Any, ...]
    coalesced: bool
    layout: torch.layout = torch.sparse_coo

    @property
    def rank(self) -> int:
        return len(self.shape)

    def coalesce(self) -> _Entries:
        if self.coalesced:
            return self
        flat = self.indices[0]
        for size, along in zip(self.shape[1:], self.indices[1:], strict=True):
            flat = flat * size + along
        flat, entry = torch.unique(flat, return_inverse=True)
        values = self.values.new_zeros(flat.shape[0]).index_add(0, entry, self.values)
        indices: list[torch.Tensor] = []
        for size in reversed(self.shape[1:]):
            indices.insert(0, flat % size)
            flat = flat // size
        return dataclasses.replace(self, indices=torch.stack([flat, *indices]), values=values, coalesced=True)

    def only_if_coalesced(self, what: str) -> _Entries:
        if not self.coalesced:
            raise UnsupportedError(f"{what}() of a sparse tensor that is not coalesced; call coalesce() before")
        return self

    def to_dense(self, dtype: torch.dtype | None = None, **_: Any) -> torch.Tensor:
        zeros = self.values.new_zeros(self.shape)
        dense = zeros.index_put(tuple(self.indices.unbind(0)), self.values, accumulate=True)
        return dense if dtype is None else dense.to(dtype)

    def transpose(self, dim0: int, dim1: int) -> _Entries:
        order = list(range(self.rank))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        return self.of_axes(order)

    def of_axes(self, axes: Sequence[int]) -> _Entries:
        """Permutes the axes. If axes are left out, entries that differ only in these are added."""
        indices = torch.stack([self.indices[axis] for axis in axes])
        shape = tuple(self.shape[axis] for axis in axes)
        return dataclasses.replace(self, indices=indices, shape=shape, coalesced=False)

    def with_values(self, change: Callable[[torch.Tensor], torch.Tensor]) -> _Entries:
        return dataclasses.replace(self, values=change(self.values))

    def mul(self, other: Any) -> _Entries:
        if isinstance(other, _Entries):
            raise UnsupportedError("the elementwise product of two sparse tensors is not supported; call to_dense()")
        if isinstance(other, torch.Tensor) and other.dim():
            other = other.expand(self.shape)[tuple(self.indices.unbind(0))]
        return self.with_values(lambda values: values * other)

    def div(self, other: Any) -> _Entries:
        if isinstance(other, _Entries) or (isinstance(other, torch.Tensor) and other.dim()):
            raise UnsupportedError("a sparse tensor can only be divided by a number; call to_dense()")
        return self.with_values(lambda values: values / other)

    def add(self, other: Any, *, alpha: Any = 1) -> Any:
        if not isinstance(other, _Entries):
            return self.to_dense() + alpha * other
        if self.shape != other.shape:
            raise UnsupportedError("PyTorch does not broadcast a sum of sparse tensors; give both the same shape")
        values = torch.cat([self.values, other.values if alpha == 1 else alpha * other.values])
        indices = torch.cat([self.indices, other.indices], 1)
        return dataclasses.replace(self, indices=indices, values=values, coalesced=False)

    def matmul(self, other: Any) -> torch.Tensor:
        """The product with a dense matrix or vector."""
        if isinstance(other, _Entries) or self.rank != 2 or other.dim() > 2:
            raise UnsupportedError("a sparse matrix can only multiply a dense matrix or vector; call to_dense()")
        rows, columns = self.indices.unbind(0)
        factors = self.values if other.dim() == 1 else self.values[:, None]
        zeros = other.new_zeros((self.shape[0], *other.shape[1:]))
        product: torch.Tensor = zeros.index_add(0, rows, factors * other[columns])
        return product

    def sum(self, dim: Any = None, dtype: torch.dtype | None = None) -> Any:
        terms = self if dtype is None else self.with_values(lambda values: values.to(dtype))
        summed = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
        kept = sorted(set(range(self.rank)) - {axis % self.rank for axis in summed})
        return terms.of_axes(kept) if kept else terms.values.sum()


class SparseTensor(torch.Tensor):
    """Stands for a sparse tensor; functions of torch get its entries."""

    entries: _Entries

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _OF_NO_DATA:
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__  # an attribute, or a function
        known = _FUNCTIONS.get(name.strip("_"))
        if known is None:
            raise UnsupportedError(
                f"{name}() of a sparse tensor is not supported; ONNX has only dense tensors: call to_dense() before"
            )
        args, kwargs = pytree.tree_map_only(SparseTensor, lambda tensor: tensor.entries, (args, kwargs or {}))
        result = known(*args, **kwargs)
        return _wrapped(result) if isinstance(result, _Entries) else result

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise UnsupportedError(f"{func} of a sparse tensor is not supported; call to_dense() before")


def _wrapped(entries: _Entries) -> SparseTensor:
    if entries.values.dim() != 1:
        raise UnsupportedError("a sparse tensor whose entries are tensors is not supported; use a dense tensor")
    tensor: SparseTensor = wrapper_of_no_memory(SparseTensor, entries.shape, entries.values)
    tensor.entries = entries
    return tensor


def _stand_in_of(tensor: torch.Tensor) -> SparseTensor:
    coo = tensor.detach().to_sparse(layout=torch.sparse_coo).coalesce()
    # Copies, since torch.export cannot represent views of a sparse tensor.
    return _wrapped(_Entries(coo.indices().clone(), coo.values().clone(), tuple(coo.shape), True, tensor.layout))


def _product(a: Any, b: Any) -> Any:
    if isinstance(a, _Entries):
        return a.matmul(b)
    if a.dim() > 2:
        raise UnsupportedError("a batch of matrices cannot be multiplied by a sparse matrix; call to_dense() before")
    transposed = b.transpose(0, 1).matmul(a if a.dim() == 1 else a.transpose(0, 1))
    return transposed if a.dim() == 1 else transposed.transpose(0, 1)


def _added_product(input: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = _product(a, b)
    return (input if beta == 1 else beta * input) + (product if alpha == 1 else alpha * product)


def _difference(a: Any, b: Any) -> Any:
    return _negative(b).add(a) if isinstance(b, _Entries) else a.to_dense() - b


def _negative(a: _Entries) -> _Entries:
    return a.with_values(torch.neg)


def _commuted(method: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, b: Any, **kwargs: Any) -> Any:
        return method(a, b, **kwargs) if isinstance(a, _Entries) else method(b, a, **kwargs)

    return call


def _converted(dtype: torch.dtype) -> Callable[[_Entries], _Entries]:
    return lambda a: a.with_values(lambda values: values.to(dtype))


def _same(a: _Entries, *_: Any, **__: Any) -> _Entries:
    return a


# The keys are names of functions, methods or attributes, without the underscores around them.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matmul", "mm", "mv", "spmm", "smm", "sparse_mm", "rmatmul"), _product),
    **dict.fromkeys(("addmm", "sparse_addmm", "addmv"), _added_product),
    **dict.fromkeys(("mul", "multiply", "rmul"), _commuted(_Entries.mul)),
    **dict.fromkeys(("sub", "subtract"), _difference),
    **dict.fromkeys(("div", "truediv", "divide", "true_divide"), _Entries.div),
    **dict.fromkeys(("neg", "negative"), _negative),
    **dict.fromkeys(("sum", "sparse_sum"), _Entries.sum),
    **dict.fromkeys(("clone", "contiguous", "cpu", "detach", "to_sparse", "to_sparse_coo"), _same),
    **{"float": _converted(torch.float32), "double": _converted(torch.float64), "long": _converted(torch.int64)},
    **{"half": _converted(torch.float16), "bfloat16": _converted(torch.bfloat16)},
    "add": lambda a, b, alpha=1: a.add(b, alpha=alpha) if isinstance(a, _Entries) else a + b.mul(alpha).to_dense(),
    "radd": lambda a, b: a.add(b),
    "coalesce": _Entries.coalesce,
    "indices": lambda a: a.only_if_coalesced("indices").indices,
    "is_coalesced": lambda a: a.coalesced,
    "is_sparse": lambda a: a.layout is torch.sparse_coo,
    "is_sparse_csr": lambda a: a.layout is torch.sparse_csr,
    "layout": lambda a: a.layout,
    "nnz": lambda a: a.values.shape[0],
    "t": lambda a: a.transpose(0, 1) if a.rank == 2 else a,
    "T": lambda a: a.transpose(0, 1) if a.rank == 2 else a,
    "to": lambda a, *args, **kwargs: a.with_values(lambda values: values.to(*args, **kwargs)),
    "to_dense": _Entries.to_dense,
    "transpose": _Entries.transpose,
    "values": lambda a: a.only_if_coalesced("values").values,
}
# Attributes that even a tensor without memory has.
_OF_NO_DATA = {
    *(torch.Tensor.dim, torch.Tensor.size, torch.Tensor.is_floating_point, torch.Tensor.is_complex, torch.Tensor.numel),
    *(
        getattr(torch.Tensor, name).__get__
        for name in (
            "shape",
            "ndim",
            "dtype",
            "device",
            "requires_grad",
            "is_cuda",
            "is_meta",
            "is_quantized",
            "is_nested",
        )
    ),
}


def _coo(
    indices: Any,
    values: Any,
    size: Sequence[Any] | None = None,
    *,
    dtype: torch.dtype | None = None,
    is_coalesced: bool | None = None,
    **_: Any,
) -> SparseTensor:
    if size is None:
        raise UnsupportedError("sparse_coo_tensor() needs size=, since the size would otherwise depend on data")
    at, entries = torch.as_tensor(indices, dtype=torch.int64), torch.as_tensor(values, dtype=dtype)
    return _wrapped(_Entries(at, entries, tuple(size), bool(is_coalesced)))


def _csr(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[Any] | None = None,
    *,
    dtype: torch.dtype | None = None,
    **_: Any,
) -> SparseTensor:
    if size is None or len(size) != 2:
        raise UnsupportedError("sparse_csr_tensor() needs the size of a matrix; pass size=")
    columns, entries = torch.as_tensor(col_indices, dtype=torch.int64), torch.as_tensor(values, dtype=dtype)
    starts = torch.as_tensor(crow_indices, dtype=torch.int64)
    rows = torch.searchsorted(starts, torch.arange(columns.shape[0]), right=True) - 1
    return _wrapped(_Entries(torch.stack([rows, columns]), entries, tuple(size), True, torch.sparse_csr))


def _to_sparse(layout: torch.layout) -> Callable[..., Any]:
    def to_sparse(self: torch.Tensor, *args: Any, **kwargs: Any) -> SparseTensor:
        plain = not args and kwargs.get("layout") in (None, torch.sparse_coo) and kwargs.get("blocksize") is None
        if not plain or kwargs.get("dense_dim") or kwargs.get("sparse_dim") not in (None, self.dim()):
            raise UnsupportedError("to_sparse() with dense dims or blocks is not supported; call it without arguments")
        if isinstance(self, SparseTensor):
            return _wrapped(dataclasses.replace(self.entries, layout=layout))
        indices = self.nonzero().t()
        return _wrapped(_Entries(indices, self[tuple(indices.unbind(0))], tuple(self.shape), True, layout))

    return to_sparse


_MAKERS = {
    points.SPARSE_COO: _coo,
    points.SPARSE_CSR: _csr,
    points.TO_SPARSE: _to_sparse(torch.sparse_coo),
    points.TO_SPARSE_COO: _to_sparse(torch.sparse_coo),
    points.TO_SPARSE_CSR: _to_sparse(torch.sparse_csr),
}
