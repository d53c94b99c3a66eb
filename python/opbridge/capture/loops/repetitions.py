"""``while`` loops that data end, as ``while_loop`` nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from opbridge.capture.loops.variables import MUTABLE, Variables
from opbridge.capture.torchscript.branches import Truth
from opbridge.capture.torchscript.loops import NO_LIMIT, record_loop
from opbridge.capture.traced.bodies import NotRecorded, WritesOutside
from opbridge.capture.traced.recorder import Recorder
from opbridge.torch_compat import pytree
from opbridge.torch_compat.symbols import FLOATS

Step = Callable[..., tuple[Any, ...]]


def record_repetition(
    recorder: Recorder, condition: Truth, test: Callable[..., Any], step: Step, values: Sequence[Any]
) -> tuple[Any, ...]:
    """The variables, which are ``values`` before, after ``step`` has run while ``test`` holds; ``condition`` is what it
    is before. Raises NotRecorded if the loop cannot be a node."""
    repetition = _Repetition(recorder, condition, test, step, values)
    while True:
        try:
            return repetition.recorded()
        except WritesOutside as write:
            repetition.note_write(write, repetition.inside)


class _Repetition(Variables):
    def __init__(
        self, recorder: Recorder, condition: Truth, test: Callable[..., Any], step: Step, values: Sequence[Any]
    ) -> None:
        super().__init__(values)
        if any(isinstance(each, MUTABLE) for each in values) or any(map(self.lists_in, values)):
            raise NotRecorded
        self._recorder = recorder
        self._condition = condition
        self._test = test
        self._step = step
        self._is_float = [type(leaf) in FLOATS for leaf in self.leaves]
        self.inside: dict[int, Any] = {}  # what stands for the leaves in a step

    def recorded(self) -> tuple[Any, ...]:
        start = list(map(self._carried, range(len(self.leaves)), self.leaves))
        results = dict(enumerate(record_loop(self._recorder, self._run, 0, NO_LIMIT, self._condition, start)))
        for i in self.written:
            self.leaves[i].copy_(results[i])
            results[i] = self.leaves[i]
        return tuple(self.with_leaves({i: self._python(i, result) for i, result in results.items()}))

    def _run(self, given: list[Any]) -> list[Any]:
        """Whether the loop goes on after a step, and the leaves then."""
        self.inside = dict(enumerate(given[1:]))
        own = {i: self.inside[i].clone() for i in self.written}
        leaves = self.inside | own
        after = self._step(*self.with_leaves({i: self._python(i, leaf) for i, leaf in leaves.items()}))
        results: list[Any] = []
        for value, structure in zip(after, self.structures, strict=True):
            made, other = pytree.tree_flatten(value)
            if other != structure:
                raise NotRecorded
            results += made
        if any(results[i] is not each for i, each in own.items()):
            raise NotRecorded
        goes_on = self._test(*after)
        self.check_writes(own, [each for i, each in enumerate(results) if i not in own], self._recorder.operands)
        return [goes_on, *map(self._carried, range(len(results)), results)]

    def _python(self, index: int, leaf: Any) -> Any:
        return leaf.item() if self._is_float[index] else leaf

    def _carried(self, index: int, leaf: Any) -> Any:
        if not self._is_float[index]:
            return leaf
        if type(leaf) not in FLOATS:
            raise NotRecorded
        return torch.scalar_tensor(leaf, dtype=torch.float64)
