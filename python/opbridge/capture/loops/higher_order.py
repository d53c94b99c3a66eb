"""torch's own branches and loops by data (torch.cond, while_loop) and its scans of as many rows as a dynamic size says,
as nodes. Others are left to ``patch_control_flow``, which unrolls them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.loops.iterables import Items
from opbridge.capture.loops.lists import note_copies
from opbridge.capture.loops.runtime import RUNTIME, Recording, recording
from opbridge.capture.patching import patch
from opbridge.capture.rewrites.control_flow import patch_control_flow
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree, transforms_are_active
from opbridge.torch_compat.patch_points import ASSOCIATIVE_SCAN

Function = Callable[..., Any]
Tensors = Sequence[torch.Tensor]


def _cond(pred: Any, true_fn: Function, false_fn: Function, operands: Sequence[Any]) -> Any:
    if transforms_are_active():
        return NotImplemented
    return RUNTIME.chosen(pred, lambda: true_fn(*operands), lambda: false_fn(*operands))


def _while_loop(cond_fn: Function, body_fn: Function, carried: Sequence[Any], additional: Sequence[Any]) -> Any:
    """Integers that the steps carry are tensors in the graph."""
    if recording.get() is None or transforms_are_active():
        return NotImplemented
    are_numbers = [type(each) in (int, torch.SymInt) for each in carried]

    def opened(values: Sequence[Any]) -> list[Any]:
        return [each.item() if is_number else each for each, is_number in zip(values, are_numbers, strict=True)]

    def closed(values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(
            torch.scalar_tensor(each, dtype=torch.int64) if is_number else each
            for each, is_number in zip(values, are_numbers, strict=True)
        )

    def test(*values: Any) -> Any:
        goes_on = cond_fn(*opened(values), *additional)
        return torch.scalar_tensor(goes_on, dtype=torch.bool) if isinstance(goes_on, torch.SymBool) else goes_on

    def step(*values: Any) -> tuple[Any, ...]:
        return closed(body_fn(*opened(values), *additional))

    copies = [each.clone() if isinstance(each, torch.Tensor) else each for each in carried]  # as eager mode returns
    return tuple(opened(RUNTIME.repeat(test, step, *(functools.partial(_same, each) for each in closed(copies)))))


def _same(value: Any) -> Any:
    return value


def _scan(combine_fn: Function, init: Sequence[Any], xs: Tensors, additional: Sequence[Any], **_: Any) -> Any:
    recorder = _recorder_of(xs[0].shape[0])
    if recorder is None:
        return NotImplemented
    states = len(init)

    def combined(carry: Sequence[Any], row: Tensors) -> tuple[Sequence[Any], Tensors]:
        made = pytree.tree_leaves(combine_fn(*carry, *row, *additional))
        return made[:states], made[states:]

    zeros = (x.new_zeros(x.shape[1:]) for x in xs)  # for the form of what the step returns
    step, structure = pytree.tree_flatten(combine_fn(*init, *zeros, *additional))
    return pytree.tree_unflatten(_recorded(recorder, combined, init, xs, len(step) - states), structure)


def _map(f: Function, xs: Tensors, additional: Sequence[Any], **_: Any) -> Any:
    return _scan(f, [], xs, additional)


def _associative_scan(
    combine_pairs: Function, operator: Function, leaves: Tensors, dim: int = 0, additional_inputs: Sequence[Any] = ()
) -> Sequence[Any]:
    """Combines what the ``operator``, of rows of size 1, has made with the next row. torch's ``combine_pairs``
    branches by the number of rows."""
    recorder = _recorder_of(leaves[0].shape[dim])
    if recorder is None or dim != 0:
        unrolled: Sequence[Any] = combine_pairs(operator, leaves, dim, additional_inputs)
        return unrolled

    def combined(carry: Sequence[Any], row: Tensors) -> tuple[Sequence[Any], Tensors]:
        begun, *former = carry
        rows = [each.unsqueeze(0) for each in row]
        made = pytree.tree_leaves(operator(*former, *rows, *additional_inputs))
        for new, first in zip(made, rows, strict=True):
            if new.dtype != first.dtype:  # of one row, torch returns that row
                raise UnsupportedError(
                    f"an associative scan of a dynamic axis combines rows of {first.dtype} to {new.dtype}; convert the "
                    "rows before the scan"
                )
        made = [torch.where(begun, new, first) for new, first in zip(made, rows, strict=True)]
        return [torch.ones_like(begun), *made], [each.squeeze(0) for each in made]

    begun = torch.zeros((), dtype=torch.bool)
    carry = [begun, *(each.new_zeros((1, *each.shape[1:])) for each in leaves)]
    scanned = _recorded(recorder, combined, carry, leaves, len(leaves))[len(carry) :]
    for each, leaf in zip(scanned, leaves, strict=True):
        note_copies.get()([each, leaf])  # of one row, torch returns that row itself
    return scanned


def _recorder_of(count: Any) -> Recording | None:
    if not isinstance(count, torch.SymInt):
        return None
    if transforms_are_active():
        raise UnsupportedError(
            "a scan of a dynamic axis inside of a transform of torch.func (vmap, grad, …) cannot be a loop of a graph; "
            "scan outside of it, or make the size constant"
        )
    return recording.get()


def _recorded(
    recorder: Recording,
    combined: Callable[[Sequence[Any], Tensors], tuple[Sequence[Any], Tensors]],
    init: Sequence[Any],
    xs: Tensors,
    results: int,
) -> list[Any]:
    """The last carry, and the stacked ``results`` of the rows of ``xs``: ``carry, results = combined(carry, row)``."""

    def step(i: Any, *values: Any) -> tuple[Any, ...]:
        carry, made = combined(values[: len(init)], [x[i] for x in xs])
        stacked = values[len(init) :]
        for rows, each in zip(stacked, made, strict=True):
            rows.append(each)
        return (*carry, *stacked)

    count: Any = xs[0].shape[0]
    values = recorder.run(Items(count, lambda i: i), step, [*init, *([] for _ in range(results))], set())
    return [*values[: len(init)], *map(torch.stack, values[len(init) :])]


_AS_NODES: dict[str, Function] = {"cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map}


@contextlib.contextmanager
def record_control_flow() -> Iterator[None]:
    scan = functools.partial(_associative_scan, ASSOCIATIVE_SCAN.original)
    with patch_control_flow(_AS_NODES), patch(ASSOCIATIVE_SCAN, scan):
        yield
