"""Loops whose number of steps depends on a size or on data, as nodes with a body."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from opbridge.capture.torchscript.branches import UNINITIALIZED, Truth, size_of_data
from opbridge.capture.torchscript.sizes import with_tensors
from opbridge.capture.traced.bodies import Body, NotRecorded
from opbridge.capture.traced.recorder import Recorder
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import check, pytree
from opbridge.torch_compat.symbols import INTEGERS, always, expression_of, forget_facts

NO_LIMIT = (1 << 63) - 1  # the number of steps of ``while``
BOOLS = (bool, torch.SymBool, Truth)


class Varies(NotRecorded):
    """A step changes the sizes of a carried tensor, the one with this index, along these axes. It may broadcast the
    tensor if one of the sizes was 1."""

    def __init__(self, index: int, axes: set[int], may_broadcast: bool) -> None:
        self.index = index
        self.axes = axes
        self.may_broadcast = may_broadcast

    def note_in(self, varying: dict[int, set[int]]) -> None:
        varying[self.index] = varying.get(self.index, set()) | self.axes


def fixed(symbol: Any) -> Any:
    """Makes a symbol a Python integer or bool if it has the same value for all sizes."""
    if type(symbol) not in (torch.SymInt, torch.SymBool):
        return symbol
    known = always(symbol.node.shape_env, symbol.node.expr)
    if known is None:
        return symbol
    return int(known) if type(symbol) is torch.SymInt else bool(known)


def record_loop(
    recorder: Recorder,
    step: Callable[[list[Any]], list[Any]],
    number: int,
    count: Any,
    goes_on: Any,
    carried: list[Any],
) -> list[Any]:
    """Returns the results of a node that runs the loop from step ``number`` on; ``step`` runs one step. Raises
    NotRecorded if the loop cannot be a node. The node carries the number of the step, whether the loop continues, and
    the leaves of ``carried``. Sizes that a step changes depend on data."""
    varying: dict[int, set[int]] = {}
    while True:
        names = recorder.names
        try:
            return _recorded_loop(recorder, step, number, count, goes_on, carried, varying)
        except Varies as found:
            recorder.names = names
            found.note_in(varying)


def _recorded_loop(
    recorder: Recorder,
    step: Callable[[list[Any]], list[Any]],
    number: int,
    count: Any,
    goes_on: Any,
    carried: list[Any],
    varying: Mapping[int, set[int]],
) -> list[Any]:
    """``varying`` are the axes along which steps change the sizes of what is carried."""
    symbol: Any = count if type(count) is torch.SymInt else goes_on
    fake: Any = symbol.tensor if type(symbol) is Truth else None
    env = symbol.node.shape_env if fake is None else fake.fake_mode.shape_env
    leaves, structure = pytree.tree_flatten(with_tensors(carried))
    start = [number, flag(goes_on), *map(as_tensor, leaves)]

    def unknown(i: int) -> Any:
        return standing_for(start[i], recorder, env, varying.get(i, ()))

    inside = list(map(unknown, range(len(start))))
    check(inside[0] >= number)  # not that it is below the count: torch would infer that the count is above 0
    limited = type(count) is torch.SymInt or count < NO_LIMIT
    body, condition = Body(), Body()
    with recorder.enter(body), forget_facts(env):
        take(recorder, inside)
        given = [Truth(new) if type(old) in BOOLS else new for old, new in zip(leaves, inside[2:], strict=True)]
        goes, *results = step([inside[0], *pytree.tree_unflatten(given, structure)])
        made, other = pytree.tree_flatten(with_tensors(results))
        if other != structure:
            raise NotRecorded
        ends = [inside[0] + 1, flag(goes), *map(as_tensor, made)]
        for i, (before, after) in enumerate(zip(inside, ends, strict=True)):
            check_alike(i, before, after, varying.get(i, set()))
            if _is_carried(before):
                recorder.give(after)
    with recorder.enter(condition), forget_facts(env):
        take(recorder, inside)
        for tensor, _ in body.operands:
            recorder.lift(condition, tensor)
        recorder.yield_both(inside[0] < count if limited else None, inside[1])
    if torch.is_grad_enabled() and any(_requires_grad(each) for each in (*start, *(one for one, _ in body.operands))):
        raise UnsupportedError("a loop that data end has no gradients; run a constant number of steps")
    operands = [value for _, value in body.operands]
    values = [recorder.value_of(each) for each in start if _is_carried(each)]
    after = [unknown(i) if _is_carried(value) else value for i, value in enumerate(start)]
    returns_the_first = True  # tensors themselves if there is no step
    arguments = (condition.builder.finish(), body.builder.finish(), values, operands, returns_the_first)
    recorder.call_bodies("while_loop", arguments, [each for each in after if _is_carried(each)])
    changed = [(end, new) for end, before, new in zip(ends, inside, after, strict=True) if end is not before]
    recorder.note_shared(body, [*zip(inside, start, strict=True), *changed])
    finished = [Truth(new) if type(old) in BOOLS else new for old, new in zip(leaves, after[2:], strict=True)]
    returned: list[Any] = pytree.tree_unflatten(finished, structure)
    return returned


def flag(value: Any) -> Any:
    """A bool as a tensor without dims, or as a symbol."""
    if type(value) is Truth:
        return value.tensor.to(torch.bool).reshape(())
    if type(value) is torch.SymBool:
        return value
    return torch.full((), value, dtype=torch.bool)


def as_tensor(value: Any) -> Any:
    """A bool as ``flag`` makes it; other values themselves."""
    return flag(value) if type(value) in BOOLS else value


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _is_carried(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, torch.SymBool, *INTEGERS))


def standing_for(value: Any, recorder: Recorder, env: Any, varying: Collection[int] = ()) -> Any:
    """An unknown value of the same type and size, but for the sizes of the axes that vary."""
    if isinstance(value, torch.Tensor):
        sizes = [size_of_data(env) if axis in varying else size for axis, size in enumerate(value.shape)]
        with recorder.pause():
            return torch.empty(sizes, dtype=value.dtype, device=value.device)
    if type(value) is torch.SymBool:
        with recorder.pause():
            return torch.empty((), dtype=torch.bool)
    return env.create_unbacked_symint() if type(value) in INTEGERS else value


def take(recorder: Recorder, values: Sequence[Any]) -> None:
    for value in values:
        if isinstance(value, torch.Tensor):
            recorder.take(value)
        elif type(value) is torch.SymInt:
            recorder.take_number(value)


def check_alike(index: int, before: Any, after: Any, varying: set[int]) -> None:
    """Raises NotRecorded unless a carried tensor keeps its type, and all but tensors and integers stay equal. Raises
    Varies, with the index, if the tensor changes its size along an axis that is not known to vary."""
    if isinstance(before, torch.Tensor):
        alike = (type(after) is torch.SymBool and before.dtype == torch.bool and before.dim() == 0) or (
            isinstance(after, torch.Tensor) and after.dtype == before.dtype and after.dim() == before.dim()
        )
        axes = enumerate(zip(after.shape, before.shape, strict=True)) if alike and before.dim() else ()
        changed = {axis for axis, (a, b) in axes if a is not b and expression_of(a) != expression_of(b)}
        if changed - varying:
            raise Varies(index, changed, any(type(size := before.shape[axis]) is int and size == 1 for axis in changed))
    elif type(before) in INTEGERS:
        alike = type(after) in INTEGERS
    else:
        alike = after is before or (before is not UNINITIALIZED and type(after) is type(before) and after == before)
    if not alike:
        raise NotRecorded
