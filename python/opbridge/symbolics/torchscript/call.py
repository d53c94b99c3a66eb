"""Calls a symbolic function that is written for torch.onnx."""

from __future__ import annotations

import contextlib
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.patching import patch, patch_code
from opbridge.dtypes import ELEMENT_TYPES
from opbridge.operator_names import without_overload
from opbridge.symbolics.arguments import bind, complete_arguments, schema_of_name
from opbridge.symbolics.builder import GraphContext, Results
from opbridge.symbolics.torchscript.arguments import Arguments, type_of
from opbridge.symbolics.torchscript.context import OwnFormNeeded, TorchScriptContext
from opbridge.symbolics.torchscript.translation import Translation
from opbridge.symbolics.values import ValueType
from opbridge.torch_compat import onnx_exporter
from opbridge.torch_compat.messages import is_of_sizes_as_texts
from opbridge.torch_compat.torchscript_exporter import (
    GLOBALS,
    NEWEST_OPSET,
    Graph,
    Node,
    OnnxExporterError,
    TensorType,
    Value,
    begin_inference,
    mend_element_types,
    remove_unused,
    rewrite_patterns,
)

# torch keeps what it infers about a graph, and the opset, in global variables.
_one_at_a_time = threading.RLock()

# Attributes that opbridge's values and types have, and TorchScript's lack.
_OF_OPBRIDGE = {"core", "dims", "element_type"}

_NOT_IN_NAMES = re.compile(r"\W")


def call_function(
    function: Callable[..., Any], core: _core.GraphBuilder, op: str, names: list[str], arguments: list[Any]
) -> Results:
    """Calls the symbolic function of an operator. All its arguments are values."""
    by_position, by_name = bind(function, op, complete_arguments(op, names, arguments))

    def call(g: TorchScriptContext, made: Arguments) -> Any:
        positional = [made.value(each.value, each.type_name) for each in by_position]
        named: dict[str, Any] = {name: made.value(each.value, each.type_name) for name, each in by_name.items()}
        if _returns_list(op) and "_outputs" in inspect.signature(function).parameters:
            named["_outputs"] = core.result_count
        return function(g, *positional, **named)

    return _Call(core, arguments, op).run(call)


def call_method(function: Callable[..., Any], core: _core.GraphBuilder, arguments: list[Any]) -> Results:
    """Calls ``symbolic`` of an autograd.Function. Its tensors are values, other arguments are Python objects."""

    def call(g: TorchScriptContext, made: Arguments) -> Any:
        return function(g, *(made.with_values(argument) for argument in arguments))

    return _Call(core, arguments, "prim::PythonOp").run(call)


class _Call:
    """One call, with its TorchScript graph."""

    def __init__(self, core: _core.GraphBuilder, arguments: Sequence[Any], op: str) -> None:
        self._core = core
        self._g = GraphContext(core)
        self._arguments = arguments
        self._op = without_overload(op)

    def _original_node(self, graph: Graph) -> Node:
        """The node of the operator, for functions that ask for its kind or the types of its results."""
        node = graph.create(self._op, [], self._core.result_count)
        for index, output in enumerate(node.outputs()):
            output.setType(type_of(*self._core.result(index)))
        return graph.insertNode(node)

    def run(self, call: Callable[[TorchScriptContext, Arguments], Any]) -> Results:
        opset = min(self._g.opset, NEWEST_OPSET)  # torch fails for newer ones
        torch_graph = Graph()
        graph = Graph()
        context = TorchScriptContext(
            graph=graph,
            block=graph.block(),
            opset=opset,
            original_node=self._original_node(torch_graph),
            params_dict={},
            env={},
            values_in_env=set(),
        )
        with _enter_export(opset):
            made = Arguments(context, self._arguments)
            begin_inference(graph, {}, opset)
            try:
                results = context.results(call(context, made), self._core.result_count)
            except OnnxExporterError as error:
                self._g.refuse(f"the symbolic function refuses the call: {error}")
                raise
            except (AttributeError, TypeError) as error:
                if is_of_sizes_as_texts(error) or getattr(error, "name", None) in _OF_OPBRIDGE:
                    raise OwnFormNeeded(str(error)) from error
                raise
            for result in results:
                if result is not None:
                    graph.registerOutput(result)
            mend_element_types(graph, True, opset)
            rewrite_patterns(graph, opset, False)
            remove_unused(graph)
        translation = Translation(context.functions)
        translation.define(made.tensors)
        translation.translate(self._g, graph.nodes())
        outputs = iter(graph.outputs())
        return [
            None if result is None else self._result(translation, i, next(outputs)) for i, result in enumerate(results)
        ]

    def _result(self, translation: Translation, index: int, output: Value) -> _core.Value | None:
        value = translation.value(output)
        if value is not None and index < self._core.result_count and (type := translation.declared_type(output)):
            value.setType(_with_sizes_of(self._g.result(index), type, _NOT_IN_NAMES.sub("_", value.debugName())))
        return self._g.input(value)


@contextlib.contextmanager
def _enter_export(opset: int) -> Iterator[None]:
    """Sets the state that torch.onnx has while it exports: helpers ask for the opset, and functions ask whether an
    export runs. Models that train in other threads ask that too, so the flag is set only in this thread."""
    with (
        _one_at_a_time,
        patch(onnx_exporter.IS_EXPORTING, True),
        patch_code(torch.onnx.is_in_onnx_export, "bool(original())"),
    ):
        before = GLOBALS.export_onnx_opset_version
        GLOBALS.export_onnx_opset_version = opset
        try:
            yield
        finally:
            GLOBALS.export_onnx_opset_version = before


def _with_sizes_of(result: ValueType, declared: TensorType, name: str) -> ValueType:
    """The type that the function declares. A size that the function leaves open is taken from PyTorch's result if it is
    symbolic there; otherwise it depends on data, and the example's size does not hold."""
    dtype, sizes = declared.dtype(), declared.varyingSizes()
    element_type = result.element_type if dtype is None else ELEMENT_TYPES[dtype]
    if sizes is None or result.dims is None or len(sizes) != len(result.dims):
        return ValueType(element_type, declared.sizes())
    return ValueType(
        element_type,
        [
            size if size is not None else known if isinstance(known, str) else f"size_{axis}_of_{name}"
            for axis, (size, known) in enumerate(zip(sizes, result.dims, strict=True))
        ],
    )


def _returns_list(op: str) -> bool:
    schema = schema_of_name(op)
    return schema is not None and any(str(each.type).startswith("List") for each in schema.returns)
