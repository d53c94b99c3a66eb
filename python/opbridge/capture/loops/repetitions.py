"""``while`` loops that data end, as ``while_loop`` nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opbridge.capture.loops.lists import UnreadList
from opbridge.capture.loops.rows import READABLE, list_as_tensors, resizing
from opbridge.capture.loops.variables import MUTABLE, Resizes, Variables, holds_lists, run_with_lists
from opbridge.capture.torchscript.branches import Truth, symbols_before
from opbridge.capture.torchscript.loops import NO_LIMIT, record_loop
from opbridge.capture.traced.bodies import NotRecorded, WritesOutside
from opbridge.capture.traced.recorder import Recorder
from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import FLOATS

Step = Callable[..., tuple[Any, ...]]


def record_repetition(
    recorder: Recorder,
    condition: Truth,
    test: Callable[..., Any],
    step: Step,
    values: Sequence[Any],
    shared: Collection[int],
) -> tuple[Any, ...]:
    """The variables, which are ``values`` before, after ``step`` has run while ``test`` holds; ``condition`` is what it
    is before, and others may hold the lists of those that are ``shared``. Raises NotRecorded if the loop cannot be a
    node."""
    repetition = _Repetition(recorder, condition, test, step, values, shared)
    known = symbols_before(condition.tensor)
    while True:
        try:
            return repetition.recorded()
        except WritesOutside as write:
            repetition.note_write(write, repetition.inside)
        except Resizes as found:
            lists = list_as_tensors(found, repetition, shared, known)
            test, step = lists.test(test), lists.step(step)
            return lists.lists(record_repetition(recorder, condition, test, step, lists.tensors(values), shared))


class _Repetition(Variables):
    def __init__(
        self,
        recorder: Recorder,
        condition: Truth,
        test: Callable[..., Any],
        step: Step,
        values: Sequence[Any],
        shared: Collection[int],
    ) -> None:
        super().__init__(values)
        self._shared = shared
        self._recorder = recorder
        self._condition = condition
        self._test = test
        self._step = step
        self._is_float = [type(leaf) in FLOATS for leaf in self.leaves]
        self.inside: dict[int, Any] = {}  # what stands for the leaves in a step

    def recorded(self) -> tuple[Any, ...]:
        for value in self.values:  # steps would change what stands for a list outside of them
            if isinstance(value, READABLE):
                raise resizing(value, value)
            if isinstance(value, UnreadList):
                value.refuse()
        start = list(map(self._carried, range(len(self.leaves)), self.leaves))
        results = dict(enumerate(record_loop(self._recorder, self._run, 0, NO_LIMIT, self._condition, start)))
        for i in self.written:
            self.leaves[i].copy_(results[i])
            results[i] = self.leaves[i]
        after = self.with_leaves({i: self._python(i, result) for i, result in results.items()})
        return tuple(value if self._is_kept(i) else after[i] for i, value in enumerate(self.values))

    def _is_kept(self, variable: int) -> bool:
        """Whether a variable has lists that steps must not change, because others may hold them."""
        return holds_lists(self.values[variable]) or (
            variable in self._shared and isinstance(self.values[variable], MUTABLE)
        )

    def _run(self, given: list[Any]) -> list[Any]:
        """Whether the loop goes on after a step, and the leaves then."""
        self.inside = dict(enumerate(given[1:]))
        own = {i: self.inside[i].clone() for i in self.written}
        leaves = self.inside | own
        self._recorder.note_standing(leaves.values())
        given = self.given = self.with_leaves({i: self._python(i, leaf) for i, leaf in leaves.items()})
        after = run_with_lists(self._step, given)
        results: list[Any] = []
        for i, (value, start, now) in enumerate(zip(self.values, given, after, strict=True)):
            made, other = pytree.tree_flatten(now)
            if self._is_kept(i) and any(map(operator.is_not, made, pytree.tree_leaves(start))):
                raise NotRecorded
            if type(value) is list and (isinstance(now, READABLE) or (type(now) is list and len(now) != len(value))):
                raise resizing(value, now or value)
            if other != self.structures[i] or (isinstance(value, MUTABLE) and now is not start):
                raise NotRecorded
            results += made
        if any(results[i] is not each for i, each in own.items()):
            raise NotRecorded
        goes_on = self._test(*after)
        others = [each for i, each in enumerate(results) if i not in own]
        self.check_writes(own, others, self._recorder.operands, self._recorder.is_perhaps_shared)
        return [goes_on, *map(self._carried, range(len(results)), results)]

    def _python(self, index: int, leaf: Any) -> Any:
        return leaf.item() if self._is_float[index] else leaf

    def _carried(self, index: int, leaf: Any) -> Any:
        if not self._is_float[index]:
            return leaf
        if type(leaf) not in FLOATS:
            raise NotRecorded
        return torch.scalar_tensor(leaf, dtype=torch.float64)
