"""Attributes of every ONNX kind, from a symbolic function to the file and to ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from symbolic_models import export

import opbridge
from checking.runtime import run_plain
from opbridge.symbolics import SequenceType, ValueType

X = torch.arange(6, dtype=torch.float32).reshape(2, 3)
FLOAT = ValueType(TensorProto.FLOAT, [2, 3])
DENSE = torch.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]])


def written(path: Path, **attributes: Any) -> AttributeProto:
    """The attribute of a custom node, as onnx reads it from the file."""
    model = export(
        lambda g, x: g.op("custom::f", x, **attributes), path, lambda x: x.clone(), X, custom_opsets={"custom": 3}
    )
    assert {each.domain: each.version for each in model.opset_import}["custom"] == 3
    (node,) = model.graph.node
    assert (node.domain, node.op_type) == ("custom", "f")
    (attribute,) = node.attribute
    return attribute


@pytest.mark.parametrize(
    ("attribute", "kind", "value"),
    [
        ({"a_i": 7}, AttributeProto.INT, 7),
        ({"a_f": 0.5}, AttributeProto.FLOAT, 0.5),
        ({"a_s": "grüß"}, AttributeProto.STRING, "grüß".encode()),
        ({"a_i": [-1, 2**40]}, AttributeProto.INTS, [-1, 2**40]),
        ({"a_f": [1, 2.5]}, AttributeProto.FLOATS, [1.0, 2.5]),
        ({"a_s": ["x", ""]}, AttributeProto.STRINGS, [b"x", b""]),
        ({"a": True}, AttributeProto.INT, 1),
        ({"a": [1.5]}, AttributeProto.FLOATS, [1.5]),
        ({"a_i": torch.float16}, AttributeProto.INT, TensorProto.FLOAT16),
    ],
)
def test_numbers_and_text(tmp_path: Path, attribute: dict[str, Any], kind: int, value: Any) -> None:
    read = written(tmp_path / "m.onnx", **attribute)
    assert (read.name, read.type) == ("a", kind)
    assert helper.get_attribute_value(read) == value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int8, torch.complex64, torch.float64])
def test_a_tensor(tmp_path: Path, dtype: torch.dtype) -> None:
    read = written(tmp_path / "m.onnx", a_t=X.to(dtype))
    assert read.type == AttributeProto.TENSOR
    np.testing.assert_array_equal(numpy_helper.to_array(read.t), X.to(dtype).numpy())


def test_tensors(tmp_path: Path) -> None:
    read = written(tmp_path / "m.onnx", a_t=[X, torch.tensor(3), torch.zeros(0, 2)])
    assert read.type == AttributeProto.TENSORS
    assert [numpy_helper.to_array(each).shape for each in read.tensors] == [(2, 3), (), (0, 2)]
    np.testing.assert_array_equal(numpy_helper.to_array(read.tensors[0]), X.numpy())


@pytest.mark.parametrize("text", ["", "one", ["a", "", "grüß"], [["a", "b"], ["c", "d"]]])
def test_a_tensor_of_text(tmp_path: Path, text: Any) -> None:
    read = written(tmp_path / "m.onnx", a_t=text)
    assert (read.type, read.t.data_type) == (AttributeProto.TENSOR, TensorProto.STRING)
    array = np.asarray(text)
    assert tuple(read.t.dims) == array.shape
    assert [each.decode() for each in read.t.string_data] == array.reshape(-1).tolist()


def test_sparse_tensors(tmp_path: Path) -> None:
    read = written(tmp_path / "m.onnx", a_t=DENSE.to_sparse())
    assert read.type == AttributeProto.SPARSE_TENSOR
    assert list(read.sparse_tensor.dims) == [2, 3]
    np.testing.assert_array_equal(numpy_helper.to_array(read.sparse_tensor.values), [2, 3])
    np.testing.assert_array_equal(numpy_helper.to_array(read.sparse_tensor.indices), [[0, 1], [1, 0]])

    read = written(tmp_path / "m.onnx", a_t=[DENSE.to_sparse(), torch.zeros(4).to_sparse()])
    assert read.type == AttributeProto.SPARSE_TENSORS
    assert [list(each.dims) for each in read.sparse_tensors] == [[2, 3], [4]]


def test_types(tmp_path: Path) -> None:
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 3])
    unranked = helper.make_tensor_type_proto(TensorProto.INT64, None)
    read = written(tmp_path / "m.onnx", a_tp=FLOAT)
    assert (read.type, read.tp) == (AttributeProto.TYPE_PROTO, tensor)
    read = written(tmp_path / "m.onnx", a=SequenceType(FLOAT))
    assert (read.type, read.tp) == (AttributeProto.TYPE_PROTO, helper.make_sequence_type_proto(tensor))
    read = written(tmp_path / "m.onnx", a_tp=[FLOAT, ValueType(TensorProto.INT64, None)])
    assert (read.type, list(read.type_protos)) == (AttributeProto.TYPE_PROTOS, [tensor, unranked])


def test_graphs(tmp_path: Path) -> None:
    def symbolic(g: Any, x: Any) -> Any:
        bodies = [
            g.subgraph("negate", [x], lambda g, y: g.op("Neg", y)),
            g.subgraph("both", [x, FLOAT], lambda g, a, b: (g.op("Add", a, b), g.op("Mul", a, x))),
        ]
        return g.op("custom::f", x, a_g=bodies[0], b_g=bodies[1:])

    model = export(symbolic, tmp_path / "m.onnx", lambda x: x.clone(), X)
    one, several = model.graph.node[0].attribute
    assert (one.type, several.type) == (AttributeProto.GRAPH, AttributeProto.GRAPHS)
    assert [node.op_type for node in one.g.node] == ["Neg"]
    assert [node.op_type for node in several.graphs[0].node] == ["Add", "Mul"]
    assert [len(several.graphs[0].input), len(several.graphs[0].output)] == [2, 2]


def test_the_bytes_are_those_that_protobuf_itself_writes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    written(path, a_tp=[FLOAT])
    assert onnx.load(path).SerializeToString() == path.read_bytes()
    written(path, a_t=[DENSE.to_sparse()])
    assert onnx.load(path).SerializeToString() == path.read_bytes()
    written(path, a_t=["a", "b"])
    assert onnx.load(path).SerializeToString() == path.read_bytes()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"a_tp": 3}, "ValueType"),
        ({"a_g": X}, "g.subgraph"),
        ({"a_t": [X, DENSE.to_sparse()]}, "not both"),
        ({"a_t": DENSE.to_sparse_csr()}, "COO"),
        ({"a_tp": ValueType(0, [2])}, "no ONNX attribute can hold"),
    ],
)
def test_refuses_what_is_of_no_kind(tmp_path: Path, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, opbridge.Error), match=message):
        written(tmp_path / "m.onnx", **attributes)


CONSTANTS = {
    "value_float_f": (1.5, np.float32(1.5)),
    "value_floats_f": ([1.5, 2, 3], np.array([1.5, 2, 3], np.float32)),
    "sparse_value_t": (DENSE.to_sparse(), DENSE.numpy()),
    "value_t": (DENSE, DENSE.numpy()),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_every_form_of_constant_runs(tmp_path: Path, name: str) -> None:
    value, expected = CONSTANTS[name]

    def symbolic(g: Any, x: Any) -> Any:
        constant = g.op("Constant", **{name: value})
        assert constant.type().scalarType() == "Float"
        assert constant.type().sizes() == list(expected.shape)
        return g.op("Add", x, constant)

    export(symbolic, tmp_path / "m.onnx", lambda x: x + torch.as_tensor(expected), X)
    np.testing.assert_array_equal(run_plain(tmp_path / "m.onnx", X)[0], X.numpy() + expected)


def test_types_and_text_run(tmp_path: Path) -> None:
    """An empty Optional has a type of its own; Cast converts text to numbers."""

    def symbolic(g: Any, x: Any) -> Any:
        empty = g.op("Optional", type_tp=x.type())
        has = g.op("Cast", g.op("OptionalHasElement", empty), to_i=TensorProto.FLOAT)
        numbers = g.op("Cast", ["1.5", "2", "-3"], to_i=TensorProto.FLOAT)
        more = g.op("Cast", g.op("Constant", value_strings_s=["1", "1", "1"]), to_i=TensorProto.FLOAT)
        return g.op("Add", g.op("Add", g.op("Add", x, has), numbers), more)

    export(symbolic, tmp_path / "m.onnx", lambda x: x + 1, X)
    np.testing.assert_array_equal(run_plain(tmp_path / "m.onnx", X)[0], X.numpy() + np.array([2.5, 3, -2], np.float32))


def test_nodes_with_several_outputs(tmp_path: Path) -> None:
    def symbolic(g: Any, x: Any) -> Any:
        values, indices = g.op("TopK", x, torch.tensor([2]), axis_i=1, outputs=2)
        return values, indices

    export(symbolic, tmp_path / "m.onnx", lambda x: tuple(torch.topk(x, 2, dim=1)), X)
    values, indices = run_plain(tmp_path / "m.onnx", X)
    np.testing.assert_array_equal(values, torch.topk(X, 2, dim=1).values.numpy())
    np.testing.assert_array_equal(indices, torch.topk(X, 2, dim=1).indices.numpy())
