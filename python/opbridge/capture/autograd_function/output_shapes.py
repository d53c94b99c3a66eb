"""Determines the output shapes of a function for dynamic sizes by running it at several sizes.

Fake tensors cannot do this: they have no memory, and a kernel may read memory directly.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import unset_fake_temporarily

Run = Callable[[list[torch.Tensor], list[Any]], list[torch.Tensor]]
Point = dict[Any, int]  # a value for each symbol
Make = Callable[[list[int], torch.Generator], torch.Tensor]
Data = tuple[Make, Make]


def probe_outputs(
    name: str,
    run: Run,
    tensors: Sequence[torch.Tensor],
    sizes: Sequence[Any],
    found: Collection[tuple[int, int]] = (),
) -> list[torch.Tensor]:
    """The results of ``run`` for fake ``tensors`` and ``sizes``, as fake tensors.

    Runs it on random data of the example's sizes and, if some are dynamic, of other sizes. At each of these points,
    every output size must equal an integer plus integer multiples of the symbols. A size that differs for other data of
    the same sizes becomes a new symbol. So do the axes in ``found``, which are pairs of an output's index and an axis.
    """
    example = _example(tensors, sizes)
    fixed: set[Any] = set()
    outputs = _outputs_where(name, run, tensors, sizes, found, example, {symbol: symbol for symbol in example}, fixed)
    if outputs is None:
        # The function may require equal sizes, which have different symbols: change those that cannot change alone
        # together if their values are equal.
        by_value = {example[symbol]: symbol for symbol in reversed(example) if symbol in fixed}
        leaders = {symbol: by_value[value] if symbol in fixed else symbol for symbol, value in example.items()}
        outputs = _outputs_where(name, run, tensors, sizes, found, example, leaders, set())
        if outputs is not None:
            _equate(leaders, example, tensors, sizes)
    if outputs is None:
        raise UnsupportedError(f"{name}.forward fails for all sizes but the example's; make these sizes constant")
    return outputs


def _equate(leaders: dict[Any, Any], example: Point, tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> None:
    """Tells torch that each symbol equals its leader."""
    env: Any = _symbolic(tensors, sizes)[0].node.shape_env
    for pair in leaders.items():
        one, other = (env.create_symintnode(symbol, hint=example[symbol]) for symbol in pair)
        if one != other:  # torch records that they are equal
            raise AssertionError(f"{one} and {other} differ in the example")


def _outputs_where(
    name: str,
    run: Run,
    tensors: Sequence[torch.Tensor],
    sizes: Sequence[Any],
    found: Collection[tuple[int, int]],
    every: Point,
    leaders: dict[Any, Any],
    fixed: set[Any],
) -> list[torch.Tensor] | None:
    """The outputs if each symbol has the value of its leader; None if the function runs at too few points. Adds the
    symbols that cannot change alone to ``fixed``."""
    example = {symbol: value for symbol, value in every.items() if leaders[symbol] is symbol}

    def run_at(point: Point, data: Data = _USUAL) -> list[torch.Tensor]:
        with unset_fake_temporarily():
            generator = torch.Generator().manual_seed(0)
            full = {symbol: point[leader] for symbol, leader in leaders.items()}
            made_up = [_made_up(tensor, full, generator, data) for tensor in tensors]
            return run(made_up, [_at(size, full) for size in sizes])

    try:
        outputs = run_at(example)
    except Exception as error:
        raise UnsupportedError(f"{name}.forward fails on made-up inputs of the example's sizes: {error}") from error
    fits = [[_Fit(size) for size in output.shape] for output in outputs]
    for index, axis in found:
        fits[index][axis].is_found = True
    for data in _OTHERS:
        with contextlib.suppress(Exception):  # the function does not accept these data
            _note_found(fits, run_at(example, data))
    for point in _points(example):
        try:
            there = run_at(point)
        except Exception:  # the function does not accept this size
            continue
        if [(out.dtype, out.dim()) for out in there] != [(out.dtype, out.dim()) for out in outputs]:
            raise _not_affine(name, "the number, rank or type")
        for output, output_fits in zip(there, fits, strict=True):
            for size, fit in zip(output.shape, output_fits, strict=True):
                if not fit.accepts(example, point, size):
                    raise _not_affine(name, "a size")
    if any(not fit.is_settled(example) for output_fits in fits for fit in output_fits):
        fixed |= {
            symbol for symbol in example if all(symbol not in fit.slopes for output_fits in fits for fit in output_fits)
        }
        return None
    env = next((size.node.shape_env for size in _symbolic(tensors, sizes)), None)
    return [
        torch.empty([fit.size(example, env) for fit in output_fits], dtype=output.dtype, device=output.device)
        for output, output_fits in zip(outputs, fits, strict=True)
    ]


@dataclasses.dataclass
class _Fit:
    """An affine size: ``base`` at the example, and a slope for each symbol, set when two points differ only in it; or
    a size that depends on data."""

    base: int
    is_found: bool = False
    slopes: dict[Any, int] = dataclasses.field(default_factory=dict)
    checks: int = 0

    def accepts(self, example: Point, point: Point, size: int) -> bool:
        if self.is_found:
            return True
        moved = [symbol for symbol in example if point[symbol] != example[symbol]]
        if len(moved) == 1 and moved[0] not in self.slopes:
            slope, rest = divmod(size - self.base, point[moved[0]] - example[moved[0]])
            self.slopes[moved[0]] = slope
            return rest == 0
        if any(symbol not in self.slopes for symbol in moved):
            return True
        self.checks += 1
        return size == self.base + sum(self.slopes[s] * (point[s] - example[s]) for s in moved)

    def is_settled(self, example: Point) -> bool:
        return self.is_found or (len(self.slopes) == len(example) and self.checks >= len(example))

    def size(self, example: Point, env: Any) -> Any:
        """The fitted size as a torch.SymInt, or an int where it is constant."""
        if self.is_found:
            return torch.library.get_ctx().new_dynamic_size(min=0)
        if not any(self.slopes.values()):
            return self.base
        expr = self.base + sum(slope * (symbol - example[symbol]) for symbol, slope in self.slopes.items())
        return env.create_symintnode(expr, hint=self.base)


def _points(example: Point) -> list[Point]:
    """Points at which each symbol in turn has other values, then points at which all symbols have."""
    points = []
    for symbol, value in example.items():
        points += [{**example, symbol: other} for other in sorted({value + 1, 2 * value, 3 * value} - {value})]
    if len(example) > 1:
        points += [{symbol: factor * value for symbol, value in example.items()} for factor in (2, 3)]
    return points


def _symbolic(tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> list[torch.SymInt]:
    every = [*sizes, *(size for tensor in tensors for size in tensor.shape)]
    return [size for size in every if isinstance(size, torch.SymInt)]


def _example(tensors: Sequence[torch.Tensor], sizes: Sequence[Any]) -> Point:
    """The value of each symbol in the example; 2 for a symbol that is known only when the model runs."""
    point: Point = {}
    for size in _symbolic(tensors, sizes):
        for symbol in size.node.expr.free_symbols:
            env: Any = size.node.shape_env
            point[symbol] = int(env.backed_var_to_val.get(symbol, 2))
    return dict(sorted(point.items(), key=lambda item: str(item[0])))


def _at(size: Any, point: Point) -> int:
    return int(size.node.expr.xreplace(point)) if isinstance(size, torch.SymInt) else int(size)


# Floating-point numbers and integers of a shape: the data of the runs, and others that may lead to other sizes.
_USUAL: Data = (
    lambda shape, generator: torch.rand(shape, generator=generator),
    lambda shape, _: torch.zeros(shape),
)
_OTHERS: tuple[Data, ...] = (
    (
        lambda shape, generator: torch.randn(shape, generator=generator) * 10,
        lambda shape, generator: torch.randint(0, 2, shape, generator=generator),
    ),
    (lambda shape, _: torch.ones(shape), lambda shape, _: torch.ones(shape)),
)


def _made_up(tensor: torch.Tensor, point: Point, generator: torch.Generator, data: Data) -> torch.Tensor:
    floats, integers = data
    make = floats if tensor.dtype.is_floating_point or tensor.dtype.is_complex else integers
    return make([_at(size, point) for size in tensor.shape], generator).to(tensor.device, tensor.dtype)


def _note_found(fits: list[list[_Fit]], outputs: list[torch.Tensor]) -> None:
    """Records the output sizes that differ between inputs of equal sizes."""
    for output, output_fits in zip(outputs, fits, strict=True):
        for size, fit in zip(output.shape, output_fits, strict=True):
            fit.is_found |= size != fit.base


def _not_affine(name: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name}.forward returns outputs of which {what} is not a linear function of the dynamic sizes of the "
        "inputs; make these sizes constant, or register the function as an operator with a fake "
        "implementation (torch.library.register_fake)"
    )
