"""Converts the graph of an ExportedProgram to opbridge's.

A size becomes a Dim wherever it is used, not a value, and the nodes that compute it are left out. A node that makes a
new number (``aten::item``) stays, and its output names the number. Floating-point and boolean numbers are values.
Assertions are left out. Regions that only switch gradients, disable autocast or mark a part of the model are replaced
by their bodies. A number that the program returns or passes to a body goes through
``aten::scalar_tensor``; None is not returned.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from opbridge import _core
from opbridge.capture.autograd_function.calls import key_in_graph
from opbridge.capture.exported.autocast import casts
from opbridge.capture.exported.bodies import attribute_of, region_of
from opbridge.capture.operators import Operator, is_assignment_of_data, operator_of
from opbridge.capture.program import (
    NUMBER,
    Result,
    Sizes,
    WrappedWeight,
    argument_names,
    describe,
    layout_of_strided,
    note_layout,
    own_generator_refusal,
    refuse_sparse_input,
    returned,
    weight_of,
    without_nested_lists,
    without_own_device,
)
from opbridge.capture.source import line_of_stack_trace, location_of_stack_trace, scope_of_stack
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
from opbridge.capture.symbolic_sizes.squeeze import check_squeeze, is_squeeze
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import HigherOrderOperator, OpOverload, name_of

_NUMBERS = (int, float, bool)


def bridge(
    exported: torch.export.ExportedProgram, sizes: Sizes | None = None, parameters_are_kept: bool = True
) -> _core.Graph:
    """``sizes`` renames the symbols of the program, for example ``s77`` to ``batch``.

    Unless ``parameters_are_kept``, data that the program assigns to a parameter is discarded after the run: the graph
    uses the new value from then on, and does not write to the original parameter."""
    return _Bridge(exported, sizes or Sizes(), parameters_are_kept).run()


class _Bridge:
    def __init__(self, exported: torch.export.ExportedProgram, sizes: Sizes, parameters_are_kept: bool) -> None:
        self._passing: set[Any] | None = None if parameters_are_kept else set()  # parameters
        self._exported = exported
        self._sizes = sizes
        self._builder = self._outermost = _core.ProgramBuilder()
        sizes.compute_with(self._emit_number)
        self._lines: dict[str, str] = {}
        self._numbers = self._constants = 0
        self._weight_names: dict[int, str] = {}  # tied weights get the first of their names
        for name, tensor in exported.state_dict.items():
            self._weight_names.setdefault(id(tensor), name)
        # The result of each node: a value, a Dim, a Python constant, or a list of these.
        self._values: dict[torch.fx.Node, Any] = {}

    def run(self) -> _core.Graph:
        specs = iter(self._exported.graph_signature.input_specs)
        for node in self._exported.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, next(specs))
            elif node.op == "call_function":
                self._call_function(node)
            elif node.op == "output":
                self._outputs(node)
        return self._builder.finish()

    def _placeholder(self, node: torch.fx.Node, spec: torch.export.graph_signature.InputSpec) -> None:
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(spec.arg, ConstantArgument):
                self._values[node] = spec.arg.value
            else:
                self._values[node] = self._input(node)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            if self._passing is not None and spec.kind is InputKind.PARAMETER:
                self._passing.add(node)
            if node.users:
                self._values[node] = self._weight(spec)
        elif spec.kind is InputKind.TOKEN:
            self._values[node] = None
        elif node.users:
            drawing: Any = next(iter(node.users))
            if isinstance(self._exported.constants.get(spec.target or ""), torch.Generator):
                line = line_of_stack_trace(drawing.meta.get("stack_trace") or "")
                raise own_generator_refusal(operator_of(drawing.target).key, line)
            raise UnsupportedError(f"the model uses '{spec.target}', a {spec.kind.name}, which is not a tensor")

    def _input(self, node: torch.fx.Node) -> Any:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            refuse_sparse_input(node.name, value)
            made = self._builder.input(node.name, value.dtype, self._sizes.shape(value.shape))
            note_layout(self._builder, made, value, self._sizes)
            return made
        if not isinstance(value, torch.SymInt):
            raise UnsupportedError(
                f"the input '{node.name}' is of the unsupported type {type(value).__name__}; pass tensors"
            )
        dim = self._sizes.dim(value)
        self._builder.input(node.name, torch.int64, dim)
        return dim

    def _weight(self, spec: torch.export.graph_signature.InputSpec) -> Any:
        name = str(spec.target)
        stored: dict[str, torch.Tensor] = self._exported.state_dict
        tensor = stored[name] if name in stored else self._exported.constants[name]
        return weight_of(self._builder, self._weight_names.get(id(tensor), name), tensor)

    def _outputs(self, node: torch.fx.Node) -> None:
        values: list[_core.ProgramValue] = []
        results: Any = node.args[0]
        for argument, spec in zip(results, self._exported.graph_signature.output_specs, strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                if argument is not None:
                    values.append(self._returned(argument, len(values)))
            elif spec.kind in _MUTATIONS:
                target = self._target_of(spec)
                copied = (f"{argument.name}.copied", argument.meta["val"])
                self._emit(node, "aten::copy_", ("self", "src"), (target, argument), {}, copied)
            elif spec.kind is not OutputKind.TOKEN:
                raise UnsupportedError("the program returns gradients; export only the forward pass")
        for value in values:
            self._builder.output(value, "")

    def _returned(self, argument: Any, index: int) -> _core.ProgramValue:
        result = argument.meta["val"] if isinstance(argument, torch.fx.Node) else argument
        return returned(self._builder, result, self._resolve(argument), f"number_{index}")

    def _target_of(self, mutation: torch.export.graph_signature.OutputSpec) -> Any:
        """The input or buffer whose new value the program returns; such a program has no in-place operators."""
        for node, spec in zip(self._exported.graph.nodes, self._exported.graph_signature.input_specs, strict=False):
            if mutation.target in (spec.target, spec.arg.name):
                if node not in self._values:
                    self._values[node] = self._weight(spec)
                return self._values[node]
        raise UnsupportedError(f"the program changes '{mutation.target}', which is neither an input nor a buffer of it")

    def _call_function(self, node: torch.fx.Node) -> None:
        try:
            self._call(node)
        except UnsupportedError as error:
            raise UnsupportedError(error.message, error.where or self._line(node)) from error

    def _call(self, node: torch.fx.Node) -> None:
        target = node.target
        if target is operator.getitem:
            self._values[node] = self._resolve(node.args[0])[node.args[1]]
            return
        if isinstance(target, OpOverload):
            called = operator_of(target)
            if _core.is_assertion(called.key):
                return
            if is_assignment_of_data(node):
                return self._assign_data(node)
            if is_access_to_inner(node):
                wrapped: Any = node.args[0]
                self._values[node] = self._values[wrapped].inner(self._builder, node.args[1])
                return
            if self._is_known_number(node):
                return
            self._values[node] = self._call_operator(node, called, node.args, node.meta.get("val"))
        elif isinstance(target, HigherOrderOperator):
            self._higher_order(node, name_of(target))
        elif not self._is_known_number(node):
            module = getattr(target, "__module__", "python")
            names = argument_names(node.args)
            made = (node.name, node.meta.get("val"))
            key = f"{module}::{getattr(target, '__name__', target)}"
            self._values[node] = self._emit(node, key, names, node.args, node.kwargs, made)

    def _assign_data(self, node: torch.fx.Node) -> None:
        tensor: Any = node.args[0]
        if self._passing is not None and tensor in self._passing:
            self._values[tensor] = self._resolve(node.args[1])
        else:
            self._emit(node, "aten::set_data", ("self", "new_data"), node.args, {}, (node.name, None))

    def _call_operator(self, node: torch.fx.Node, called: Operator, args: tuple[Any, ...], value: Any) -> Any:
        arguments: Sequence[Any] = args
        made, kwargs = (node.name, value), without_nested_lists(called.key, node.kwargs)
        key = key_in_graph(called, args)
        _check_squeeze(node, called, args, self._sizes)
        if args and isinstance(args[0], torch.fx.Node):
            tensor = args[0].meta.get("val")
            kwargs = kwargs | layout_of_strided(called.key, tensor, self._sizes)
            key, arguments, kwargs = without_own_device(key, called.names, tensor, args, kwargs)
        return self._emit(node, key, called.names, arguments, kwargs, made)

    def _is_known_number(self, node: torch.fx.Node) -> bool:
        """Whether the node makes a number that becomes a Dim or a constant wherever it is used."""
        value = node.meta.get("val")
        is_no_size = isinstance(value, (torch.SymFloat, torch.SymBool)) or node.target is torch.sym_ite
        if isinstance(value, torch.SymInt) and not is_no_size and not node.meta.get("unbacked_bindings"):
            self._values[node] = self._sizes.dim(value)
        elif isinstance(value, _NUMBERS) and not node.meta.get("unbacked_bindings"):
            self._values[node] = value
        elif is_no_size and not any(map(_matters, node.users)):
            self._values[node] = None
        else:
            return False
        return True

    def _emit(
        self,
        node: torch.fx.Node,
        key: str,
        names: tuple[str, ...],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        made: tuple[str, Any],
    ) -> Any:
        name, value = made
        resolve = self._resolve
        results: list[Result] = []
        describe(name, value, self._sizes, results)
        outputs = self._builder.call(
            key,
            names,
            [resolve(arg) for arg in args],
            {name: resolve(arg) for name, arg in kwargs.items()} if kwargs else kwargs,
            results,
            scope_of_stack(node.meta.get("nn_module_stack")),
            self._line(node),
        )
        return self._outputs_of(value, iter(outputs))

    def _emit_number(
        self, key: str, arguments: tuple[Any, ...], dtype: torch.dtype, size: _core.Dim = NUMBER
    ) -> _core.ProgramValue:
        """Adds a node outside of all bodies, so that all later nodes can use the number."""
        self._numbers += 1
        names = argument_names(arguments)
        result = (f"number_of_sizes_{self._numbers}", dtype, size)
        return self._outermost.call(key, names, arguments, {}, [result], "", "")[0]

    def _outputs_of(self, value: Any, outputs: Iterator[_core.ProgramValue]) -> Any:
        """Replaces torch's values in ``value`` by those of the graph."""
        if isinstance(value, (list, tuple)):
            return [self._outputs_of(element, outputs) for element in value]
        if value is None:
            return None
        output = next(outputs)
        if isinstance(value, torch.SymFloat) and self._builder is self._outermost:  # where _emit_number adds nodes
            self._sizes.read[value.node.expr] = lambda: output
        return self._sizes.dim(value) if isinstance(value, torch.SymInt) else output

    def _resolve(self, argument: Any) -> Any:
        kind = type(argument)
        if kind is torch.fx.Node:
            value = self._values[argument]
            if type(value) is WrappedWeight:
                value.refuse()
            return value
        if isinstance(argument, (list, tuple)):
            return [self._resolve(item) for item in argument]
        return argument

    def _line(self, node: torch.fx.Node) -> str:
        trace = node.meta.get("stack_trace") or ""
        if trace not in self._lines:
            self._lines[trace] = line_of_stack_trace(trace)
        return self._lines[trace]

    def _higher_order(self, node: torch.fx.Node, name: str) -> None:
        if (region := region_of(node)) is not None:
            if casts(node):
                raise UnsupportedError(
                    "the casts of torch.autocast are not in the program; export program.run_decompositions({}), "
                    "which has them",
                    self._line(node),
                )
            self._values[node] = self._inline(*region)
            return
        if name == "with_effects":
            self._values[node] = self._with_effects(node)
            return
        arguments = tuple(self._argument(argument) for argument in _with_bodies_apart(node.args))
        names = argument_names(arguments)
        made = (node.name, node.meta.get("val"))
        self._values[node] = self._emit(node, f"higher_order::{name}", names, arguments, node.kwargs, made)

    def _with_effects(self, node: torch.fx.Node) -> list[Any]:
        """Calls an operator that takes and returns tokens. These only order the calls, which are ordered in a graph."""
        given: Any = node.args
        _, target, *args = given
        called = operator_of(target)
        _, *results = node.meta["val"]
        if _core.is_assertion(called.key) or all(result is None for result in results):
            return [None]
        single = len(results) == 1
        outputs = self._call_operator(node, called, tuple(args), results[0] if single else results)
        return [None, outputs] if single else [None, *outputs]

    def _argument(self, argument: Any) -> Any:
        """Converts an argument: a body becomes a graph, and a number that is passed to a body becomes a value."""
        if _is_body(argument):
            return self._body(argument)
        if not isinstance(argument, (list, tuple)):
            return argument
        operands: list[Any] = []
        for operand in argument:
            value = operand.meta["val"] if isinstance(operand, torch.fx.Node) else operand
            is_tensor = isinstance(value, torch.Tensor)
            operands.append(self._resolve(operand) if is_tensor else self._number(value, self._resolve(operand)))
        return operands

    def _number(self, number: Any, value: Any) -> _core.ProgramValue:
        self._numbers += 1
        return returned(self._builder, number, value, f"operand_{self._numbers}")

    def _body(self, body: torch.fx.Node) -> _core.Graph:
        """A subgraph; everything that it uses is one of its inputs, except for constants."""
        outer, self._builder = self._builder, _core.ProgramBuilder()
        try:
            for node in attribute_of(body).graph.nodes:
                if node.op == "placeholder":
                    self._values[node] = self._input(node)
                elif node.op == "get_attr":
                    self._attribute(node)
                elif node.op == "call_function":
                    self._call_function(node)
                elif node.op == "output":
                    results: Any = node.args[0]
                    for i, argument in enumerate(results if isinstance(results, (list, tuple)) else [results]):
                        self._builder.output(self._returned(argument, i), "")
            return self._builder.finish()
        finally:
            self._builder = outer

    def _attribute(self, node: torch.fx.Node) -> None:
        """Adds a constant of a body, as of ``torch.tensor(2)`` in a branch. Bodies in it are arguments of operators."""
        value = attribute_of(node)
        if isinstance(value, torch.Tensor):
            self._constants += 1
            self._values[node] = weight_of(self._builder, f"constant_of_body_{self._constants}", value)

    def _inline(self, body: Any, arguments: tuple[Any, ...]) -> Any:
        passed = iter(arguments)
        for node in attribute_of(body).graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._resolve(next(passed))
            elif node.op == "get_attr":
                self._attribute(node)
            elif node.op == "call_function":
                self._call_function(node)
            elif node.op == "output":
                return self._resolve(node.args[0])
        return None


def _is_body(argument: Any) -> bool:
    return isinstance(argument, torch.fx.Node) and argument.op == "get_attr"


def _with_bodies_apart(arguments: Sequence[Any]) -> Iterator[Any]:
    """The arguments of a higher-order operator, with each body of a list, as of torch.switch, as one of its own."""
    for argument in arguments:
        if isinstance(argument, (list, tuple)) and argument and all(map(_is_body, argument)):
            yield from argument
        else:
            yield argument


_MUTATIONS = tuple(
    getattr(OutputKind, name)
    for name in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
    if hasattr(OutputKind, name)
)


def is_access_to_inner(node: torch.fx.Node) -> bool:
    """Whether the node reads one of the tensors in a weight that is a tensor subclass."""
    target = node.target
    return isinstance(target, OpOverload) and operator_of(target).key == "export::access_subclass_inner_tensor"


def check_squeezes(exported: torch.export.ExportedProgram, sizes: DynamicSizes) -> None:
    for node in exported.graph.nodes:
        if isinstance(node.target, OpOverload):
            _check_squeeze(node, operator_of(node.target), node.args, sizes)


def _check_squeeze(node: torch.fx.Node, called: Operator, args: tuple[Any, ...], sizes: Sizes | DynamicSizes) -> None:
    if is_squeeze(called):
        given = torch.fx.map_arg((args, node.kwargs), lambda made: made.meta.get("val"))
        check_squeeze(called, *given, sizes, location_of_stack_trace(node.meta.get("stack_trace", "")))


def _matters(user: torch.fx.Node) -> bool:
    """Whether a number is used by more than an assertion."""
    if user.op != "call_function":
        return True
    if isinstance(user.target, OpOverload):
        return not _core.is_assertion(operator_of(user.target).key)
    return any(map(_matters, user.users))
