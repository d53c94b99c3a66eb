"""Symbolic functions that are written for torch.onnx's TorchScript exporter get its values and make its nodes."""

from __future__ import annotations

import contextlib
import functools
import io
import operator
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.onnx import symbolic_helper

import opbridge
import opbridge.torch_onnx as torch_onnx
from checking.runtime import run_plain
from opbridge.symbolics.torchscript import uses_torch_onnx

X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
OPSET = 17


@contextlib.contextmanager
def registered(operator: str, function: Callable[..., Any]) -> Iterator[None]:
    torch.onnx.register_custom_op_symbolic(operator, function, OPSET)
    try:
        yield
    finally:
        torch.onnx.unregister_custom_op_symbolic(operator, OPSET)


class Call(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


def export(call: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> onnx.ModelProto:
    return opbridge.export(Call(call), inputs or (X,), opset_version=OPSET, **options).model_proto


def export_by_torch(call: Callable[..., Any], *inputs: torch.Tensor) -> onnx.ModelProto:
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Call(call), inputs or (X,), file, dynamo=False, opset_version=OPSET)
    return onnx.load_from_string(file.getvalue())


def run(model: onnx.ModelProto, *inputs: torch.Tensor) -> list[np.ndarray]:
    return run_plain(model, *(inputs or (X,)))


def description(argument: Any) -> Any:
    """The properties that a function can read of an argument."""
    if not isinstance(argument, torch._C.Value):
        return argument
    node = argument.node()
    if node.kind() == "prim::ListConstruct":
        return [description(each) for each in node.inputs()]
    type = argument.type()
    facts = [node.kind() if "Constant" in node.kind() else "computed", type.kind(), node.mustBeNone()]
    if isinstance(type, torch._C.TensorType) and "Constant" not in node.kind():
        facts += [type.scalarType(), type.sizes(), type.isSubtypeOf(torch._C.TensorType.get())]
        facts.append(symbolic_helper._get_tensor_rank(argument))
    if node.kind() == "onnx::Constant":
        value = symbolic_helper._node_get(node, "value")
        facts += [value.dtype, value.shape, value.tolist()] if isinstance(value, torch.Tensor) else [value]
    return facts


CALLS: dict[str, tuple[str, Callable[[torch.Tensor], Any]]] = {
    "float": ("aten::mul", lambda x: x * 2.5),
    "int": ("aten::pow", lambda x: x**2),
    "bool": ("aten::triu", lambda x: x.triu(1)),
    "bools and ints": ("aten::cumsum", lambda x: x.cumsum(1)),
    "string": ("aten::gelu", lambda x: nn.functional.gelu(x, approximate="tanh")),
    "None": ("aten::mean", lambda x: x.mean()),
    "list of ints": ("aten::roll", lambda x: x.roll((1, 2), (0, 1))),
    "dtype": ("aten::cumprod", lambda x: x.cumprod(1, dtype=torch.float64)),
    "memory format": ("aten::ones_like", lambda x: torch.ones_like(x)),
    "computed tensor": ("aten::sinh", lambda x: x.cos().sinh()),
    "constant tensor": ("aten::atan2", lambda x: torch.atan2(x, torch.tensor([1.0, 2, 3, 4]))),
    "tensors": ("aten::stack", lambda x: torch.stack([x, x.cos()])),
}


@pytest.mark.parametrize("name", CALLS)
def test_arguments_are_those_of_the_exporter(name: str) -> None:
    operator_name, call = CALLS[name]
    seen: list[Any] = []

    def record(g: Any, *arguments: Any) -> Any:
        seen.append(list(map(description, arguments)))
        return g.op("Identity", next(each for each in arguments if symbolic_helper._is_tensor(each)))

    with registered(operator_name, record):
        with contextlib.suppress(Exception):  # the model is not valid
            export_by_torch(call)
        with contextlib.suppress(opbridge.Error):
            export(call)
    by_torch, ours = seen
    assert ours == by_torch


def with_helpers(g: Any, self: Any, dims: Any, keepdim: Any, dtype: Any) -> Any:
    axes = symbolic_helper._get_const(dims, "is", "dims")
    summed = symbolic_helper._reducesum_helper(
        g, self, axes_i=axes, keepdims_i=symbolic_helper._maybe_get_const(keepdim, "i")
    )
    return summed if symbolic_helper._is_none(dtype) else g.op("Cast", summed, to_i=1)


@symbolic_helper.parse_args("v", "is", "is")
def parsed(g: Any, self: Any, shifts: list[int], dims: list[int]) -> Any:
    for dim, shift in zip(dims, shifts, strict=True):
        parts = [([-shift], [2**31]), ([0], [-shift])]
        self = g.op("Concat", *(symbolic_helper._slice_helper(g, self, [dim], *part) for part in parts), axis_i=dim)
    return self


def of_mixed_types(g: Any, self: Any, other: Any, alpha: Any) -> Any:
    return g.op("Add", self, g.op("Mul", other, g.op("Constant", value_t=torch.tensor(2))))


def with_a_shape(g: Any, self: Any, size: Any) -> Any:
    return g.op("Reshape", self, size)  # a list of values, which the exporter makes a tensor


@symbolic_helper.quantized_args(True)
def for_quantized(g: Any, self: Any) -> Any:
    return g.op("Tanh", self)


def with_g_among_args(*args: Any) -> Any:
    g, x, *_ = args
    return g.op("Elu", x)


def with_set_types(g: Any, self: Any) -> Any:
    made = g.op("Relu", self)
    made.setDebugName("made")
    made.setType(self.type().with_sizes(None).with_dtype(torch.float32))
    return made.setTypeAs(self)


def with_splits(g: Any, self: Any, size: Any, dim: Any, _outputs: Any = None) -> Any:
    parts = g.op("Split", self, axis_i=symbolic_helper._get_const(dim, "i", "dim"), outputs=_outputs)
    return [g.op("Neg", part) for part in reversed(parts)]


def with_an_if(g: Any, self: Any) -> Any:
    from torch.onnx._internal.torchscript_exporter import jit_utils, utils

    total = g.op("ReduceSum", self, keepdims_i=0)
    condition = g.op("Greater", total, g.op("Constant", value_t=torch.tensor(0.0)))
    result, (then, otherwise), _ = jit_utils.add_op_with_blocks(g, "If", condition, n_blocks=2)
    utils._add_output_to_block(then.block, then.op("Neg", self))
    utils._add_output_to_block(otherwise.block, otherwise.op("Add", self, total))
    return result.setTypeAs(self)


def with_a_loop(g: Any, self: Any) -> Any:
    from torch.onnx._internal.torchscript_exporter import jit_utils, utils

    times = g.op("Constant", value_t=torch.tensor([3]))  # 1-d, so that the number of the iteration is 1-d too
    condition = g.op("Constant", value_t=torch.tensor(True))
    result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", times, condition, self, n_blocks=1)
    iteration, _, carried = (utils._add_input_to_block(body.block) for _ in range(3))
    first = body.op("Slice", self, iteration, body.op("Constant", value_t=torch.tensor([2**40])))
    total = body.op("ReduceSum", first, keepdims_i=0)
    utils._add_output_to_block(body.block, body.op("Identity", condition))
    utils._add_output_to_block(body.block, body.op("Add", carried, total))
    return result.setTypeAs(self)


def with_constants_of_every_form(g: Any, self: Any) -> Any:
    for constant in (
        g.op("Constant", value_t=torch.tensor(1.5)),
        g.op("Constant", value_z=torch.tensor(2.0)),
        torch.tensor(0.5),
    ):
        self = g.op("Mul", self, constant)
    return self


FUNCTIONS: dict[str, tuple[str, Callable[..., Any], Callable[..., Any]]] = {
    "helpers": ("aten::sum", with_helpers, lambda x: x.sum((0, 2), keepdim=True)),
    "helpers and a dtype": ("aten::sum", with_helpers, lambda x: x.sum((0, 2), dtype=torch.float32)),
    "parse_args": ("aten::roll", parsed, lambda x: x.roll((1, 2), (0, 2))),
    "a number of another type": ("aten::add", of_mixed_types, lambda x: x.add(x, alpha=2)),
    "a tensor of another type": ("aten::add", of_mixed_types, lambda x: x.add(x.int(), alpha=2)),
    "a shape": ("aten::view", with_a_shape, lambda x: x.view(x.shape[0], -1)),
    "quantized_args": ("aten::tanh", for_quantized, lambda x: x.tanh()),
    "g among args": ("aten::elu", with_g_among_args, lambda x: nn.functional.elu(x)),
    "set types": ("aten::relu", with_set_types, lambda x: x.relu()),
    "outputs of split": ("aten::split", with_splits, lambda x: operator.sub(*x.split(1, 0))),
    "a Loop": ("aten::sinh", with_a_loop, lambda x: x.sinh()),
    "an If": ("aten::sinh", with_an_if, lambda x: x.sinh()),
    "constants": ("aten::sinh", with_constants_of_every_form, lambda x: x.sinh()),
    "part of a function": ("aten::sinh", functools.partial(with_constants_of_every_form), lambda x: x.sinh()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_makes_the_model_of_the_exporter(name: str) -> None:
    operator_name, function, call = FUNCTIONS[name]
    with registered(operator_name, function):
        expected = run(export_by_torch(call))
        actual = run(export(call, simplify=False))
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-6)


def attributes_of(model: onnx.ModelProto) -> dict[str, Any]:
    (node,) = (node for node in model.graph.node if node.domain == "custom")
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def test_attributes_are_those_of_the_exporter() -> None:
    def function(g: Any, x: Any) -> Any:
        return g.op(
            "custom::all", x, a_i=1, b_i=[2, 3], c_f=0.5, d_f=[0.5, 1.5], e_s="text", f_s=["a", "b"], h_t=torch.ones(2),
            i_z=torch.tensor(3), none_i=None,
        ).setType(x.type())  # fmt: skip

    with registered("aten::sinh", function):
        assert attributes_of(export(torch.sinh)) == attributes_of(export_by_torch(torch.sinh))


def test_an_attribute_may_be_a_type() -> None:
    def function(g: Any, x: Any) -> Any:
        empty = g.op("Optional", type_ty=torch._C.TensorType.get().with_dtype(torch.float32).with_sizes([2]))
        return g.op("Where", g.op("OptionalHasElement", empty), g.op("Neg", x), x)

    with registered("aten::sinh", function):
        np.testing.assert_array_equal(run(export(torch.sinh))[0], X.numpy())


def test_a_constant_may_be_a_number() -> None:
    def function(g: Any, x: Any) -> Any:
        total = g.op("ReduceSum", x, g.op("Constant", value_i=[0, 1, 2]), keepdims_i=0)
        return g.op("Mul", g.op("Add", x, total), g.op("Constant", value_f=2.0))

    with registered("aten::sinh", function):
        np.testing.assert_allclose(run(export(torch.sinh))[0], (X + X.sum()).numpy() * 2, rtol=1e-6)


@pytest.mark.parametrize("opset", [24, 28])
def test_an_opset_that_torch_does_not_know(opset: int) -> None:
    class Halves(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x / 2

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("Div", x, g.op("Constant", value_t=torch.tensor(2.0)))

    model = opbridge.export(Call(Halves.apply), (X,), opset_version=opset).model_proto
    assert [entry.version for entry in model.opset_import] == [opset]
    assert [node.op_type for node in model.graph.node] == ["Div"]


def test_omitted_inputs_may_be_none() -> None:
    def function(g: Any, x: Any, low: Any, high: Any) -> Any:
        assert symbolic_helper._is_none(low)
        return g.op("Clip", x, None, symbolic_helper._maybe_get_const(high, "f"))

    with registered("aten::clamp", function):
        np.testing.assert_array_equal(run(export(lambda x: x.clamp(max=1.0)))[0], X.clamp(max=1).numpy())


def test_values_are_those_of_torchscript_in_autograd_functions() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, factor: float, mode: str) -> torch.Tensor:
            return x * factor

        @staticmethod
        def symbolic(g: Any, x: Any, factor: float, mode: str) -> Any:
            assert isinstance(x, torch._C.Value)
            assert x.type().isSubtypeOf(torch._C.TensorType.get())
            assert (factor, mode) == (2.0, "plain")
            return g.op("Mul", x, torch.tensor(factor))

    model = export(lambda x: Scale.apply(x, 2.0, "plain"))
    np.testing.assert_array_equal(run(model)[0], X.numpy() * 2)


def test_symbolic_of_an_autograd_function_with_other_parameters_is_refused_with_the_line() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
            return x * factor

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("Relu", x)

    class Failing(Scale):
        @staticmethod
        def symbolic(g: Any, x: Any, factor: float) -> Any:
            assert repr(g).startswith("<TorchScriptContext")  # what pytest prints of a function that fails
            raise TypeError("an error of the function itself")

    with pytest.raises(opbridge.Error, match=r"Scale\.symbolic.*does not fit.*2 arguments") as caught:
        export(lambda x: Scale.apply(x, 2.0))
    assert "Scale.apply(x, 2.0)" in caught.value.where
    with pytest.raises(
        opbridge.InvalidArgumentError,
        match=r"Failing\.symbolic raised TypeError: an error of the function itself \(test_",
    ) as caught:
        export(lambda x: Failing.apply(x, 2.0))
    assert "Failing.apply(x, 2.0)" in caught.value.where
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_opset_and_the_export_are_known(capture: Any) -> None:
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

    before = GLOBALS.export_onnx_opset_version

    def function(g: Any, x: Any) -> Any:
        assert g.opset == GLOBALS.export_onnx_opset_version == OPSET
        assert torch.onnx.is_in_onnx_export()
        return g.op("Relu", x)

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.sinh(x) if torch.onnx.is_in_onnx_export() else x

    with registered("aten::sinh", function):
        np.testing.assert_array_equal(run(export(call, capture=capture))[0], X.relu().numpy())
    assert not torch.onnx.is_in_onnx_export()
    assert GLOBALS.export_onnx_opset_version == before


@pytest.mark.parametrize("register", [opbridge.register_custom_op_symbolic, torch_onnx.register_custom_op_symbolic])
def test_a_name_may_lack_its_domain(register: Callable[..., None]) -> None:
    def function(g: Any, x: Any, approximate: Any) -> Any:
        return g.op("custom::Gelu", x, approximate_s=symbolic_helper._get_const(approximate, "s", "approximate"))

    register("::gelu", function, 9)
    try:
        assert attributes_of(export(nn.functional.gelu)) == {"approximate": b"none"}
    finally:
        opbridge.unregister_custom_op_symbolic("::gelu", 9) if register is opbridge.register_custom_op_symbolic else (
            torch_onnx.unregister_custom_op_symbolic("::gelu", 9)
        )


def test_a_function_that_asks_for_methods_of_opbridge_gets_its_form() -> None:
    def function(g: Any, x: Any, shifts: list[int], dims: list[int]) -> Any:
        first, rest = g.split(x, dims[0], [x.type().dims[dims[0]] - shifts[0], shifts[0]])
        return g.concat([rest, first], dims[0])

    with registered("aten::roll", function):
        np.testing.assert_array_equal(run(export(lambda x: x.roll(1, 1)))[0], X.roll(1, 1).numpy())


def test_parse_args_of_opbridge_works_with_functions_registered_with_torch() -> None:
    @opbridge.parse_args("v", "is", "is")
    def function(g: Any, x: Any, shifts: list[int], dims: list[int]) -> Any:
        return g.op("custom::Roll", x, shifts_i=shifts, dims_i=dims)

    with registered("aten::roll", function):
        assert attributes_of(export(lambda x: x.roll((1, 2), (0, 1)))) == {"shifts": [1, 2], "dims": [0, 1]}


def test_a_function_for_opbridge_gets_python_objects() -> None:
    @opbridge.symbolic("aten::roll")
    def roll(g: Any, x: Any, shifts: list[int], dims: list[int]) -> Any:
        assert (shifts, dims) == ([1], [1])
        return g.op("Identity", x)

    try:
        export(lambda x: x.roll(1, 1))
    finally:
        opbridge.unregister_custom_op_symbolic("aten::roll", 9)


def test_open_sizes_of_a_declared_type_depend_on_data() -> None:
    class Positive(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x[x[:, 0] > 0]

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("custom::Positive", x).setType(x.type().with_sizes([None, 4]))

    model = export(Positive.apply, X[0])
    size, _ = model.graph.output[0].type.tensor_type.shape.dim
    assert size.dim_param


def test_dynamic_sizes_of_a_declared_type_are_those_of_pytorch() -> None:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def symbolic(g: Any, x: Any) -> Any:
            return g.op("custom::Same", x).setType(x.type())

    model = export(lambda x: Same.apply(x) + x, X, dynamic_shapes=(({0: "batch"},),))
    assert [size.dim_param or size.dim_value for size in model.graph.output[0].type.tensor_type.shape.dim] == [
        "batch",
        3,
        4,
    ]


def test_parameters_keep_their_names_and_are_not_copied(tmp_path: Path) -> None:
    def function(g: Any, x: Any, weight: Any, bias: Any) -> Any:
        return g.op("custom::Linear", x, weight, bias).setType(x.type())

    with registered("aten::linear", function):
        program = opbridge.export(nn.Linear(4, 4), X, tmp_path / "m.onnx", simplify=False)
    assert [each.name for each in program.model_proto.graph.initializer] == ["weight", "bias"]
    assert list(program.model_proto.graph.node[0].input)[1:] == ["weight", "bias"]


def refused(function: Callable[..., Any]) -> str:
    with registered("aten::sinh", function), pytest.raises(opbridge.UnsupportedError) as error:
        export(torch.sinh)
    return str(error.value)


def test_an_error_of_the_function_is_told_with_the_operator_and_the_line() -> None:
    def function(g: Any, x: Any) -> Any:
        return g.op("Sinh", x, symbolic_helper._get_tensor_rank(x) / 0)

    with registered("aten::sinh", function), pytest.raises(opbridge.InvalidArgumentError) as error:
        export(lambda x: torch.sinh(x))
    assert "function for aten::sinh raised ZeroDivisionError: division by zero" in error.value.message
    assert "_get_tensor_rank(x) / 0" in error.value.message
    assert "export(lambda x: torch.sinh(x))" in error.value.where
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_what_the_function_refuses_is_refused() -> None:
    def function(g: Any, x: Any) -> Any:
        return symbolic_helper._unimplemented("sinh", "it is too steep", x)

    text = refused(function)
    assert "it is too steep" in text
    assert "test_symbolics_for_torch_onnx.py" in text


def test_a_node_that_is_not_onnx_is_refused() -> None:
    assert "aten::ATen" in refused(lambda g, x: g.at("sinh", x))


def test_another_number_of_results_is_refused() -> None:
    assert "returns 2 values, PyTorch returns 1" in refused(lambda g, x: (g.op("Neg", x), g.op("Abs", x)))


@pytest.mark.parametrize("form", ["SequenceConstruct", "SplitToSequence"])
def test_a_list_of_results_may_be_a_sequence(form: str) -> None:
    def function(g: Any, x: Any, size: Any, dim: Any, _outputs: Any) -> Any:
        if form == "SplitToSequence":
            return g.op(form, x, g.op("Constant", value_t=torch.tensor([1, 1])), axis_i=0)
        return g.op(form, *g.op("Split", x, axis_i=0, outputs=_outputs))

    with registered("aten::split", function):
        results = run(export(lambda x: x.split(1, 0)))
    for result, part in zip(results, X.split(1, 0), strict=True):
        np.testing.assert_array_equal(result, part.numpy())


def test_a_tensor_of_one_number_is_a_scalar() -> None:
    def function(g: Any, x: Any) -> Any:
        return g.op("Div", torch.ones(1), g.op("Sqrt", x))

    with registered("aten::rsqrt", function):
        assert run(export(torch.rsqrt, torch.tensor(4.0)), torch.tensor(4.0))[0].shape == ()


def test_one_number_stands_for_each_axis() -> None:
    def function(g: Any, x: Any, kernel_size: Any, *rest: Any) -> Any:
        sizes = symbolic_helper._parse_arg(kernel_size, "is")
        return g.op("AveragePool", x, kernel_shape_i=sizes, strides_i=sizes)

    x = X.reshape(1, 1, 4, 6)
    with registered("aten::avg_pool2d", function):
        model = export(lambda x: torch.ops.aten.avg_pool2d(x, [2]), x)
    np.testing.assert_allclose(run(model, x)[0], nn.functional.avg_pool2d(x, 2).numpy(), rtol=1e-6)


def convolution(g: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, *rest: Any) -> Any:
    transposed, output_padding, groups = rest[:3]
    inputs = [x, weight] if symbolic_helper._is_none(bias) else [x, weight, bias]
    pads = symbolic_helper._parse_arg(padding, "is")
    padded = {"output_padding_i": symbolic_helper._parse_arg(output_padding, "is")}
    is_transposed = symbolic_helper._parse_arg(transposed, "b")
    return g.op(
        "ConvTranspose" if is_transposed else "Conv",
        *inputs,
        strides_i=symbolic_helper._parse_arg(stride, "is"),
        pads_i=[*pads, *pads],
        dilations_i=symbolic_helper._parse_arg(dilation, "is"),
        group_i=symbolic_helper._parse_arg(groups, "i"),
        **(padded if is_transposed else {}),
    )


CONVOLUTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], tuple[int, ...]]] = {
    "conv1d": (lambda x: nn.functional.conv1d(x, torch.ones(2, 3, 2), stride=2), (1, 3, 6)),
    "conv2d": (lambda x: nn.functional.conv2d(x, torch.ones(2, 3, 2, 2), torch.ones(2), padding=1), (1, 3, 6, 6)),
    "conv2d of one image": (lambda x: nn.functional.conv2d(x, torch.ones(2, 3, 2, 2)), (3, 6, 6)),
    "conv3d": (lambda x: nn.functional.conv3d(x, torch.ones(2, 1, 2, 2, 2), groups=2), (1, 2, 4, 4, 4)),
    "conv_transpose2d": (
        lambda x: nn.functional.conv_transpose2d(x, torch.ones(3, 2, 2, 2), stride=2, output_padding=1),
        (1, 3, 4, 4),
    ),
    "conv_transpose1d of one row": (lambda x: nn.functional.conv_transpose1d(x, torch.ones(3, 2, 2)), (3, 4)),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_operator_of_traces_stands_for_every_convolution(name: str, capture: Any) -> None:
    call, sizes = CONVOLUTIONS[name]
    x = torch.rand(sizes)
    seen: list[str] = []

    def function(g: Any, *arguments: Any) -> Any:
        seen.append(name)
        return convolution(g, *arguments)

    with registered("aten::_convolution", function):
        np.testing.assert_allclose(run(export(call, x, capture=capture), x)[0], call(x).numpy(), rtol=1e-5)
    assert seen == [name]


def test_a_convolution_by_a_mode_of_padding() -> None:
    def function(g: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Any) -> Any:
        assert symbolic_helper._parse_arg(padding, "s") == "same"
        return g.op("Conv", x, weight, auto_pad_s="SAME_UPPER")

    x = torch.rand(1, 3, 5, 5)
    with registered("aten::_convolution_mode", function):
        model = export(lambda x: nn.functional.conv2d(x, torch.ones(2, 3, 3, 3), padding="same"), x)
    assert [node.op_type for node in model.graph.node] == ["Conv"]
    assert model.graph.node[0].attribute[0].s == b"SAME_UPPER"


def test_a_function_for_one_convolution_wins() -> None:
    def of_image(g: Any, x: Any, *rest: Any) -> Any:
        return g.op("custom::Image", x)

    with registered("aten::_convolution", convolution), registered("aten::conv2d", of_image):
        model = export(lambda x: nn.functional.conv2d(x, torch.ones(2, 3, 2, 2)), torch.rand(1, 3, 6, 6))
    assert [node.op_type for node in model.graph.node] == ["Image"]


def test_the_node_of_the_operator_is_known() -> None:
    def function(g: Any, x: Any, dim: Any, keepdim: Any) -> Any:
        assert g.original_node.kind() == "aten::max"
        assert [each.type().scalarType() for each in g.original_node.outputs()] == ["Float", "Long"]
        assert next(g.original_node.outputs()).type().sizes() == [2, 4]
        return g.op("custom::Max", x, outputs=g.original_node.outputsSize())

    with registered("aten::max", function):
        model = export(lambda x: x.max(1))
    assert [each.type.tensor_type.elem_type for each in model.graph.output] == [1, 7]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (with_helpers, True),
        (parsed, True),
        (functools.partial(for_quantized), True),
        (lambda g, x: with_helpers(g, x, None, None, None), True),
        (lambda g, x: isinstance(x, torch._C.Value), True),
        (lambda g, x: torch.onnx.symbolic_helper._is_value(x), True),
        (lambda g, x: g.op("Relu", x), False),
        (lambda g, x: g.op("Add", x, torch.tensor(1)), False),
        (opbridge.parse_args("v")(lambda g, x: g.op("Relu", x)), False),
    ],
)
def test_functions_that_use_torch_onnx_are_known(function: Callable[..., Any], expected: bool) -> None:
    assert uses_torch_onnx(function) == expected
