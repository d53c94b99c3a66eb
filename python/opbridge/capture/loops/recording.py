"""Makes nodes of Python loops and of branches by data."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.loops.choices import record_choice
from opbridge.capture.loops.iterables import Items
from opbridge.capture.loops.kept import Keeps, Kept, keeps, state_of
from opbridge.capture.loops.lists import note_copies
from opbridge.capture.loops.repetitions import record_repetition
from opbridge.capture.loops.runtime import Step, note_aliases, recording, shares_lists
from opbridge.capture.loops.scans import Loop
from opbridge.capture.loops.variables import MUTABLE, Reads
from opbridge.capture.source import line_of_frame
from opbridge.capture.state.attributes import Attributes
from opbridge.capture.state.kinds import is_iterator
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import NeedsNumberOfData, refused
from opbridge.capture.torchscript.branches import Truth, as_truth
from opbridge.capture.torchscript.loops import Varies
from opbridge.capture.traced.bodies import NotRecorded, WritesOutside
from opbridge.capture.traced.recorder import Recorder
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import DisableTorchFunction, is_transformed, pytree
from opbridge.torch_compat.messages import is_branch_on_data
from opbridge.torch_compat.symbols import expression_of, free_unbacked_symbols

Check = Callable[[Callable[..., Any]], Callable[..., Any]]  # the function, which fails if it changes other things


@contextlib.contextmanager
def record_loops(recorder: Recorder, attributes: Attributes, caught: Caught) -> Iterator[None]:
    """Makes nodes of the loops of functions that call the runtime."""
    if not recorder.with_bodies:
        yield
        return
    loops = recording.set(_Loops(recorder, attributes, caught))
    copies = note_copies.set(recorder.note_perhaps_shared)
    try:
        yield
    finally:
        note_copies.reset(copies)
        recording.reset(loops)


class _Loops:
    def __init__(self, recorder: Recorder, attributes: Attributes, caught: Caught) -> None:
        self._recorder = recorder
        self._attributes = attributes
        self._caught = caught
        self._kept = Kept()  # by objects, which the bodies that are being recorded change

    def run(self, items: Items, step: Step, values: list[Any], shared: set[int]) -> tuple[Any, ...]:
        return self._keeping(lambda kept: self._run(items, kept.step(step), *kept.variables(values, shared)))

    def _keeping(self, record: Callable[[Kept], tuple[Any, ...]]) -> tuple[Any, ...]:
        """The variables after ``record``, which gives its bodies those ``kept`` by objects besides."""
        before = self._kept
        try:
            while True:
                try:
                    after = record(self._kept)
                    return self._kept.put(self._kept.with_same_lists(after) if self._recorder.in_body else after)
                except Keeps as found:
                    self._kept = found.kept
        finally:
            self._kept = before

    def _check_kept(self, state: Attributes, error: BaseException) -> None:
        """Raises Keeps if a body has failed with ``error`` since what objects keep is no variable of it. In a body,
        what is around it does that."""
        if not self._recorder.in_body:
            self._caught.forget(error)
            self._kept.check(state, self._attributes, error)

    def _run(self, items: Items, step: Step, values: list[Any], shared: set[int]) -> tuple[Any, ...]:
        """If a variable has a value of another type or shape after the first step, such as one that is None before or
        that broadcasts, that step comes before the node. Other sizes that steps change depend on data."""
        before = self._attributes.changes()
        why = "change a shape, a number or something outside of the loop"
        is_of_data = bool(free_unbacked_symbols(expression_of(items.count)))
        done = 0
        loop: Loop

        def attempt(may_vary: bool, values: Sequence[Any]) -> tuple[Any, ...]:
            nonlocal loop
            loop = Loop(self._recorder, self._caught, items, done, step, values, shared, may_vary)
            try:
                return loop.recorded()
            except (NotRecorded, Exception) as error:
                if not done:
                    self._check_kept(loop.state, error)
                raise

        def with_first_step(*values: Any) -> tuple[Any, ...]:
            return attempt(True, step(items.get(0), *values))

        attempts = [(0, False), (1, False), (1, True)]
        while attempts:
            first, may_vary = attempts.pop(0)
            try:
                if first > done:
                    done, goes_on = 1, items.count >= 1
                    if is_of_data:
                        attempts = []
                        return self.choose(as_truth(goes_on), (with_first_step, lambda *given: given), values, shared)
                    if not goes_on:
                        return tuple(values)
                    with note_aliases([values[i] for i in shared]):
                        after = list(step(items.get(0), *values))
                    same = {i for i in range(len(after)) if values[i] is after[i]}
                    new = (i for i in range(len(after)) if i not in same and _is_shared(after, i))
                    values, shared = after, {*(same & shared), *new}
                return attempt(may_vary, values)
            except (WritesOutside, Reads):
                if self._recorder.in_body:
                    raise  # perhaps to a variable, or of a list, of the loop around it
            except NotRecorded as error:
                if not may_vary and isinstance(error, Varies) and (is_of_data or not error.may_broadcast):
                    attempts.insert(0, (done, True))
            except Exception as error:
                self._caught.forget(error)
                if is_branch_on_data(error):
                    why = "branch by data, or by their number in a function that they call"
                elif done:
                    raise
            if self._attributes.changes() != before or not loop.keeps_state:
                break
        decides, advice = ("data", "") if is_of_data else ("a dynamic size", ", or make the size constant")
        raise UnsupportedError(
            f"a loop runs '{self._recorder.text_of(items.count)}' times, which depends on {decides}, and its steps "
            f"{why}, which a loop of a graph cannot; compute with operators of tensors instead{advice}",
            line_of_frame(sys._getframe(1)),
        )

    def choose(self, condition: Truth, ways: Sequence[Step], values: list[Any], shared: set[int]) -> tuple[Any, ...]:
        def record(kept: Kept, checked: Check) -> tuple[Any, ...]:
            functions = [checked(kept.step(way)) for way in ways]
            return record_choice(self._recorder, condition, functions, *kept.variables(values, shared))

        return self._by_data(record, condition, ways, values, "branches on a tensor", "ways")

    def repeat(
        self, condition: Truth, test: Callable[..., Any], step: Step, values: list[Any], shared: set[int]
    ) -> tuple[Any, ...]:
        def record(kept: Kept, checked: Check) -> tuple[Any, ...]:
            functions = checked(kept.test(test)), checked(kept.step(step))
            return record_repetition(self._recorder, condition, *functions, *kept.variables(values, shared))

        what = "branches on a tensor in the test of a loop"
        return self._by_data(record, condition, (test, step), values, what, "steps")

    def check_are_others(self, value: Any, other: Any) -> None:
        tensors = [each for each in (value, other) if isinstance(each, torch.Tensor)]
        if len(tensors) == 2 and any(map(self._recorder.stands_for_others, tensors)):
            raise refused(
                self._caught,
                "the model asks whether two variables hold one tensor ('is'), which depends on the steps of a loop or "
                "on the way of a branch; keep a bool that says so",
            )

    def _by_data(
        self,
        record: Callable[[Kept, Check], tuple[Any, ...]],
        condition: Truth,
        functions: Sequence[Callable[..., Any]],
        values: list[Any],
        what: str,
        parts: str,
    ) -> tuple[Any, ...]:
        """Refuses the model if the functions change anything besides the variables ``values`` and what objects keep, or
        fail. In a body, what is around it does that."""
        if self._recorder.in_body:
            return self._keeping(lambda kept: record(kept, lambda function: function))
        what = f"the model {what}, whose value is known only when it runs"
        if is_transformed(condition.tensor):
            raise UnsupportedError(
                f"{what}, inside of a transform of torch.func (vmap, grad, …); compute both ways and choose with "
                "torch.where(…)"
            )
        with self._recorder.pause(), DisableTorchFunction():
            state = state_of(functions, values)
        if state.have_iterators or any(map(is_iterator, pytree.tree_leaves(values))):  # each function takes items
            raise self._refused(what, parts)

        def checked(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*given: Any) -> Any:
                result = function(*given)
                if not keeps(state, self._recorder):
                    raise NotRecorded
                return result

            return run

        def recorded(kept: Kept) -> tuple[Any, ...]:
            try:
                return record(kept, checked)
            except NotRecorded as error:
                self._check_kept(state, error)
                raise self._refused(what, parts) from None
            except Exception as error:  # the model may catch it, as if its way were chosen
                self._check_kept(state, error)
                refusal = UnsupportedError(f"{what}, and one of its {parts} fails: {error!r}")
                self._caught.note(error if isinstance(error, UnsupportedError) else refusal)
                raise

        return self._keeping(recorded)

    def _refused(self, what: str, parts: str) -> UnsupportedError:
        return refused(
            self._caught,
            f"{what}, and its {parts} give a variable values of several types or numbers of axes, or change something "
            "besides variables; compute both ways and choose with torch.where(…), or write it as torch.cond(…) or "
            "torch.while_loop(…)",
            NeedsNumberOfData,
        )


def _is_shared(values: list[Any], index: int) -> bool:
    """Whether others than ``values``, what a step has returned, may hold a list of this variable."""
    value = values[index]
    # One reference each is that of ``values``, of the variable and of the call.
    return (isinstance(value, MUTABLE) and sys.getrefcount(value) > 3) or shares_lists(value)
