"""Random tensors: element types, sizes, memory and values. A spec can be printed and made again."""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
COMPLEX = (torch.complex64, torch.complex128)
WEIGHTS = {
    torch.float32: 36,
    torch.float64: 8,
    torch.float16: 8,
    torch.bfloat16: 8,
    torch.int64: 12,
    torch.int32: 6,
    torch.int16: 3,
    torch.int8: 4,
    torch.uint8: 5,
    torch.bool: 6,
    torch.complex64: 3,
    torch.complex128: 1,
}


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """``values`` is the storage, element by element; pairs of numbers for complex types."""

    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    values: tuple[Any, ...]

    def make(self) -> torch.Tensor:
        storage = torch.tensor(self.values, dtype=_part(self.dtype))
        if self.dtype.is_complex:
            storage = torch.view_as_complex(storage.reshape(-1, 2)).clone()  # not a view, which fake tensors track
        return storage.as_strided(self.size, self.stride, self.offset)

    @property
    def is_plain(self) -> bool:
        return self.stride == compact_stride(self.size) and len(self.values) == math.prod(self.size)

    def text(self) -> str:
        """The tensor as Python source."""
        values = ", ".join(map(_number, self.values))
        if self.dtype.is_complex:
            made = f"torch.view_as_complex(torch.tensor([{values}], dtype={_part(self.dtype)}).reshape(-1, 2)).clone()"
        else:
            made = f"torch.tensor([{values}], dtype={self.dtype})"
        if self.is_plain:
            return made if len(self.size) == 1 else f"{made}.reshape({self.size})"
        return f"{made}.as_strided({self.size}, {self.stride}, {self.offset})"

    def plain(self) -> TensorSpec:
        """The same elements in contiguous memory."""
        return spec_of(self.make().clone(memory_format=torch.contiguous_format))


def _part(dtype: torch.dtype) -> torch.dtype:
    """The element type of the parts of complex numbers; other types are returned unchanged."""
    return {torch.complex64: torch.float32, torch.complex128: torch.float64}.get(dtype, dtype)


def _number(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_number, value))})"
    if isinstance(value, float) and not math.isfinite(value):
        return ("-" if math.copysign(1, value) < 0 else "") + ("nan" if math.isnan(value) else "inf")
    return repr(value)


def compact_stride(size: Sequence[int]) -> tuple[int, ...]:
    stride, step = [], 1
    for length in reversed(size):
        stride.append(step)
        step *= max(length, 1)
    return tuple(reversed(stride))


def spec_of(tensor: torch.Tensor) -> TensorSpec:
    """The spec of a dense tensor; it keeps the storage if that is small."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() == 0 or reach > 2 * tensor.numel() + 64:
        tensor, reach = tensor.clone(memory_format=torch.contiguous_format), tensor.numel()
    storage = tensor.as_strided((reach,), (1,), tensor.storage_offset())
    if tensor.is_complex():
        storage = torch.view_as_real(storage).reshape(-1)
    return TensorSpec(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), 0, tuple(storage.tolist()))


def draw_dtype(rng: random.Random, among: Sequence[torch.dtype] = tuple(WEIGHTS)) -> torch.dtype:
    return rng.choices(among, [WEIGHTS.get(dtype, 4) for dtype in among])[0]


def draw_size(rng: random.Random, dims: int | None = None) -> tuple[int, ...]:
    if dims is None:
        dims = rng.choices(range(6), [8, 18, 30, 24, 14, 6])[0]
    empty = rng.random() < 0.15
    return tuple(rng.choices(range(6), [12 if empty else 0, 25, 22, 22, 14, 10])[0] for _ in range(dims))


VALUE_KINDS = ("plain", "plain", "plain", "normal", "normal", "wide", "special", "special", "few", "zeros")
# Includes the greatest floating-point numbers, for which overflow depends on the order of sums and products.
EXTREME = (*VALUE_KINDS, "extreme")


def draw_tensor(
    rng: random.Random,
    dtype: torch.dtype,
    size: Sequence[int],
    kinds: Sequence[str] = VALUE_KINDS,
    memory: bool = True,
    overlapping: bool = True,
) -> TensorSpec:
    stride, offset, length = draw_memory(rng, tuple(size), overlapping) if memory else (*_compact(tuple(size)),)
    values = draw_values(rng, dtype, length, rng.choice(kinds))
    return TensorSpec(dtype, tuple(size), stride, offset, values)


def with_memory_of(rng: random.Random, spec: TensorSpec) -> TensorSpec:
    """The same elements in another memory layout, without overlap."""
    stride, offset, length = draw_memory(rng, spec.size, overlapping=False)
    base = spec.make()
    storage = torch.zeros(length, dtype=spec.dtype)
    storage.as_strided(spec.size, stride, offset).copy_(base)
    if spec.dtype.is_complex:
        storage = torch.view_as_real(storage).reshape(-1)
    return TensorSpec(spec.dtype, spec.size, stride, offset, tuple(storage.tolist()))


def _compact(size: tuple[int, ...]) -> tuple[tuple[int, ...], int, int]:
    return compact_stride(size), 0, math.prod(size)


def draw_memory(
    rng: random.Random, size: tuple[int, ...], overlapping: bool = True
) -> tuple[tuple[int, ...], int, int]:
    """Strides, offset and the length of the storage."""
    if rng.random() < 0.6 or not size or math.prod(size) == 0:
        return _compact(size)
    kind = rng.choice(("permuted", "channels", "steps", "offset", *(("expanded", "overlapping") * overlapping)))
    order = list(range(len(size)))
    padded = list(size)
    offset = 0
    if kind == "permuted":
        rng.shuffle(order)
    elif kind == "channels" and len(size) > 2:
        order = [0, *range(2, len(size)), 1]
    elif kind == "steps":
        padded[-1] *= 2
    elif kind == "offset":
        offset = rng.randint(1, 3)
    inner = [padded[axis] for axis in order]
    by_order = compact_stride(inner)
    stride = [0] * len(size)
    for axis, step in zip(order, by_order, strict=True):
        stride[axis] = step
    if kind == "steps":
        stride[-1] = 2
    if kind == "expanded":
        stride = [0 if rng.random() < 0.5 else step for step in stride]
    if kind == "overlapping":
        stride = [rng.randint(1, 3) for _ in size]
    length = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    return tuple(stride), offset, length


def draw_values(rng: random.Random, dtype: torch.dtype, count: int, kind: str) -> tuple[Any, ...]:
    if dtype == torch.bool:
        share = rng.choice((0.5, 0.5, 0.0, 1.0, 0.2))
        return tuple(rng.random() < share for _ in range(count))
    if dtype.is_complex:
        # Products of non-finite complex numbers are not defined in C, and kernels differ.
        kind = "normal" if kind in ("special", "wide", "extreme") else kind
        return draw_values(rng, _part(dtype), 2 * count, kind)
    if dtype.is_floating_point:
        return tuple(_narrowed([_float(rng, dtype, kind, i) for i in _positions(rng, count)], dtype))
    info = torch.iinfo(dtype)
    low = 0 if info.min == 0 else -9
    if kind in ("special", "wide", "extreme"):
        ends = (info.min, info.max, info.min + 1, info.max - 1, 0, 1, -1 if info.min else 2)
        return tuple(rng.choice(ends) if rng.random() < 0.3 else rng.randint(low, 9) for _ in range(count))
    if kind == "few":
        return tuple(rng.randint(max(low, -1), 1) for _ in range(count))
    if kind == "zeros":
        return (0,) * count
    if kind == "distinct":
        start = 0 if low == 0 else -(count // 2)
        return tuple(start + i for i in _positions(rng, count))
    if kind == "normal":
        return tuple(rng.randint(max(low * 10, info.min), 100) for _ in range(count))
    return tuple(rng.randint(low, 9) for _ in range(count))


def _positions(rng: random.Random, count: int) -> list[int]:
    return rng.sample(range(count), count)


def _float(rng: random.Random, dtype: torch.dtype, kind: str, index: int) -> float:
    if kind == "normal":
        return rng.gauss(0, 1)
    if kind == "wide":
        return rng.gauss(0, 1) * 10.0 ** rng.randint(-6, 6 if dtype != torch.float16 else 3)
    if kind == "extreme" and rng.random() < 0.3:
        info = torch.finfo(dtype)
        return rng.choice((info.max, info.min, info.smallest_normal / 4, -info.tiny, math.inf, -math.inf, math.nan))
    if kind == "special" and rng.random() < 0.35:
        info = torch.finfo(dtype)
        return rng.choice((math.nan, -math.nan, math.inf, -math.inf, -0.0, 0.0, info.smallest_normal / 4, info.eps))
    if kind == "few":
        return float(rng.randint(-1, 1))
    if kind == "zeros":
        return rng.choice((0.0, -0.0))
    if kind == "distinct":
        return index / 4 - 2
    return rng.randint(-16, 16) / 4


def _narrowed(values: list[float], dtype: torch.dtype) -> list[float]:
    return values if dtype == torch.float64 else torch.tensor(values, dtype=dtype).tolist()


@functools.cache
def default_tolerances(dtype: torch.dtype) -> tuple[float, float]:
    return torch.testing._comparison.default_tolerances(dtype)


def resized(rng: random.Random, spec: TensorSpec, size: tuple[int, ...]) -> TensorSpec:
    """The same values in other sizes, repeated in order."""
    if size == spec.size:
        return with_memory_of(rng, spec) if rng.random() < 0.3 and 0 not in size else spec
    values = spec.make().reshape(-1)
    count = 1
    for n in size:
        count *= n
    if count and not values.numel():
        return draw_tensor(rng, spec.dtype, size, ("zeros",))
    repeated = values.repeat(count // max(values.numel(), 1) + 1)[:count].reshape(size)
    return spec_of(repeated)


def simpler_specs(spec: TensorSpec) -> Iterator[TensorSpec]:
    if not spec.is_plain:
        yield spec.plain()
    made = spec.make()
    for dim, size in enumerate(spec.size):
        if size > 1:
            yield spec_of(made.narrow(dim, 0, 1).contiguous())
            yield spec_of(made.narrow(dim, 0, size - 1).contiguous())
            yield spec_of(made.narrow(dim, 1, size - 1).contiguous())
    if spec.dtype in (torch.float64, torch.float16, torch.bfloat16):
        yield spec_of(made.float().contiguous())
    if not spec.is_plain or spec.dtype == torch.bool or len(spec.values) > 64:
        return
    for index, value in enumerate(spec.values):
        for simple in (type(value)(0), type(value)(1)):
            if value not in (0, 1) and value != simple:
                yield dataclasses.replace(spec, values=(*spec.values[:index], simple, *spec.values[index + 1 :]))
