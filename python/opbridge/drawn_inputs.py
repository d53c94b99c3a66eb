"""Inputs drawn for a verification: other values, other sizes in the ranges of the export, and edge values."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence

import torch

from opbridge import _core
from opbridge.capture.inputs import Inputs
from opbridge.errors import Error

_RANGE_KEY = "pytorch.size."
_EDGES = {"zeros": (0.0, -0.0), "infinities": (math.inf, -math.inf), "NaN": (math.nan,)}
_EDGE_DISTANCE = 3  # every third element is an infinity or NaN, so that some results stay finite
_ROOM = 7  # how far a size without upper bound may exceed its least value, if the example's is not greater


@dataclasses.dataclass(frozen=True)
class _Range:
    least: int
    most: int


class DrawnInputs:
    """Draws inputs like an example. ``shapes`` are those of the model's inputs by the names in the file, ``examples``
    the tensors given for them, and ``metadata`` is the file's, which has the ranges of the sizes."""

    def __init__(
        self,
        inputs: Inputs,
        shapes: Mapping[str, Sequence[int | str | None]],
        examples: Mapping[str, torch.Tensor],
        metadata: Mapping[str, str],
        seed: int,
    ) -> None:
        self._inputs = inputs
        self._generator = torch.Generator().manual_seed(seed)
        self._dims: dict[int, list[_core.Dim | int]] = {}
        ranges: dict[str, _Range] = {}
        for name, tensor in examples.items():
            shape = shapes.get(name, ())
            if len(shape) != tensor.dim():
                continue
            dims = [_dim(size, given) for size, given in zip(shape, tensor.shape, strict=True)]
            self._dims[id(tensor)] = dims
            for dim, given in zip(dims, tensor.shape, strict=True):
                for symbol in () if isinstance(dim, int) else dim.symbols:
                    known = ranges.get(symbol)
                    ranges[symbol] = _range(metadata.get(_RANGE_KEY + symbol, ""), given, known)
        self._ranges = ranges

    def sizes(self, which: int) -> dict[str, int]:
        """The sizes of drawn input number ``which``: the least for 0, the greatest for 1, then random ones."""
        if which == 0:
            return {name: each.least for name, each in self._ranges.items()}
        if which == 1:
            return {name: each.most for name, each in self._ranges.items()}
        return {name: self._integer(each.least, each.most) for name, each in self._ranges.items()}

    def like_example(self, sizes: Mapping[str, int] | None = None) -> Inputs:
        """Inputs of these sizes, or of those of the example, with values between the least and the greatest of each
        given tensor. Where all its floating-point numbers are equal, the values have the normal distribution."""
        drawn = {id(tensor): self._drawn(tensor, self._shape(tensor, sizes)) for tensor in self._inputs.tensors}
        return self._inputs.map_leaves(lambda leaf: drawn.get(id(leaf), leaf))

    def edges(self) -> Iterator[tuple[str, Inputs]]:
        """Inputs with zeros, with infinities, and with NaN among the numbers; none if no tensor has such values."""
        if not any(tensor.is_floating_point() or tensor.is_complex() for tensor in self._inputs.tensors):
            return
        for name, values in _EDGES.items():
            distance = 1 if name == "zeros" else _EDGE_DISTANCE
            yield name, self._inputs.map_leaves(functools.partial(_with_values, values=values, distance=distance))

    def _shape(self, leaf: torch.Tensor, sizes: Mapping[str, int] | None) -> list[int]:
        dims = self._dims.get(id(leaf))
        if dims is None or sizes is None:
            return list(leaf.shape)
        return [dim if isinstance(dim, int) else dim.evaluate(dict(sizes)) for dim in dims]

    def _integer(self, least: int, most: int) -> int:
        return int(torch.randint(least, most + 1, (), generator=self._generator))

    def _drawn(self, example: torch.Tensor, shape: list[int]) -> torch.Tensor:
        if example.is_complex():
            return torch.view_as_complex(self._drawn(torch.view_as_real(example), [*shape, 2]))
        values = example.detach().cpu()
        if not values.is_floating_point():
            integers = values.to(torch.int64)
            least, most = (int(integers.min()), int(integers.max())) if integers.numel() else (0, 0)
            drawn = torch.randint(least, most + 1, shape, generator=self._generator)
            return drawn.to(example.dtype).to(example.device)
        finite = values.double()[values.isfinite()]
        low, high = (float(finite.min()), float(finite.max())) if finite.numel() else (0.0, 0.0)
        if low == high:  # as in torch.ones, whose value does not tell a range
            drawn = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        else:
            drawn = torch.rand(shape, generator=self._generator, dtype=torch.float64) * (high - low) + low
        return drawn.to(example.dtype).to(example.device)


def _dim(size: int | str | None, given: int) -> _core.Dim | int:
    """The size that the file states; the example's size if the file states none, or one that cannot be computed."""
    if not isinstance(size, str):
        return given
    try:
        return _core.Dim.parse(size)
    except Error:
        return given


def _range(text: str, given: int, known: _Range | None) -> _Range:
    """The values of a size to draw from: the range in the file, up to about twice the example's."""
    least, _, most = text.partition("..")
    low = int(least) if least.isdigit() else 1
    high = max(2 * given, low + _ROOM) if known is None else max(known.most, 2 * given)
    return _Range(low, max(low, min(high, int(most) if most.isdigit() else high)))


def _with_values(leaf: object, values: Sequence[float], distance: int) -> object:
    if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
        return leaf
    if leaf.is_complex():
        real = _with_values(torch.view_as_real(leaf), values, distance)
        assert isinstance(real, torch.Tensor)
        return torch.view_as_complex(real)
    changed = leaf.detach().clone(memory_format=torch.contiguous_format)
    flat = changed.view(-1)
    for i, value in enumerate(values):
        flat[i * distance :: distance * len(values)] = value
    return changed
