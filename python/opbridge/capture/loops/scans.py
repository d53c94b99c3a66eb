"""Loops of symbolic length, as ``scan`` nodes of the program."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from opbridge.capture.loops.growth import Growth
from opbridge.capture.loops.iterables import Items
from opbridge.capture.loops.kept import keeps, state_of
from opbridge.capture.loops.lists import (
    ListOfNumbers,
    ListOfRows,
    Rows,
    Slots,
    UnreadList,
    frozen,
    is_of_numbers,
    note_copies,
    values_of_numbers,
)
from opbridge.capture.loops.parts import ListOfParts
from opbridge.capture.loops.rows import READABLE, AsTensors, item_like, list_as_tensors, resizing
from opbridge.capture.loops.runtime import Step
from opbridge.capture.loops.variables import (
    MUTABLE,
    Growing,
    Reads,
    Resizes,
    Variables,
    is_zero,
    run_with_lists,
    with_item,
)
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.asking import NeedsNumberOfData
from opbridge.capture.symbolic_sizes.bounds import note_step
from opbridge.capture.torchscript.branches import Truth, is_known, size_of_data
from opbridge.capture.torchscript.loops import BOOLS, Varies, as_tensor, check_alike, fixed, standing_for, take
from opbridge.capture.traced.bodies import Body, NotRecorded, WritesOutside
from opbridge.capture.traced.recorder import Recorder
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import DisableTorchFunction, is_fake, pytree, unset_fake_temporarily
from opbridge.torch_compat.symbols import FLOATS, INTEGERS, expression_of, forget_facts

_NAME = re.compile(r"\bz?uf?\d+\b|%operand_\d+")  # of a symbol that depends on data, or of an operand


class _Grows(NotRecorded):
    """A step appends to a list of the variable with this index."""

    def __init__(self, variable: int, grown: list[Any]) -> None:
        self.variable = variable
        self.grown = grown


class _Counts(NotRecorded):
    """A step changes the integer that is the leaf with this index."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Changes(NotRecorded):
    """A step changes the floating-point number or the bool that is the leaf with this index."""

    def __init__(self, index: int) -> None:
        self.index = index


class _Lengthens(NotRecorded):
    """A step makes the tensor that is the leaf with this index longer: ``by`` how much along each axis."""

    def __init__(self, index: int, by: list[Growth]) -> None:
        self.index = index
        self.by = by


class Loop(Variables):
    def __init__(
        self,
        recorder: Recorder,
        caught: Caught,
        items: Items,
        done: int,
        step: Step,
        values: Sequence[Any],
        shared: set[int],
        may_vary: bool,
    ) -> None:
        super().__init__(values)
        self.recorder = recorder
        self.caught = caught
        self.items = items
        env: Any = items.count.node.shape_env
        self.known = frozenset(env.var_to_range)
        self.done = done  # the number of steps that come before the node
        self.step = step
        self.shared = shared
        with recorder.pause(), DisableTorchFunction():
            self.state = state_of([step, items.get], values)  # before the steps of the node
        self.inside: dict[int, Any] = {}  # what stands for the leaves in the step
        self.counting: set[int] = set()  # the leaves that are integers which a step changes
        self.lengthened: dict[int, list[Growth]] = {}  # by how much each step does so, along each axis
        self.may_vary = may_vary
        self.varying: dict[int, set[int]] = {}  # the axes of leaves whose sizes steps change otherwise
        self.resized: set[int] = set()  # the leaves that stand for lists, and may vary

    @property
    def carried(self) -> list[int]:
        """The leaves of which each step may give the next one another value."""
        return [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor) or i in self.counting]

    @property
    def growing(self) -> list[int]:
        """The leaves that are lists which steps extend."""
        return [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, UnreadList) or self._is_whole(leaf)]

    @property
    def keeps_state(self) -> bool:
        """Whether the steps have changed nothing besides the variables and the program."""
        return keeps(self.state, self.recorder)

    def recorded(self) -> tuple[Any, ...]:
        while True:
            try:
                return self._recorded()
            except _Grows as found:
                if found.variable in self.shared:
                    raise
                self._let_grow([found.grown])
            except _Counts as found:
                self.counting.add(found.index)
            except _Changes as found:
                return self._with_tensor(self.variables[found.index])
            except _Lengthens as found:
                self.lengthened[found.index] = found.by
                self.varying.pop(found.index, None)
            except Resizes as found:
                return self._with_list(list_as_tensors(found, self, self.shared, self.known))
            except Varies as found:
                if not self.may_vary and found.index not in self.resized:
                    raise
                if self.lengthened.pop(found.index, None):
                    self.resized.discard(found.index)
                found.note_in(self.varying)
            except Reads as found:
                if found.loop is not self:
                    raise
                return self._with_recent(found.index, found.count)
            except NeedsNumberOfData as error:  # perhaps for an item of a list
                lists = [each for i, each in enumerate(self.values) if type(each) is list and i not in self.shared]
                if all(map(self._is_whole, lists)):
                    raise
                self.caught.forget(error)
                self._let_grow(lists)
            except WritesOutside as write:
                self.note_write(write, self.inside)

    def standing_for(self, leaf: int, done: torch.SymInt) -> Any:
        """An unknown value like the leaf has after ``done`` steps."""
        value = self.leaves[leaf]
        if leaf in self.lengthened:
            shape = [size + by.after(done) for size, by in zip(value.shape, self.lengthened[leaf], strict=True)]
            with self.recorder.pause():
                value = value.new_empty(shape)
        return standing_for(value, self.recorder, done.node.shape_env, self.varying.get(leaf, ()))

    def _let_grow(self, lists: Iterable[list[Any]]) -> None:
        """Takes the lists for such that grow, the items of which are no variables."""
        Variables.__init__(self, self.values, [*self.whole, *lists])
        self.counting, self.lengthened, self.varying = set(), {}, {}

    def _with_recent(self, index: int, count: int) -> tuple[Any, ...]:
        """Records the loop with the last ``count`` items of a list that grows as variables."""

        def step(item: Any, *given: Any) -> tuple[Any, ...]:
            own, last = given[:-count], given[-count:]
            growing = pytree.tree_leaves(own)[index]
            if not isinstance(growing, Growing):  # but a list that can be read
                return (*self.step(item, *own), *last)
            if len(growing.last) < count:
                growing.last = last
            return (*self.step(item, *own), *growing.latest()[-count:])

        value = self.leaves[index]
        items = value.pieces if isinstance(value, Slots) else [value[-1]] if isinstance(value, ListOfRows) else value
        if len(items) < count:
            raise NotRecorded
        loop = copy.copy(self)
        Variables.__init__(loop, [*self.values, *items[-count:]], self.whole)
        loop.step = step
        return loop.recorded()[:-count]

    def _with_list(self, lists: AsTensors) -> tuple[Any, ...]:
        """Records the loop with tensors for a list."""

        def step(item: Any, *given: Any) -> tuple[Any, ...]:
            return lists.step(functools.partial(self.step, item))(*given)

        loop = copy.copy(self)
        Variables.__init__(loop, lists.tensors(self.values), self.whole)
        loop.counting, loop.lengthened = set(), {}
        first = loop.variables.index(lists.index)
        loop.varying = {first + i: {axis} for i, axis in enumerate(lists.axes)}
        loop.resized = set(loop.varying)
        loop.step = step
        return lists.lists(loop.recorded())

    def _with_tensor(self, variable: int) -> tuple[Any, ...]:
        """Records the loop with a tensor, [] of float64 or bool, for a number or a bool that is a variable."""
        restored = torch.Tensor.item if type(self.values[variable]) in FLOATS else Truth

        def step(item: Any, *given: Any) -> tuple[Any, ...]:
            return with_item(self.step(item, *with_item(given, variable, restored)), variable, carried)

        def carried(value: Any) -> Any:
            return torch.scalar_tensor(value, dtype=torch.float64) if type(value) in FLOATS else as_tensor(value)

        if type(self.values[variable]) not in (*FLOATS, *BOOLS):
            raise NotRecorded
        loop = copy.copy(self)
        Variables.__init__(loop, with_item(self.values, variable, carried), self.whole)
        loop.step = step
        return with_item(loop.recorded(), variable, restored)

    def _use_the_same(self, step: _Step, again: _Step) -> bool:
        """Whether both steps use the same tensors from outside. Each makes its own constants, as by torch.tensor."""
        operands = [[tensor for tensor, _ in each.body.operands] for each in (step, again)]
        with self.recorder.pause(), DisableTorchFunction(), unset_fake_temporarily():
            return len(operands[0]) == len(operands[1]) and all(map(_is_the_same, *operands))

    def _recorded(self) -> tuple[Any, ...]:
        recorder, count = self.recorder, self.items.count - self.done
        names = recorder.names
        step = _Step(self, count)
        if not self.keeps_state:  # the next step may undo it
            raise NotRecorded
        after_step, recorder.names = recorder.names, names
        try:
            again = _Step(self, count)
        except Exception as error:
            self.caught.forget(error)
            raise NotRecorded from error
        finally:
            recorder.names = after_step
        if step.text != again.text or not self._use_the_same(step, again) or not self.keeps_state:
            raise NotRecorded  # it changes something besides the variables
        carried = self.carried
        outside = [*self.leaves, *(tensor for tensor, _ in step.body.operands)]
        if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in outside):
            raise UnsupportedError("a loop over a dynamic axis has no gradients; make the size constant")
        values = [recorder.value_of(self.leaves[i]) for i in carried]
        slices = [recorder.value_of(torch.arange(count))]
        values_outside = [value for _, value in step.body.operands]
        after = [self.standing_for(i, count) for i in carried]
        with recorder.pause():
            rows = {i: [_rows_of(each, count) for each in items] for i, items in step.appended.items()}
        recorder.call_bodies(
            "scan", (step.graph, values, slices, values_outside), [*after, *itertools.chain(*rows.values())]
        )
        results = dict(zip(carried, after, strict=True))
        pairs = [(now, self.leaves[i]) for i, now in step.inside.items()]
        pairs += [(step.after[i], now) for i, now in results.items() if step.after[i] is not step.inside[i]]
        pairs += itertools.chain(*(zip(items, rows[i], strict=True) for i, items in step.appended.items()))
        recorder.note_shared(step.body, pairs)
        for i in self.written:
            self.leaves[i].copy_(results.pop(i))
        lists = {
            i: _extended(self.leaves[i], added, i in step.at_front, i in step.of_numbers)
            for i, added in rows.items()
            if added
        }
        after_loop = self.with_leaves(results | lists)
        return tuple(after_loop[i] if i in step.changed else before for i, before in enumerate(self.values))


class _Step:
    """One step, recorded into a body. ``appended`` are the tensors that it appends to the lists that grow."""

    def __init__(self, loop: Loop, count: Any) -> None:
        self._loop = loop
        self._count = count
        recorder, env = loop.recorder, count.node.shape_env
        self.body = Body()
        self.appended: dict[int, list[torch.Tensor]] = {}
        self.at_front: set[int] = set()
        self.of_numbers: set[int] = set()  # the lists of Python numbers
        self._known = frozenset(env.var_to_range)
        index = size_of_data(env)  # not that it is below the count: torch would infer that the count is above 0
        before = {i: loop.standing_for(i, index) for i in loop.carried}
        self.inside = loop.inside = before
        with recorder.enter(self.body), forget_facts(env):
            take(recorder, [*before.values(), index])
            note_step(index, count)
            self._number = index
            self._own = {i: before[i].clone() for i in loop.written}
            before = before | self._own
            recorder.note_standing(before.values())
            self._growing = {i: self._list(i, index) for i in loop.growing}
            given = loop.given = loop.with_leaves(before | self._growing)
            lists = [[(each, list(each)) for each in loop.lists_in(one)] for one in given]
            step = functools.partial(loop.step, loop.items.get(index + loop.done))
            results = run_with_lists(step, given)
            after = self.after = self._leaves_of(results, given, lists)
            self.changed = {
                loop.variables[i] for i, now in enumerate(after) if now is not before.get(i, loop.leaves[i])
            }
            self.changed |= {loop.variables[i] for i, items in self.appended.items() if items}
            self._check(before, after)
            for i in loop.carried:
                recorder.give(after[i])
            for each in itertools.chain(*self.appended.values()):
                recorder.give(each)
        self.graph = self.body.builder.finish()
        self.text = _with_names_in_order(str(self.graph))

    def _list(self, leaf: int, index: torch.SymInt) -> Growing:
        """Stands for a list before the step with this index."""
        value = self._loop.leaves[leaf]
        if isinstance(value, Slots):
            return Growing(self._loop, leaf, value.pieces, len(value.pieces) + index, value.capacity)
        if isinstance(value, ListOfParts):
            raise resizing(value, value)
        if not isinstance(value, READABLE):
            return Growing(self._loop, leaf, value, len(value) + index)
        with self._loop.recorder.pause():
            like = [item_like(value)]
        first = value.first if isinstance(value, ListOfRows) else ()
        return Growing(self._loop, leaf, first, value.length + index, like=like)

    def _leaves_of(self, results: Sequence[Any], given: Sequence[Any], lists: Sequence[Any]) -> list[Any]:
        """The leaves of the variables after the step. ``lists`` are those of each variable, with their items before."""
        after: list[Any] = []
        for i, (result, before) in enumerate(zip(results, given, strict=True)):
            leaves, structure = pytree.tree_flatten(result)
            if structure != self._loop.structures[i]:
                originals = self._loop.lists_in(self._loop.values[i])
                for original, (one, items) in zip(originals, lists[i], strict=True):
                    now = result if one is before else one
                    if type(now) is list and len(now) > len(items) and _is_extended(now, items):
                        raise _Grows(i, original)
                if type(before) is list and isinstance(result, READABLE):
                    raise resizing(before, result)
                raise NotRecorded
            after += leaves
        for i, growing in self._growing.items():
            if isinstance(after[i], READABLE):
                raise resizing(growing, after[i])
            if after[i] is not growing:
                growing.refuse()
            self.appended[i] = list(map(_as_tensor, growing.items()))
            if growing.has_numbers():
                self.of_numbers.add(i)
            slots = self._loop.leaves[i]
            if isinstance(slots, Slots) and self.appended[i]:
                left: Any = slots.capacity - len(slots.pieces) - self._count
                if not is_zero(left):
                    raise NotRecorded
            self.at_front |= {i} if growing.at_front else set()
            after[i] = self._loop.leaves[i]
        return after

    def _check(self, before: Mapping[int, Any], after: Sequence[Any]) -> None:
        """Raises NotRecorded unless the next step can begin with these leaves."""
        loop = self._loop
        for i, (leaf, now) in enumerate(zip(loop.leaves, after, strict=True)):
            if i in loop.written and now is not self._own[i]:
                raise NotRecorded
            are_integers = i not in before and type(leaf) in INTEGERS and type(now) in INTEGERS
            if are_integers and expression_of(now) != expression_of(leaf):
                raise _Counts(i)
            are_floats = i not in before and type(leaf) in FLOATS and type(now) in FLOATS
            if are_floats and expression_of(now) != expression_of(leaf):
                raise _Changes(i)
            if i not in before and type(leaf) in BOOLS and type(now) in BOOLS and now is not leaf:
                raise _Changes(i)
            by = self._lengthening(before.get(i, leaf), now)
            if by and by == loop.lengthened.get(i):
                continue
            if by and i not in loop.lengthened and (i not in loop.varying or i in loop.resized):
                raise _Lengthens(i, by)
            check_alike(i, before.get(i, leaf), now, loop.varying.get(i, set()))
        for i, items in self.appended.items():
            for each in items:
                self._check_appended(i, each, items[0])
        appended = list(itertools.chain(*self.appended.values()))
        if any(isinstance(loop.values[i], MUTABLE) for i in self.changed & loop.shared):
            raise NotRecorded
        others = [now for i, now in enumerate(after) if i not in loop.written]
        operands = [tensor for tensor, _ in self.body.operands]
        loop.check_writes(self._own, others + appended, operands, loop.recorder.is_perhaps_shared)

    def _check_appended(self, list_index: int, item: Any, first: Any) -> None:
        """Raises NotRecorded unless each step can append an item like this one to the list that is a leaf, after or
        before an item like the ``first``."""
        if not isinstance(item, torch.Tensor) or not isinstance(first, torch.Tensor):
            raise NotRecorded
        if item.dtype != first.dtype or item.dim() != first.dim():
            raise NotRecorded
        differing = [
            i
            for i, (size, other) in enumerate(zip(item.shape, first.shape, strict=True))
            if not is_known(size, self._known) or expression_of(size) != expression_of(other)
        ]
        if len(differing) == 1 and not isinstance(self._loop.leaves[list_index], READABLE):
            raise Resizes(self._growing[list_index], item, differing[0])
        if differing:
            raise NotRecorded

    def _lengthening(self, before: Any, now: Any) -> list[Growth] | None:
        """How much longer a tensor is along each axis; None if it is not a tensor with the same axes that is."""
        if not isinstance(before, torch.Tensor) or not isinstance(now, torch.Tensor):
            return None
        if now.dtype != before.dtype or now.dim() != before.dim():
            return None
        by = [fixed(after - size) for after, size in zip(now.shape, before.shape, strict=True)]
        if all(type(each) is int and each == 0 for each in by):
            return None
        try:
            return [Growth(each, self._number, self._known) for each in by]
        except ValueError:
            return None


def _is_extended(items: list[Any], before: list[Any]) -> bool:
    """Whether items follow those before, or precede them."""
    return all(map(operator.is_, items, before)) or all(map(operator.is_, items[::-1], before[::-1]))


def _rows_of(item: torch.Tensor, count: torch.SymInt) -> torch.Tensor:
    return torch.empty((count, *item.shape), dtype=item.dtype, device=item.device)


def _extended(before: list[Any], rows: Sequence[torch.Tensor], at_front: bool, of_numbers: bool) -> Any:
    """The list with what the steps add to it, each step one of each of ``rows``."""
    added = rows[0] if len(rows) == 1 else torch.stack(list(rows), 1).flatten(0, 1)
    added = added.flip(0) if at_front else added
    if added is not rows[0]:
        note_copies.get()([added, *rows])
    own = before.pieces if isinstance(before, Slots) else before
    own = frozen(own) if type(own) is list else own
    made = ListOfNumbers(added) if of_numbers else ListOfRows([Rows(added)])
    return made + own if at_front else own + made


def _as_tensor(item: Any) -> Any:
    """An item of a list, as a tensor if it is a number or a tuple of numbers."""
    return values_of_numbers([item])[0] if is_of_numbers(item) else item


def _is_the_same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the tensors are one, or constants of the same elements."""
    if tensor is other or is_fake(tensor) or is_fake(other) or tensor.dtype != other.dtype:
        return tensor is other
    return torch.equal(tensor, other)


def _with_names_in_order(text: str) -> str:
    """The text with the operands, and the symbols of sizes that depend on data, numbered in their order."""
    numbers: dict[str, str] = {}
    return _NAME.sub(lambda found: numbers.setdefault(found.group(), f"u{len(numbers)}"), text)
