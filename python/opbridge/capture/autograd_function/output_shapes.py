"""Determines the output shapes of a function for dynamic sizes by running it at several sizes.

Fake tensors cannot do this: they have no memory, and a kernel may read memory directly.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import sympy
import torch

from opbridge.errors import UnsupportedError
from opbridge.torch_compat import unset_fake_temporarily
from opbridge.torch_compat.symbols import FloorDiv

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
    every output size must equal an integer plus integer multiples of the terms of the inputs' sizes. A term is a
    symbol, or an expression such as ``n // 2`` after a strided convolution. An output size that differs for other data
    of the same sizes becomes a new symbol. So do the axes in ``found``, which are pairs of an output's index and an
    axis.
    """
    example = _example(tensors, sizes)
    fixed: set[Any] = set()
    outputs = _outputs_where(name, run, tensors, sizes, found, example, {symbol: symbol for symbol in example}, fixed)
    if outputs is None:
        # The function may require that sizes with different symbols are equal. So the symbols that cannot change alone
        # and have equal values change together.
        by_value = {example[symbol]: symbol for symbol in reversed(example) if symbol in fixed}
        leaders = {symbol: by_value[value] if symbol in fixed else symbol for symbol, value in example.items()}
        outputs = _outputs_where(name, run, tensors, sizes, found, example, leaders, set())
        if outputs is not None:
            _equate(leaders, example, tensors, sizes)
    if outputs is None:
        raise UnsupportedError(
            f"{name}.forward, which is run at other sizes than the example's to learn the shapes of its results, runs "
            "at too few of them; make the dynamic sizes of its inputs constant, or register the function as an "
            "operator with a fake implementation (torch.library.register_fake)"
        )
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
    differing = set(found)
    for data in _OTHERS:
        with contextlib.suppress(Exception):  # the function does not accept these data
            differing |= _differing(outputs, run_at(example, data))
    axes = [place for place in _axes(outputs) if place not in differing]
    terms = _terms(tensors, sizes, leaders)
    moves: list[list[int]] = []  # for each point, by how much the terms and the sizes at ``axes`` change
    changes: list[list[int]] = []
    alone: set[Any] = set()
    for point in _points(example, terms):
        try:
            there = run_at(point)
        except Exception:  # the function does not accept this size
            continue
        if [(out.dtype, out.dim()) for out in there] != [(out.dtype, out.dim()) for out in outputs]:
            raise _not_affine(name, "number, rank or type")
        moves.append(_move(terms, example, point))
        changes.append([there[index].shape[axis] - outputs[index].shape[axis] for index, axis in axes])
        moved = [symbol for symbol in example if point[symbol] != example[symbol]]
        alone.update(moved if len(moved) == 1 else ())
    slopes = _slopes(name, moves, changes, len(terms)) if axes and terms else [[] for _ in axes]
    if slopes is None:
        fixed |= set(example) - alone
        return None
    env: Any = next((size.node.shape_env for size in _symbolic(tensors, sizes)), None)
    made: dict[tuple[int, int], Any] = {}
    for (index, axis), factors in zip(axes, slopes, strict=True):
        base = outputs[index].shape[axis]
        added = [factor * (term - _value(term, example)) for factor, term in zip(factors, terms, strict=True) if factor]
        made[index, axis] = env.create_symintnode(base + sum(added), hint=base) if added else base
    for place in sorted(differing):
        made[place] = torch.library.get_ctx().new_dynamic_size(min=0)
    return [
        torch.empty([made[index, axis] for axis in range(out.dim())], dtype=out.dtype, device=out.device)
        for index, out in enumerate(outputs)
    ]


def _axes(outputs: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    return [(index, axis) for index, output in enumerate(outputs) for axis in range(output.dim())]


def _differing(outputs: Sequence[torch.Tensor], others: Sequence[torch.Tensor]) -> set[tuple[int, int]]:
    """The axes whose sizes differ between the results for inputs of equal sizes."""
    return {(index, axis) for index, axis in _axes(outputs) if outputs[index].shape[axis] != others[index].shape[axis]}


def _terms(tensors: Sequence[torch.Tensor], sizes: Sequence[Any], leaders: dict[Any, Any]) -> list[Any]:
    """The terms of the sizes: symbols, and expressions that are not sums, such as ``n // 2`` and ``n*m``. A term that
    is a sum of others and of a number is left out, as ``(n - 3) // 2`` beside ``(n - 1) // 2``."""
    every = [size.node.expr.xreplace(leaders) for size in _symbolic(tensors, sizes)]
    found = {term for expr in every for term in expr.as_coefficients_dict() if term.free_symbols}
    terms: list[Any] = []
    rows: list[dict[Any, Any]] = []
    for term in sorted(found, key=lambda term: (term.count_ops(), str(term))):
        row = dict(sympy.expand(_reduced(term)).as_coefficients_dict())
        row.pop(sympy.S.One, None)
        parts = sorted({part for each in (*rows, row) for part in each}, key=str)
        if sympy.Matrix([[each.get(part, 0) for part in parts] for each in (*rows, row)]).rank() > len(rows):
            terms.append(term)
            rows.append(row)
    return sorted(terms, key=str)


def _reduced(expr: Any) -> Any:
    """The expression with quotients in a form that shows which of them differ only by a number."""

    def quotient(size: Any, divisor: Any) -> Any:
        exact = sympy.cancel(size / divisor)
        if exact.as_numer_denom()[1] == 1:
            return exact
        number, rest = size.as_coeff_Add()
        if not (divisor.is_Integer and number.is_Integer):
            return FloorDiv(size, divisor)
        return FloorDiv(rest + number % divisor, divisor) + number // divisor

    return expr.replace(FloorDiv, quotient)


def _slopes(name: str, moves: list[list[int]], changes: list[list[int]], count: int) -> list[list[int]] | None:
    """For each column of ``changes``, the factors by which it is a sum of the ``count`` columns of ``moves``. None if
    there are too few rows to find the factors, and as many again to confirm them."""
    if not moves:
        return None
    rows = [[*move, *change] for move, change in zip(moves, changes, strict=True)]
    reduced, pivots = sympy.Matrix(rows).rref()
    if any(pivot >= count for pivot in pivots):
        raise _not_affine(name, "size")
    if not _suffice(moves, count):
        return None
    slopes = reduced[:count, count:]
    if not all(slope.is_integer for slope in slopes):
        raise _not_affine(name, "size")
    return [[int(slope) for slope in slopes.col(column)] for column in range(slopes.cols)]


def _points(example: Point, terms: Sequence[Any]) -> list[Point]:
    """Points at which one symbol at a time has other values, then points at which all symbols have other values.
    Further points separate terms that have the same ratio at all of these, as ``n // 8`` and ``n // 16`` have at
    multiples of 16."""
    points = []
    for symbol, value in example.items():
        points += [{**example, symbol: other} for other in sorted({value + 1, 2 * value, 3 * value} - {value})]
    if len(example) > 1:
        points += [{symbol: factor * value for symbol, value in example.items()} for factor in (2, 3)]
    # Smaller sizes show a least or a greatest one, as in ``min(n, 2)``. They change together: a size of 1 alone would
    # broadcast.
    for point in dict.fromkeys(example, 1), {symbol: max(1, value - 1) for symbol, value in example.items()}:
        if point not in (example, *points):
            points.append(point)
    moves = [_move(terms, example, point) for point in points]
    for more in [{**example, symbol: example[symbol] + step} for step in (2, 4, 8, 16, 32, 64) for symbol in example]:
        if _suffice(moves, len(terms)):
            break
        moves.append(_move(terms, example, more))
        points.append(more)
    return points


def _suffice(moves: list[list[int]], count: int) -> bool:
    """Whether the points determine the factors of ``count`` terms, and as many more points confirm these factors."""
    return sum(any(move) for move in moves) >= 2 * count and sympy.Matrix(moves).rank() == count


def _move(terms: Sequence[Any], example: Point, point: Point) -> list[int]:
    return [_value(term, point) - _value(term, example) for term in terms]


def _value(expr: Any, point: Point) -> int:
    return int(expr.xreplace(point))


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
    return _value(size.node.expr, point) if isinstance(size, torch.SymInt) else int(size)


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


def _not_affine(name: str, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"{name}.forward returns outputs whose {what} is not a linear function of the dynamic sizes of the "
        "inputs; make these sizes constant, or register the function as an operator with a fake "
        "implementation (torch.library.register_fake)"
    )
