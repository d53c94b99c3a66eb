"""The functions of torch.onnx's ``custom_translation_table``, as symbolic functions.

Such a function has no ``g``. It is an onnxscript function, which becomes a function of the model, or a Python function
that calls operators of onnxscript (``op.Add(x, y)``); its calls become nodes.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from opbridge import _core
from opbridge.errors import InvalidArgumentError
from opbridge.symbolics.builder import GraphContext
from opbridge.symbolics.onnx_functions import attribute_kinds
from opbridge.symbolics.values import Value
from opbridge.torch_compat import OpOverload, schema_of

# From this opset on, a call of an operator means the same at every later opset that accepts it.
_STABLE_SINCE = 13

_KINDS = {"INT": "i", "INTS": "i", "FLOAT": "f", "FLOATS": "f", "STRING": "s", "STRINGS": "s", "TENSOR": "t"}


class TranslationTable:
    """A ``custom_translation_table``. Its functions are checked when it is made."""

    def __init__(self, table: Mapping[Any, Callable[..., Any]]) -> None:
        self.symbolics: dict[str, Callable[..., Any]] = {}
        self._unused: set[str] = set()
        for target, function in table.items():
            if not callable(function):
                raise InvalidArgumentError(f"custom_translation_table: the value for {target} is not a function")
            name = _name_of(target)
            self.symbolics[name] = _symbolic(function, functools.partial(self._unused.discard, name))
            self._unused.add(name)

    def warn_of_unused(self) -> None:
        """Warns of unused entries. torch.onnx decomposes more operators before it looks them up, so a table that is
        written for it may have other names."""
        if self._unused:
            warnings.warn(
                f"custom_translation_table: the model does not call {', '.join(sorted(self._unused))}; verbose=True "
                "prints the operators that it calls",
                stacklevel=3,
            )


def _name_of(target: Any) -> str:
    if isinstance(target, OpOverload):
        schema = schema_of(target)
        return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    if isinstance(target, type(torch.ops.aten.add)):
        return str(target).replace(".", "::", 1)
    raise InvalidArgumentError(
        f"custom_translation_table: {target!r} is not an operator; the keys are operators, such as "
        "torch.ops.aten.add.Tensor"
    )


def _symbolic(function: Callable[..., Any], note_use: Callable[[], None]) -> Callable[..., Any]:
    import onnxscript
    import onnxscript.evaluator

    script: Any = function if isinstance(function, onnxscript.OnnxFunction) else None

    def symbolic(g: GraphContext, *args: Any, **kwargs: Any) -> Any:
        note_use()
        recorder = _Recorder(g)
        if script is not None:
            return recorder.eval_function(script, args, kwargs)
        with onnxscript.evaluator.default_as(recorder):
            return function(*(recorder.wrapped(argument) for argument in args), **kwargs)

    graph = inspect.Parameter("_graph", inspect.Parameter.POSITIONAL_ONLY)
    parameters = inspect.signature(function if script is None else script.function).parameters.values()
    symbolic.__signature__ = inspect.Signature([graph, *parameters])  # type: ignore[attr-defined]
    symbolic.__qualname__ = symbolic.__name__ = getattr(function, "__name__", "function")
    return symbolic


class _Recorder:
    """An evaluator of onnxscript that makes a node of each call."""

    def __init__(self, g: GraphContext) -> None:
        self.g = g

    def eval_op(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.eval(op.op_schema, args, kwargs)

    def eval(self, schema: Any, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """onnxscript before 0.6 calls this method; later versions prefer it."""
        given = {name: value for name, value in attributes.items() if value is not None}
        if schema.name == "Constant":
            return self.wrapped(self.g.op("Constant", value_t=_constant(given)))
        self._check_version(schema)
        named = {f"{name}_{self._kind(schema, name)}": value for name, value in given.items()}
        name = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
        return self.wrapped(self.g.op(name, *inputs, outputs=_output_count(schema, given), **named))

    def eval_function(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        parameters = list(inspect.signature(function.function).parameters)
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        attributes = {name: value for name, value in given.items() if name in attribute_kinds(function)}
        inputs = [value for name, value in given.items() if name not in attributes]
        outputs = len(function.to_function_proto().output)
        return self.wrapped(self.g.onnxscript_op(function, *inputs, outputs=outputs, **attributes))

    def wrapped(self, value: Any) -> Any:
        """Wraps values, also those in lists, so that they have Python's arithmetic."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.wrapped(item) for item in value)
        return _Tensor(self, value.core) if isinstance(value, Value) else value

    def _check_version(self, schema: Any) -> None:
        import onnx

        present = onnx.defs.get_schema(schema.name, self.g.opset, schema.domain) if not schema.domain else schema
        if schema.since_version < _STABLE_SINCE and present.since_version != schema.since_version:
            self.g.refuse(
                f"the function uses {schema.name} of opset {schema.since_version}, which may mean something else at "
                f"opset {self.g.opset}; use onnxscript.opset{self.g.opset}"
            )

    @staticmethod
    def _kind(schema: Any, name: str) -> str:
        attribute = schema.attributes.get(name)
        kind = None if attribute is None else _KINDS.get(attribute.type.name)
        if kind is None:
            raise InvalidArgumentError(f"{schema.name} has no attribute '{name}' that a function can give it")
        return kind


def _output_count(schema: Any, attributes: Mapping[str, Any]) -> int:
    if schema.name == "Split":
        return int(attributes.get("num_outputs") or len(attributes.get("split", ())))
    if schema.name == "BatchNormalization" and not attributes.get("training_mode"):
        return 1
    return len(schema.outputs)


def _constant(attributes: Mapping[str, Any]) -> Any:
    """The value of a Constant, given by one of its attributes."""
    ((name, value),) = attributes.items()
    dtypes = {"value_float": torch.float32, "value_floats": torch.float32, "value_int": torch.int64}
    if name in dtypes or name == "value_ints":
        return torch.tensor(value, dtype=dtypes.get(name, torch.int64))
    if name == "value":
        import onnx

        return torch.from_numpy(onnx.numpy_helper.to_array(value).copy())
    return value


def _operation(name: str, is_reflected: bool = False) -> Callable[[_Tensor, Any], Any]:
    def operation(self: _Tensor, other: Any) -> Any:
        operands = (other, self) if is_reflected else (self, other)
        return self.recorder.wrapped(self.recorder.g.op(name, *operands))

    return operation


class _Tensor(Value):
    """A value with Python's arithmetic, as the tensors of onnxscript."""

    __slots__ = ("recorder",)

    def __init__(self, recorder: _Recorder, core: _core.Value) -> None:
        super().__init__(core)
        self.recorder = recorder

    __add__, __radd__ = _operation("Add"), _operation("Add", is_reflected=True)
    __sub__, __rsub__ = _operation("Sub"), _operation("Sub", is_reflected=True)
    __mul__, __rmul__ = _operation("Mul"), _operation("Mul", is_reflected=True)
    __truediv__, __rtruediv__ = _operation("Div"), _operation("Div", is_reflected=True)
    __pow__, __matmul__ = _operation("Pow"), _operation("MatMul")
