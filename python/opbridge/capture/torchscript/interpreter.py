"""Runs graphs of TorchScript: their nodes as steps, with branches, loops and calls."""

from __future__ import annotations

import abc
import ctypes
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge.capture.source import line_of_frame
from opbridge.capture.torchscript import scalars, structures, tensors
from opbridge.capture.torchscript.branches import Truth, as_truth, logically, record_branch
from opbridge.capture.torchscript.lines import At, at, line_of
from opbridge.capture.torchscript.loops import fixed, record_loop
from opbridge.capture.torchscript.sizes import SizeTensor
from opbridge.capture.torchscript.structures import Part
from opbridge.capture.traced.bodies import NotRecorded
from opbridge.capture.traced.recorder import Recorder
from opbridge.errors import UnsupportedError
from opbridge.operator_names import name_in, without_overload
from opbridge.torch_compat.torchscript import Node, ScriptMethod, Value, function_named, graph_of, method_of
from opbridge.torch_compat.torchscript_texts import function_in, schema_line

Values = dict[int, Any]
_WITH_EFFECT = frozenset({"prim::SetAttr", "prim::PythonOp", "prim::RaiseException"})
# Nodes that pass bools on.
_KEEPING_TRUTHS = frozenset({"prim::TupleConstruct"})
_CALLS = frozenset({"prim::CallMethod", "prim::CallFunction"})


class Unknown(Exception):
    """A graph has a node that only TorchScript's own interpreter runs."""


class Interpreter:
    def __init__(self, call: Callable[[Any, Sequence[Any]], Any], recorder: Recorder) -> None:
        """``call`` runs functions and methods that have unknown nodes; it is not given the module."""
        self._call = call
        self.recorder = recorder
        self._programs: dict[int, tuple[Any, Program | None]] = {}

    def program_of(self, called: Any) -> Program:
        """Raises Unknown if there is an unknown node in the function or the method itself."""
        graph = called.graph
        key = id(graph)
        if key not in self._programs:
            try:
                program: Program | None = Program(called)
            except Unknown:
                program = None
            self._programs[key] = graph, program  # the graph lives as long as its id is a key
        found = self._programs[key][1]
        if found is None:
            raise Unknown
        return found

    def call(self, called: Any, arguments: Sequence[Any], path: str = "") -> Any:
        """Calls a function, or a method whose module, a Part, is the first argument."""
        try:
            program = self.program_of(called)
        except Unknown:
            self.refuse_effect()
            given = arguments[isinstance(called, ScriptMethod) :]
            return self._call(called, [self.decided(each) if type(each) is Truth else each for each in given])
        return self.run_part(program, arguments, path)

    def refuse_effect(self) -> None:
        """Call it before an effect that the body of a branch or a loop cannot have."""
        if self.recorder.in_body:
            raise NotRecorded

    def decided(self, condition: Any) -> Any:
        """The value of a bool in this run."""
        if type(condition) is Truth:
            self.refuse_effect()
        return bool(condition)

    def run_part(self, program: Program, arguments: Sequence[Any], path: str) -> Any:
        """``path`` is that of the module, which Scopes finds in this frame."""
        values = program.start(arguments)
        results = self.run(program.block, values)
        return results[0] if results else None

    def run(self, block: Block, values: Values) -> list[Any]:
        for step in block.steps:
            step.run(self, values)
            for value in step.unused:
                values.pop(value, None)
        return [values[result] for result in block.results]


class Program:
    """A function or a method as steps."""

    def __init__(self, called: Any) -> None:
        graph: Any = graph_of(called)
        self._graph = graph
        self.name = called.name
        self._constants: Values = {}
        self._parameters = _ids(graph.inputs())
        self.block = Block(self, graph.nodes(), (), _ids(graph.outputs()))

    def start(self, arguments: Sequence[Any]) -> Values:
        constants = {key: _constant(value) for key, value in self._constants.items()}
        return constants | dict(zip(self._parameters, arguments, strict=True))

    def add_constant(self, value: Any) -> None:
        self._constants[value.unique()] = value.toIValue()


def _constant(value: Any) -> Any:
    """Makes a SizeTensor of an integer tensor: torch.jit.trace records integers that compute sizes as tensors."""
    if not isinstance(value, torch.Tensor) or value.dim() or value.dtype != torch.int64 or not value.is_cpu:
        return value
    memory = ctypes.c_int64.from_address(value.data_ptr())  # item() would be seen as an operator of the model
    return SizeTensor(memory.value, value)


class Block:
    """Steps, with the ids of the values that the block takes (``parameters``) and returns (``results``)."""

    def __init__(
        self, program: Program, nodes: Iterator[Node], parameters: tuple[int, ...], results: tuple[int, ...]
    ) -> None:
        self.parameters = parameters
        self.results = results
        self.steps: list[Step] = []
        all_nodes = [*nodes]
        place = None
        for node in all_nodes:
            place = line_of(node, program.name) or place
            if node.kind() == "prim::Constant":
                program.add_constant(node.output())
            else:
                self.steps.append(_step_of(program, node, at(place)))
        self._find_unused()

    def used(self) -> set[int]:
        return {value for step in self.steps for value in step.used()}.union(self.results)

    def _find_unused(self) -> None:
        """Finds the values that each step uses last, whose memory is not needed after it."""
        own = {value for step in self.steps for value in step.outputs} - set(self.results)
        for step in reversed(self.steps):
            step.unused = own & {*step.used(), *step.outputs}
            own -= step.unused


class Step(abc.ABC):
    """A node: the ids of the values that it takes and makes."""

    unused: set[int]

    def __init__(self, node: Node, here: At) -> None:
        self.inputs = _ids(node.inputs())
        self.outputs = _ids(node.outputs())
        self.here = here

    def used(self) -> set[int]:
        return set(self.inputs)

    @abc.abstractmethod
    def run(self, interpreter: Interpreter, values: Values) -> None: ...

    def given(self, values: Values) -> list[Any]:
        return [values[value] for value in self.inputs]

    def keep(self, values: Values, results: Any) -> None:
        values.update(zip(self.outputs, results, strict=True))


class Computation(Step):
    def __init__(self, node: Node, here: At) -> None:
        super().__init__(node, here)
        function = _function_of(node)
        if function is None:
            raise Unknown
        self._function = function
        self._logic = without_overload(name_in(schema_line(node)))
        self._keeps_truths = node.kind() in _KEEPING_TRUTHS
        self._has_effect = node.kind() in _WITH_EFFECT or scalars.changes_its_argument(schema_line(node))
        self._makes_several = len(self.outputs) > 1 or node.kind() in structures.UNPACKING

    def run(self, interpreter: Interpreter, values: Values) -> None:
        given = self.given(values)
        if self._has_effect:
            interpreter.refuse_effect()
        result = self._of_truths(interpreter, given) if Truth in map(type, given) else NotImplemented
        if result is NotImplemented:
            result = self.here(self._function, given)
        if self._makes_several:
            self.keep(values, result)
        elif self.outputs:
            values[self.outputs[0]] = result

    def _of_truths(self, interpreter: Interpreter, given: list[Any]) -> Any:
        if self._keeps_truths:
            return NotImplemented
        result = self.here(logically, (self._logic, given))
        if result is NotImplemented:
            given[:] = [self.here(interpreter.decided, (each,)) for each in given]
        return result


class Call(Step):
    """A call of a method or of another compiled function."""

    def __init__(self, node: Node, here: At) -> None:
        super().__init__(node, here)
        given: Any = node
        self._method = given.s("name") if node.kind() == "prim::CallMethod" else None
        self._function = None
        if self._method is None:
            first, *_ = node.inputs()
            self._function = function_named(function_in(first))
            self.inputs = self.inputs[1:]
            if self._function is None:
                raise Unknown

    def run(self, interpreter: Interpreter, values: Values) -> None:
        given = self.given(values)
        called, path = self._function, ""
        if self._method is not None and not isinstance(given[0], Part):  # of torch.no_grad, which exists already
            self.keep(values, [None])
            return
        if self._method is not None:
            called, path = method_of(given[0].owner, self._method), given[0].path
        result = self.here(interpreter.call, (called, given, path))
        if self.outputs:
            values[self.outputs[0]] = result


class Branch(Step):
    def __init__(self, program: Program, node: Node, here: At) -> None:
        super().__init__(node, here)
        self._blocks = _blocks_of(program, node)

    def used(self) -> set[int]:
        return super().used().union(*(block.used() for block in self._blocks))

    def run(self, interpreter: Interpreter, values: Values) -> None:
        (condition,) = self.given(values)
        if type(condition) is torch.SymBool and interpreter.recorder.with_bodies:
            condition = self.here(as_truth, (condition,))
        results = self._recorded(interpreter, values, condition) if type(condition) is Truth else None
        if results is None:
            block = self._blocks[0 if self.here(interpreter.decided, (condition,)) else 1]
            results = interpreter.run(block, values)
        self.keep(values, results)

    def _recorded(self, interpreter: Interpreter, values: Values, condition: Truth) -> list[Any] | None:
        """Returns the results of a node with both blocks; None if this run executes one block instead."""
        recorder = interpreter.recorder
        if not self.here(recorder.records_branch_on, (condition.tensor,)):
            return None
        ways = [functools.partial(interpreter.run, block, values) for block in self._blocks]
        try:
            made: list[Any] = self.here(record_branch, (recorder, condition, ways))
            return made
        except NotRecorded:
            interpreter.refuse_effect()
            return None


class Loop(Step):
    def __init__(self, program: Program, node: Node, here: At) -> None:
        super().__init__(node, here)
        (self._body,) = _blocks_of(program, node)

    def used(self) -> set[int]:
        return super().used() | self._body.used()

    def run(self, interpreter: Interpreter, values: Values) -> None:
        count, goes_on, *carried = self.given(values)
        count, number = fixed(count), 0  # a count that stays a symbol is recorded or refused
        while True:
            results = self._recorded(interpreter, values, number, count, goes_on, carried)
            if results is not None:
                carried = results
                break
            if number >= count or not self.here(interpreter.decided, (goes_on,)):
                break
            goes_on, *carried = self._step(interpreter, values, [number, *carried])
            number += 1
        self.keep(values, carried)

    def _step(self, interpreter: Interpreter, values: Values, given: list[Any]) -> list[Any]:
        values.update(zip(self._body.parameters, given, strict=True))
        return interpreter.run(self._body, values)

    def _recorded(
        self, interpreter: Interpreter, values: Values, number: int, count: Any, goes_on: Any, carried: list[Any]
    ) -> list[Any] | None:
        """Returns the results of a node with the body; None if this run executes each step instead."""
        recorder, by_size = interpreter.recorder, torch.SymInt is type(count) or torch.SymBool is type(fixed(goes_on))
        by_data = type(goes_on) is Truth and self.here(recorder.records_branch_on, (goes_on.tensor,))
        if not by_size and not by_data:
            return None
        step = functools.partial(self._step, interpreter, values)
        try:
            if recorder.with_bodies:
                made: list[Any] = self.here(record_loop, (recorder, step, number, count, goes_on, carried))
                return made
        except NotRecorded:
            interpreter.refuse_effect()
        if type(count) is torch.SymInt:
            self.here(_refuse, (recorder.text_of(count),))
        return None


def _refuse(count: str) -> None:
    raise UnsupportedError(
        f"a loop of TorchScript runs '{count}' times, which depends on a dynamic size, and each step "
        "changes a list, a shape or something outside of the loop, which a loop of a graph cannot; compute with "
        "operators of tensors instead, or make the size constant",
        line_of_frame(sys._getframe(1)),
    )


def _step_of(program: Program, node: Node, here: At) -> Step:
    kind = node.kind()
    if kind == "prim::If":
        return Branch(program, node, here)
    if kind == "prim::Loop":
        return Loop(program, node, here)
    return Call(node, here) if kind in _CALLS else Computation(node, here)


def _function_of(node: Node) -> Callable[..., Any] | None:
    schema = schema_line(node)
    found = structures.function_of(node)
    if found is None and schema:
        found = scalars.function_of(schema) or tensors.function_of(schema)
    return found


def _blocks_of(program: Program, node: Node) -> list[Block]:
    blocks: Any = node.blocks()
    return [Block(program, block.nodes(), _ids(block.inputs()), _ids(block.outputs())) for block in blocks]


def _ids(values: Iterator[Value]) -> tuple[int, ...]:
    given: Any = values
    return tuple(value.unique() for value in given)
