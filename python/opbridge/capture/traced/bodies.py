"""Bodies of branches and loops that a recorder fills beside the graph."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.operators import Operator
from opbridge.capture.program import Result, Sizes, argument_names, describe, note_layout, returned
from opbridge.capture.source import Scopes, line_of_frame
from opbridge.capture.state.overwritten_tensors import written_tensors
from opbridge.capture.state.real_tensors import memory_of
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import has_memory
from opbridge.torch_compat.fake_tensors import mode_of_fakes
from opbridge.torch_compat.symbols import restore_ranges


class NotRecorded(BaseException):
    """A body has an effect besides its results, or results that a graph cannot represent. Not an Exception, which the
    model might catch."""


class WritesOutside(NotRecorded):
    """A body writes to ``tensor``, which was not made in it."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


@dataclasses.dataclass(eq=False)
class Body:
    """What a recorder knows inside of a body: the state that it exchanges when it enters the body.

    ``operands`` are the tensors from outside that the body uses, in the order of its inputs, with their values there.
    """

    builder: _core.ProgramBuilder = dataclasses.field(default_factory=_core.ProgramBuilder)
    known: dict[int, Any] = dataclasses.field(default_factory=dict)
    by_memory: dict[int, Any] = dataclasses.field(default_factory=dict)
    operands: list[tuple[torch.Tensor, _core.ProgramValue]] = dataclasses.field(default_factory=list)
    taken: set[int] = dataclasses.field(default_factory=set)  # the memory of its inputs
    outer: Body | None = None


class WithBodies(abc.ABC):
    """The part of a recorder that fills bodies."""

    _builder: _core.ProgramBuilder
    _known: dict[int, Any]
    _by_memory: dict[int, Any]
    _sizes: Sizes
    _scopes: Scopes
    _varies: bool

    def __init__(self, with_bodies: bool) -> None:
        self._with_bodies = with_bodies
        self._body: Body | None = None  # the body that the recorder is in
        self._pausing = False
        self.interruption: BaseException | None = None
        # Memory that other tensors may share in eager mode → all such memory, with one of the tensors in it.
        self._perhaps_shared: dict[int, dict[int, torch.Tensor]] = {}
        self._standing: dict[int, weakref.ref[torch.Tensor]] = {}

    def note_standing(self, tensors: Iterable[Any]) -> None:
        """Notes tensors that stand for others, as those of a variable do in a step of a loop and after it."""
        self._standing |= {id(each): weakref.ref(each) for each in tensors if isinstance(each, torch.Tensor)}

    def stands_for_others(self, tensor: torch.Tensor) -> bool:
        """Whether which tensor this is depends on the steps of a loop or on the way of a branch."""
        found = self._standing.get(id(tensor))
        return found is not None and found() is tensor

    def interrupt(self, interruption: BaseException) -> BaseException:
        """Stores an exception by which an operator ends the run: TorchScript's own interpreter would replace it."""
        self.interruption = interruption
        return interruption

    @property
    def with_bodies(self) -> bool:
        return self._with_bodies

    @property
    def in_body(self) -> bool:
        return self._body is not None

    @property
    def operands(self) -> list[torch.Tensor]:
        """The tensors from outside that the body which is being recorded uses so far."""
        return [] if self._body is None else [tensor for tensor, _ in self._body.operands]

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is of what is being recorded, or of what is around that."""
        known, body = [self._known], self._body
        while body is not None and body.outer is not None:
            known.append(body.outer.known)
            body = body.outer.outer
        return any(id(tensor) in each and each[id(tensor)][0]() is tensor for each in known)

    @contextlib.contextmanager
    def enter(self, body: Body) -> Iterator[None]:
        """Records into ``body``. Tensors from outside become its operands. What the body needs of sizes holds in it
        alone, as it may not run."""
        body.outer = Body(self._builder, self._known, self._by_memory, outer=self._body)
        outermost = self._body
        self._builder, self._known, self._by_memory, self._body = body.builder, body.known, body.by_memory, body
        mode = mode_of_fakes()
        try:
            with contextlib.nullcontext() if mode is None or mode.shape_env is None else restore_ranges(mode.shape_env):
                yield
        finally:
            state = body.outer
            self._builder, self._known, self._by_memory = state.builder, state.known, state.by_memory
            self._body = outermost

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Runs operators that are not part of the program."""
        self._pausing = True
        try:
            yield
        finally:
            self._pausing = False

    def take(self, tensor: torch.Tensor, varies: bool = True) -> tuple[_core.ProgramValue, bool]:
        """Makes the tensor an input of the body."""
        value = self._builder.input(self._unique("operand"), tensor.dtype, self._sizes.shape(tensor.shape))
        note_layout(self._builder, value, tensor, self._sizes)
        self._bind(tensor, value, varies)
        if self._body is not None and has_memory(tensor):
            self._body.taken.add(memory_of(tensor))
        return value, varies

    def take_number(self, number: torch.SymInt) -> None:
        self._builder.input(self._unique("operand"), torch.int64, self._sizes.dim(number))

    def give(self, result: Any) -> None:
        """Makes a tensor or an integer an output of the body."""
        if isinstance(result, torch.Tensor):
            names, made = ("self", "memory_format"), [(self._unique("result"), result.dtype, self._shape_of(result))]
            value = self._builder.call("aten::clone", names, (self._value_of(result), None), {}, made, "", "")[0]
        else:
            value = self.value_of(result)
        self._builder.output(value, "")

    def yield_both(self, number: Any, flag: torch.Tensor) -> None:
        """Makes an output of the body that is true if ``flag`` is, and ``number`` (a bool) too unless it is None."""
        if number is None:
            return self.give(flag)
        made = [(self._unique("both"), torch.bool, ())]
        arguments = (self.value_of(number), self._value_of(flag))
        value = self._builder.call("aten::logical_and", ("self", "other"), arguments, {}, made, "", "")[0]
        self._builder.output(value, "")

    def value_of(self, value: Any) -> _core.ProgramValue:
        """The value of a tensor, or of a number as a tensor."""
        return returned(self._builder, value, self._resolve(value), self._unique("number"))

    def lift(self, body: Body, tensor: torch.Tensor) -> tuple[_core.ProgramValue, bool]:
        """Makes a tensor from outside an operand of ``body``, the one that is being recorded."""
        outer = body.outer
        assert outer is not None
        inner = self._builder, self._known, self._by_memory, self._body
        self._builder, self._known, self._by_memory = outer.builder, outer.known, outer.by_memory
        self._body = outer.outer
        try:
            before, self._varies = self._varies, False
            value = self._value_of(tensor)
            varies, self._varies = self._varies, before
        finally:
            self._builder, self._known, self._by_memory, self._body = inner
        body.operands.append((tensor, value))
        return self.take(tensor, varies)

    def call_bodies(self, name: str, arguments: Sequence[Any], made: Sequence[Any]) -> None:
        """Adds a node that has bodies; ``made`` stands for its results."""
        results: list[Result] = []
        self.note_standing(made)
        describe(self._unique(name), list(made), self._sizes, results)
        frame = sys._getframe(1)
        names = argument_names(arguments)
        scope, line = self._scopes.of_frame(frame), line_of_frame(frame)
        outputs = self._builder.call(f"higher_order::{name}", names, arguments, {}, results, scope, line)
        self._bind_all(made, iter(outputs), varies=True, written=False)

    def note_shared(self, body: Body, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Records which tensors may share memory after a node with ``body``. The pairs are a tensor in the body, which
        it is given or makes, and the one outside that stands for it; its operands stand for themselves."""
        by_memory: dict[int, list[torch.Tensor]] = {}
        for inside, outside in (*((operand, operand) for operand, _ in body.operands), *pairs):
            if isinstance(inside, torch.Tensor) and isinstance(outside, torch.Tensor) and has_memory(inside):
                memory = memory_of(inside)
                for each in self._perhaps_shared.get(memory, (memory,)):  # by a node in the body
                    by_memory.setdefault(each, []).append(outside)
        for tensors in by_memory.values():
            if any(tensor is not tensors[0] for tensor in tensors):
                self.note_perhaps_shared(tensors)

    def note_perhaps_shared(self, tensors: Sequence[torch.Tensor]) -> None:
        """Records that a later write to one of the tensors may be one to the others in eager mode."""
        shared = {memory_of(each): each for each in tensors if has_memory(each)}
        for memory in list(shared):
            shared |= self._perhaps_shared.get(memory, {})
        self._perhaps_shared |= dict.fromkeys(shared, shared)

    def is_perhaps_shared(self, tensor: torch.Tensor) -> bool:
        return has_memory(tensor) and memory_of(tensor) in self._perhaps_shared

    def forget_shared(self) -> Callable[[torch.Tensor], bool]:
        """Returns ``is_perhaps_shared`` as it is at the end of the model's run. Later writes are not checked for it."""
        shared, self._perhaps_shared = self._perhaps_shared, {}
        return lambda tensor: has_memory(tensor) and memory_of(tensor) in shared

    def _shape_of(self, tensor: torch.Tensor) -> Any:
        return self._sizes.shape(tensor.shape)

    def _check_writes(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not operator.written:
            return
        named = dict(zip(operator.names, args, strict=False)) | kwargs
        of_statistics = all(name.startswith("running_") for name in operator.written)
        if of_statistics and not (named.get("training") or named.get("use_input_stats")):
            return
        written = list(written_tensors(operator, args, kwargs))
        for tensor in written if self._body else ():
            if not self._is_made_inside(tensor):
                raise WritesOutside(tensor)
        if any(map(self.is_perhaps_shared, written)):
            raise UnsupportedError(
                "the model writes to a tensor that a branch or a loop returns unchanged, or to an item of a list that "
                "a loop fills; clone() it before",
                line_of_frame(sys._getframe(2)),
            )

    def _is_made_inside(self, tensor: torch.Tensor) -> bool:
        """Whether the body has made the memory of the tensor."""
        if self._body is None or not has_memory(tensor):
            return False
        return memory_of(tensor) in self._by_memory.keys() - self._body.taken

    @abc.abstractmethod
    def _unique(self, stem: str) -> str: ...

    @abc.abstractmethod
    def _resolve(self, argument: Any) -> Any: ...

    @abc.abstractmethod
    def _value_of(self, tensor: torch.Tensor) -> _core.ProgramValue: ...

    @abc.abstractmethod
    def _bind(self, tensor: torch.Tensor, value: _core.ProgramValue, varies: bool) -> None: ...

    @abc.abstractmethod
    def _bind_all(self, made: Any, outputs: Iterator[_core.ProgramValue], varies: bool, written: bool) -> None: ...
