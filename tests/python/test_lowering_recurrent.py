"""Recurrent layers and cells."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from functionalize_check import Model
from lowering_check import check
from onnx.reference import ReferenceEvaluator
from torch import nn
from torch.export import Dim

import opbridge

LAYERS = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}
CELLS = {
    "LSTM": nn.LSTMCell,
    "GRU": nn.GRUCell,
    "tanh": nn.RNNCell,
    "relu": lambda *sizes, **options: nn.RNNCell(*sizes, nonlinearity="relu", **options),
}
FORMS: list[dict[str, Any]] = [
    {},
    {"batch_first": True, "bias": False},
    {"num_layers": 2, "bidirectional": True},
]


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer: str, form: dict[str, Any], opset: int) -> None:
    module = LAYERS[layer](4, 3, **form).eval()
    dynamic = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    check(module, torch.randn(5, 2, 4), dynamic=[dynamic], also=[(torch.randn(3, 6, 4),)], opset=opset)
    check(module, torch.randn(5, 4), opset=opset)  # a sequence without batch


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cell", CELLS)
def test_cells(cell: str, bias: bool, opset: int) -> None:
    module = CELLS[cell](4, 3, bias=bias).eval()

    def steps(x: torch.Tensor) -> list[Any]:
        states = [module(x[0])]
        for step in x[1:]:
            states.append(module(step, states[-1]))
        return states

    check(steps, torch.randn(3, 2, 4), dynamic=[{1: Dim.DYNAMIC}], also=[(torch.randn(3, 5, 4),)], opset=opset)
    check(steps, torch.randn(3, 4), opset=opset)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("cell", CELLS)
def test_cells_without_features_or_state(cell: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    limits: dict[str, float] = (
        {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float16 else {}
    )  # PyTorch rounds each step
    for features, size in [(0, 0), (0, 3), (2, 0)]:
        module = CELLS[cell](features, size).to(dtype).eval()
        for batch in (0, 2):
            check(module, torch.randn(batch, features, dtype=dtype), **limits)
        other = torch.randn(4, features, dtype=dtype)
        check(module, torch.randn(2, features, dtype=dtype), dynamic=[{0: Dim.DYNAMIC}], also=[(other,)], **limits)


@pytest.mark.parametrize("layer", ["gru", "rnn_tanh", "lstm"])
def test_weights_that_do_not_fit_are_refused(layer: str) -> None:
    """PyTorch broadcasts what they make of the input."""
    rows = {"gru": 3, "rnn_tanh": 1, "lstm": 4}[layer] * 2
    state, sizes = torch.randn(1, 1, 2), torch.tensor([1, 1])

    def run(x: torch.Tensor, narrow: torch.Tensor, wide: torch.Tensor) -> Any:
        states = [state, state] if layer == "lstm" else state
        return getattr(torch, layer)(x, sizes, states, [narrow, wide], False, 1, 0.0, False, False)

    with pytest.raises(opbridge.UnsupportedError, match=rf"w_ih is \(1, 1\), but .* need \({rows}, 1\)"):
        check(run, torch.randn(2, 1), torch.randn(1, 1), torch.randn(rows, 2))


@pytest.mark.parametrize("layer", ["gru", "rnn_tanh", "lstm"])
def test_weights_of_dynamic_sizes_are_refused(layer: str) -> None:
    """PyTorch broadcasts a size of 1; ONNX Runtime's kernels do not."""
    rows = {"gru": 3, "rnn_tanh": 1, "lstm": 4}[layer] * 3

    def run(x: torch.Tensor, state: torch.Tensor, of_input: torch.Tensor, of_state: torch.Tensor) -> Any:
        states = [state, state] if layer == "lstm" else state
        return getattr(torch, layer)(x, states, [of_input, of_state], False, 1, 0.0, False, False, False)

    sizes = [(1, 2, 4), (1, 2, 3), (rows, 4), (rows, 3)]
    axes: dict[str, list[Any]] = {
        rf"w_ih is \(.*, 4\), but .* need \({rows}, 4\)": [{}, {}, {0: Dim.DYNAMIC}, {}],
        rf"w_hh is \({rows}, .*\), but .* need \({rows}, 3\)": [{}, {2: Dim.DYNAMIC}, {}, {1: Dim.DYNAMIC}],
        "hidden size must be a constant": [{}, {}, {}, {0: Dim.DYNAMIC}],
    }
    for message, dynamic in axes.items():
        with pytest.raises(opbridge.UnsupportedError, match=message):
            check(run, *map(torch.randn, sizes), dynamic=dynamic)
    also = [tuple(map(torch.randn, [(1, 2, 1), (1, 2, 3), (rows, 1), (rows, 3)]))]
    check(run, *map(torch.randn, sizes), dynamic=[{2: Dim.DYNAMIC}, {}, {1: Dim.DYNAMIC}, {}], also=also)


@pytest.mark.parametrize("layer", ["gru", "rnn_tanh"])
def test_a_narrow_state_is_refused(layer: str) -> None:
    rows = 9 if layer == "gru" else 3

    def run(x: torch.Tensor, state: torch.Tensor, of_input: torch.Tensor, of_state: torch.Tensor) -> Any:
        return getattr(torch, layer)(x, state, [of_input, of_state], False, 1, 0.0, False, False, False)

    with pytest.raises(opbridge.UnsupportedError, match=rf"w_hh is \({rows}, 1\), but .* need \({rows}, 3\)"):
        check(run, torch.randn(1, 2, 4), torch.randn(1, 2, 1), torch.randn(rows, 4), torch.randn(rows, 1))


def test_a_state_of_more_layers_is_refused(tmp_path: pathlib.Path) -> None:
    """Of a packed sequence, PyTorch takes the first ones of the cell's state."""

    def run(data: torch.Tensor, h: torch.Tensor, c: torch.Tensor, w_ih: torch.Tensor, w_hh: torch.Tensor) -> Any:
        sizes = torch.tensor([1, 1, 1])
        return torch.ops.aten.lstm.data(data, sizes, [h, c], [w_ih, w_hh], False, 1, 0.0, False, False)

    shapes = [(3, 5), (1, 1, 2), (2, 1, 2), (8, 5), (8, 2)]
    with pytest.raises(opbridge.UnsupportedError, match="is for 2 directions of all layers, but there are 1"):
        opbridge.export(run, tuple(map(torch.randn, shapes)), tmp_path / "model.onnx", capture="trace")


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("layer", ["gru", "rnn_tanh"])  # torch.lstm of a hidden size of 0 ends PyTorch's process
def test_layers_without_features_or_state(layer: str, directions: int) -> None:
    gates = 3 if layer == "gru" else 1
    function = getattr(torch, layer)
    for features, size in [(0, 0), (0, 3), (2, 0)]:
        shapes = [(gates * size, features), (gates * size, size), (gates * size,), (gates * size,)]
        weights = [torch.randn(*shape) for shape in shapes * directions]

        def run(x: torch.Tensor, h: torch.Tensor, weights: list[torch.Tensor] = weights) -> Any:
            return function(x, h, weights, True, 1, 0.0, False, directions == 2, False)

        for batch in (0, 2):
            check(run, torch.randn(4, batch, features), torch.randn(directions, batch, size))


@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_projections(form: dict[str, Any], opset: int) -> None:
    module = nn.LSTM(4, 5, proj_size=3, **form).eval()
    dynamic = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    check(module, torch.randn(5, 2, 4), dynamic=[dynamic], also=[(torch.randn(3, 6, 4),)], opset=opset)
    check(module.half(), torch.randn(5, 2, 4).half(), opset=opset, rtol=1e-3, atol=1e-3)  # PyTorch rounds each step


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("layer", LAYERS)
def test_float64(layer: str, form: dict[str, Any]) -> None:
    module = LAYERS[layer](4, 3, **form).double().eval()
    dynamic = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    x, other = torch.randn(5, 2, 4).double(), torch.randn(3, 6, 4).double()
    check(module, x, dynamic=[dynamic], also=[(other,)])
    cell = CELLS[layer](4, 3).double().eval()
    check(lambda x: cell(x[0]), x)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "tanh"])  # ONNX's reference implementation has no Relu here
def test_float64_is_one_node_of_the_standard(layer: str, tmp_path: pathlib.Path) -> None:
    model = LAYERS[layer](4, 3).double().eval()
    x = torch.rand(5, 2, 4, dtype=torch.float64)
    exported = opbridge.export(model, (x,), tmp_path / "model.onnx", target="onnx").model_proto
    assert sum(node.op_type in ("LSTM", "GRU", "RNN") for node in exported.graph.node) == 1
    expected = model(x)[0].detach().numpy()
    actual = ReferenceEvaluator(exported).run(None, {exported.graph.input[0].name: x.numpy()})[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_integers_are_refused_by_name() -> None:
    cell = torch.ops.aten.rnn_relu_cell.default
    x, w = torch.zeros(1, 3, dtype=torch.int64), torch.zeros(3, 3, dtype=torch.int64)
    with pytest.raises(opbridge.UnsupportedError, match="recurrent layers of integers"):
        check(lambda x, w: cell(x, x, w, w), x, w)


@pytest.mark.parametrize("layer", LAYERS)
def test_no_sequences(layer: str) -> None:
    for form in ({}, {"bidirectional": True, "num_layers": 2}):
        check(LAYERS[layer](4, 3, **form).eval(), torch.rand(5, 0, 4))
    cell = CELLS[layer](4, 3).eval()
    check(cell, torch.rand(0, 4))
    check(lambda x: cell(x[x[:, 0] > 0]), torch.rand(2, 4), also=[(-torch.rand(2, 4),)])


@pytest.mark.parametrize("cell", ["rnn_relu_cell", "gru_cell"])
def test_biases_of_one_number(cell: str) -> None:
    gates = 3 if cell == "gru_cell" else 1
    x, w, b = torch.randn(2, 4), torch.randn(4 * gates, 4), torch.randn(1)
    check(lambda x, w, b: getattr(torch.ops.aten, cell).default(x, x, w, w, b, b), x, w, b)
    check(lambda x, w, b: getattr(torch.ops.aten, cell).default(x, x, w, w, b, b[None]), x, w, b)


@pytest.mark.parametrize("layer", [torch.gru, torch.rnn_tanh])
def test_a_state_of_another_batch_is_refused(layer: Any) -> None:
    """PyTorch broadcasts the sequences to the states."""
    gates = 3 if layer is torch.gru else 1
    weights = [torch.rand(3 * gates, 2), torch.rand(3 * gates, 3)]

    def function(x: torch.Tensor) -> Any:
        return layer(x, torch.ones(1, 4, 3), weights, False, 1, 0.0, False, False, False)

    check(function, torch.rand(5, 4, 2))
    with pytest.raises(opbridge.UnsupportedError, match="is for 4 sequences, but the input has"):
        check(function, torch.rand(5, 4, 2), dynamic=[{1: Dim.DYNAMIC}])
    with pytest.raises(opbridge.UnsupportedError, match="is for 4 sequences, but the input has 1"):
        check(function, torch.rand(5, 1, 2))


def of_onednn(reverse: bool, has_biases: bool = True, **changed: Any) -> Any:
    options = {"batch_sizes": [], "mode": 2, "hidden_size": 4, "num_layers": 1, "has_biases": has_biases}
    options |= {"bidirectional": False, "batch_first": False, "train": False} | changed
    return lambda *tensors: torch.ops.aten.mkldnn_rnn_layer(*tensors, reverse, **options)[:3]


def inputs_of_onednn(length: int = 5, batch: int = 2) -> tuple[torch.Tensor, ...]:
    states = torch.randn(1, batch, 4), torch.randn(1, batch, 4)
    return torch.randn(length, batch, 3), *(torch.randn(size) for size in ((16, 3), (16, 4), 16, 16)), *states


@pytest.mark.parametrize("opset", [11, 21])
def test_the_layer_of_onednn(opset: int) -> None:
    functions = {
        f"reverse {reverse}, biases {has_biases}": of_onednn(reverse, has_biases)
        for reverse in (False, True)
        for has_biases in (False, True)
    }
    check(functions, *inputs_of_onednn(), opset=opset)


def test_the_layer_of_onednn_with_dynamic_sizes() -> None:
    inputs = inputs_of_onednn()
    dynamic = [{0: "length", 1: "batch"}, {}, {}, {}, {}, {1: "batch"}, {1: "batch"}]
    functions = {str(reverse): of_onednn(reverse) for reverse in (False, True)}
    also = [inputs_of_onednn(length, batch) for length, batch in ((7, 3), (1, 1))]
    check(functions, *inputs, dynamic=dynamic, also=[(x, *inputs[1:5], *rest[4:]) for x, *rest in also])


def test_a_trace_of_the_layer_of_onednn(tmp_path: pathlib.Path) -> None:
    """Its call has no fourth result, unlike one that torch.export captures."""
    opbridge.export(Model(of_onednn(False)), inputs_of_onednn(), tmp_path / "model.onnx", capture="trace", verify=True)


@pytest.mark.parametrize("changed", [{"num_layers": 2}, {"bidirectional": True}, {"batch_sizes": [2] * 5}])
def test_what_the_layer_of_onednn_ignores_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="PyTorch's kernel ignores num_layers"):
        check(of_onednn(False, **changed), *inputs_of_onednn())
