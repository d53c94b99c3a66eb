"""Draws the arguments of an operator by their types and names in its schema.

PyTorch refuses most of these draws; rules for a few names make it accept many.
"""

from __future__ import annotations

import math
import random
from typing import Any

import torch

from hunt.tensors import FLOATS, INTEGERS, VALUE_KINDS, TensorSpec, draw_dtype, draw_size, draw_tensor

DIMS = {"dim", "axis", "dim0", "dim1", "dim2", "start_dim", "end_dim", "axis0", "axis1", "batch_dim", "cosine_dim"}
LISTS_OF_DIMS = {"dim", "dims", "axis", "axes", "source", "destination", "normalized_dims"}
SIZES = {"size", "shape", "output_size", "sizes", "repeats", "tile_dims", "reps"}
INDICES = {"index", "indices", "ind", "offsets", "target", "batch_index", "input_lengths", "target_lengths"}
MASKS = {"mask", "condition", "attn_mask"}
STRINGS = {
    "reduce": ("sum", "prod", "mean", "amax", "amin"),
    "reduction": ("none", "mean", "sum"),
    "rounding_mode": ("trunc", "floor"),
    "approximate": ("none", "tanh"),
    "indexing": ("ij", "xy"),
    "mode": ("constant", "reflect", "replicate", "circular", "reduced", "complete", "r"),
    "padding": ("same", "valid"),
    "UPLO": ("L", "U"),
    "interpolation": ("linear", "lower", "higher", "midpoint", "nearest"),
    "side": ("left", "right"),
    "norm": ("forward", "backward", "ortho"),
    "ord": ("fro", "nuc"),
}
# The ranges of the parameters of windows.
SMALL = {"kernel_size": (1, 4), "stride": (1, 3), "padding": (0, 2), "dilation": (1, 3), "output_padding": (0, 1)}
DTYPES = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)


class Drawer:
    """Draws the arguments of one call, which share an element type and sizes."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng = rng
        self.name = name
        self.dtype = draw_dtype(rng)
        self.size = draw_size(rng)
        self.kinds: tuple[str, ...] = VALUE_KINDS
        self.overlapping = True

    def argument(self, argument: Any) -> Any:
        kind = str(argument.real_type)
        if argument.has_default_value() and self.rng.random() < 0.4:
            return argument.default_value
        if argument.name in ("pin_memory", "non_blocking"):  # only for other devices
            return False
        if kind.startswith("Optional["):
            if self.rng.random() < 0.3:
                return None
            kind = kind[len("Optional[") : -1]
        return self.value(kind, argument)

    def value(self, kind: str, argument: Any) -> Any:
        rng, name = self.rng, argument.name
        if kind == "Tensor":
            return self.tensor(name)
        if kind.startswith("List["):
            return self.list(kind[len("List[") : -1], argument)
        if kind in ("int", "SymInt"):
            return self.int(name)
        if kind == "float":
            return self.float(name)
        if kind == "bool":
            return rng.random() < 0.5
        if kind in ("number", "Scalar"):
            return self.number(name)
        if kind == "str":
            return rng.choice(STRINGS.get(name, ("none", "mean", "sum")))
        if kind == "ScalarType":
            return draw_dtype(rng, DTYPES)
        if kind == "MemoryFormat":
            return rng.choice((torch.contiguous_format, torch.preserve_format, torch.channels_last))
        if kind == "Layout":
            return torch.strided
        if kind == "Device":
            return torch.device("cpu")
        return None  # a generator, or a type that no operator here takes

    def tensor(self, name: str) -> TensorSpec:
        rng = self.rng
        if name in INDICES:
            return self.index()
        dtype = self.dtype
        if name in MASKS:
            dtype = torch.bool
        elif rng.random() < 0.12:
            dtype = draw_dtype(rng)
        size = self.size
        if name not in ("self", "input", "x"):
            choice = rng.random()
            if choice < 0.35:
                size = _broadcast(rng, size)
            elif choice < 0.5:
                size = draw_size(rng)
        return draw_tensor(rng, dtype, size, self.kinds, overlapping=self.overlapping)

    def index(self) -> TensorSpec:
        rng = self.rng
        bound = max(rng.choice(self.size or (1,)), 1)
        size = self.size if rng.random() < 0.4 else draw_size(rng, rng.choice((0, 1, 1, 1, 2, len(self.size))))
        low = -bound if rng.random() < 0.2 else 0
        count = math.prod(size)
        values = tuple(rng.randint(low, bound - 1) for _ in range(count))
        spec = draw_tensor(rng, torch.int64 if rng.random() < 0.85 else torch.int32, size, memory=False)
        return TensorSpec(spec.dtype, spec.size, spec.stride, spec.offset, values)

    def list(self, element: str, argument: Any) -> Any:
        rng, name = self.rng, argument.name
        if element == "Tensor":
            return [self.tensor(name) for _ in range(rng.randint(1, 3))]
        if element == "Optional[Tensor]":
            return [self._optional_index() for _ in range(rng.randint(1, max(len(self.size), 1)))]
        if element in ("int", "SymInt"):
            return self.ints(name, argument.N)
        count = argument.N or rng.randint(1, 3)
        if element == "float":
            return [rng.choice((0.5, 1.0, 2.0, 1.5, 2.1, 0.7)) for _ in range(count)]
        if element == "bool":
            return [rng.random() < 0.5 for _ in range(count)]
        return [self.value(element, argument) for _ in range(count)]

    def _optional_index(self) -> TensorSpec | None:
        if self.rng.random() < 0.3:
            return None
        if self.rng.random() < 0.2:
            return draw_tensor(self.rng, torch.bool, self.rng.choices(self.size or (1,)), memory=False)
        return self.index()

    def ints(self, name: str, count: int | None) -> list[int]:
        rng, dims = self.rng, len(self.size)
        if name in LISTS_OF_DIMS:
            wanted = rng.randint(0 if rng.random() < 0.3 else 1, max(dims, 1))
            if name == "dims" and rng.random() < 0.7:
                wanted = dims
            axes = rng.sample(range(dims), min(wanted, dims))
            return [axis - dims if rng.random() < 0.4 else axis for axis in axes]
        if name in SMALL and count:
            return [rng.randint(*SMALL[name]) for _ in range(rng.choice((1, count)))]
        if name in ("split_size", "split_sizes", "sections", "indices"):
            return self._parts()
        if name in SIZES or name in ("normalized_shape", "output_size"):
            return self._sizes(name, count)
        if name in ("pad", "padding"):
            return [rng.randint(-1, 3) for _ in range(2 * rng.randint(1, max(dims, 1)))]
        if name == "stride" and not count:
            return [rng.randint(0, 4) for _ in range(dims)]
        return [rng.randint(-1, 4) for _ in range(count or rng.randint(1, max(dims, 1)))]

    def _parts(self) -> list[int]:
        total, parts = self.rng.choice(self.size or (1,)), []
        while total > 0 and len(parts) < 4:
            parts.append(self.rng.randint(0, total))
            total -= parts[-1]
        return [*parts, total]

    def _sizes(self, name: str, count: int | None) -> list[int]:
        rng = self.rng
        if name == "normalized_shape":
            return list(self.size[-rng.randint(1, max(len(self.size), 1)) :])
        if name in ("repeats", "tile_dims", "reps"):
            return [rng.randint(0, 3) for _ in range(len(self.size) + rng.choice((0, 0, 1, 2)))]
        if count:
            return [rng.randint(0 if rng.random() < 0.2 else 1, 6) for _ in range(count)]
        choice = rng.random()
        if choice < 0.35:  # another shape with the same number of elements
            return _regrouped(rng, self.size)
        if choice < 0.7:  # a shape to which it expands
            return [
                *draw_size(rng, rng.choice((0, 0, 1))),
                *(n if n != 1 or rng.random() < 0.4 else rng.randint(0, 4) for n in self.size),
            ]
        return list(draw_size(rng))

    def int(self, name: str) -> int:
        rng, dims = self.rng, len(self.size)
        if name in DIMS or name.endswith("dim"):
            return rng.randint(-max(dims, 1), max(dims, 1) - 1)
        if name == "reduction":
            return rng.randint(0, 2)
        if name in ("start", "end", "length", "index", "split_size", "chunks", "sections", "k", "n", "size", "steps"):
            return rng.choice((rng.randint(0, 6), rng.randint(0, 6), rng.randint(-6, -1), (1 << 63) - 1))
        if name in ("step", "num_groups", "groups", "num_group", "upscale_factor", "downscale_factor"):
            return rng.randint(1, 3)
        if name in ("diagonal", "offset"):
            return rng.randint(-4, 4)
        if name == "decimals":
            return rng.randint(-2, 4)
        return rng.randint(-2, 5)

    def float(self, name: str) -> float:
        rng = self.rng
        if name in ("p", "dropout_p", "dropout") and rng.random() < 0.6:
            return 0.0
        if name in ("eps", "epsilon"):
            return rng.choice((1e-5, 1e-3, 1e-12, 0.5, 0.0))
        if name.startswith("scale") and rng.random() < 0.8:
            return rng.choice((0.5, 2.0, 1.2, 2.1, 0.7, 3.0, 0.25, 1.0))
        return rng.choice((0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 0.1, 3.0, 1e-5, 10.0))

    def number(self, name: str) -> Any:
        rng = self.rng
        if name == "step":
            return rng.choice((1, 2, 0.5, -1, 1.5, 3))
        kind = rng.random()
        if kind < 0.4:
            return rng.choice((0, 1, 2, -1, -2, 3, 5, 100))
        if kind < 0.85:
            return self.float(name)
        return rng.choice((True, False, math.inf, -math.inf, math.nan, -0.0, 1 << 31, -(1 << 31)))


def _broadcast(rng: random.Random, size: tuple[int, ...]) -> tuple[int, ...]:
    kept = size[rng.randint(0, len(size)) :]
    return tuple(1 if rng.random() < 0.4 else n for n in kept)


def _regrouped(rng: random.Random, size: tuple[int, ...]) -> list[int]:
    count, shape = math.prod(size), []
    while count > 1 and len(shape) < 4:
        factor = rng.choice([f for f in range(1, count + 1) if count % f == 0])
        shape.append(factor)
        count //= factor
    shape.append(count)
    if rng.random() < 0.4:
        shape[rng.randrange(len(shape))] = -1
    return shape
