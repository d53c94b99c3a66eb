"""`opbridge inspect` on ONNX models of other exporters."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import torch
from command import opbridge, refusal
from onnx import TensorProto, helper, numpy_helper


def summary(model: onnx.ModelProto, folder: Path) -> dict:
    path = folder / "model.onnx"
    onnx.save(model, path)
    done = opbridge("inspect", path, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make_model(graph: onnx.GraphProto, **options: object) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("custom", 2), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, producer_name="a test", **options)


def float_value(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def test_counts_what_the_model_holds(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((8, 16), np.float32), "w")
    typed = helper.make_tensor("half", TensorProto.FLOAT16, [3], [0.5, 1, 2])
    packed = helper.make_tensor("int4", TensorProto.INT4, [5], [1, 2, 3, -4, 5])
    words = helper.make_tensor("words", TensorProto.STRING, [2], [b"a", b"b"])
    then = helper.make_graph([helper.make_node("Neg", ["y"], ["t"])], "then", [], [float_value("t", None, 16)])
    otherwise = helper.make_graph(
        [helper.make_node("custom_inside", ["y"], ["e"], domain="custom")], "else", [], [float_value("e", None, 16)]
    )
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("deeper", ["b"], ["c"], domain="custom")]
    function = helper.make_function("local", "F", ["a"], ["c"], body, [helper.make_opsetid("", 21)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("If", ["flag"], ["z"], then_branch=then, else_branch=otherwise),
        helper.make_node("F", ["z"], ["out"], domain="local"),
    ]
    inputs = [float_value("x", "batch", 8), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", inputs, [float_value("out", "batch", None)], [weight, typed, packed, words])
    told = summary(make_model(graph, functions=[function]), tmp_path)
    assert told["producer"] == "a test"
    assert told["ir_version"] == 10
    assert {o["domain"]: o["version"] for o in told["opsets"]} == {"": 21, "custom": 2, "local": 1}
    assert told["inputs"] == [{"name": "x", "type": "float32[batch, 8]"}, {"name": "flag", "type": "bool[]"}]
    assert {o["op"]: o["count"] for o in told["operators"]} == {
        "MatMul": 1, "If": 1, "Neg": 1, "local::F": 1, "custom::custom_inside": 1,
    }  # fmt: skip
    assert {t["type"]: t["bytes"] for t in told["weights"]["by_type"]} == {
        "float32": 512, "float16": 6, "int4": 3, "string": 2,
    }  # fmt: skip
    assert told["functions"] == [{"name": "local::F", "operators": ["Relu", "custom::deeper"]}]
    assert {o["op"] for o in told["custom_operators"]} == {"custom::custom_inside", "custom::deeper"}


def test_reads_models_of_the_first_versions(tmp_path: Path) -> None:
    """Initializers that are also inputs, attributes without a type."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[2, 2], auto_pad="SAME_UPPER")
    for attribute in node.attribute:
        attribute.ClearField("type")
    weight = numpy_helper.from_array(np.zeros((4, 3, 1, 1), np.float32), "w")
    inputs = [float_value("x", 1, 3, 8, 8), float_value("w", 4, 3, 1, 1)]
    graph = helper.make_graph([node], "g", inputs, [float_value("y", 1, 4, 4, 4)], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 7)], ir_version=3)
    assert [i["name"] for i in summary(model, tmp_path)["inputs"]] == ["x"]
    done = opbridge("inspect", tmp_path / "model.onnx", "--graph")
    assert 'Conv(%x, %w, auto_pad="SAME_UPPER", strides=[2, 2])' in done.stdout


def test_reads_types_and_attributes_that_it_has_no_form_for(tmp_path: Path) -> None:
    element = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("Optional", [], ["o"], type=element),
        helper.make_node("SequenceConstruct", ["x", "x"], ["s"]),
    ]
    outputs = [
        helper.make_value_info("o", helper.make_optional_type_proto(element)),
        helper.make_value_info("s", helper.make_sequence_type_proto(element)),
    ]
    told = summary(make_model(helper.make_graph(nodes, "g", [float_value("x", 2)], outputs)), tmp_path)
    assert told["outputs"] == [{"name": "o", "type": "undefined[...]"}, {"name": "s", "type": "(float32[2])"}]


def test_draws_a_page(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", [float_value("x", 2)], [float_value("y", 2)]
    )
    onnx.save(make_model(graph), tmp_path / "m.onnx")
    done = opbridge("inspect", tmp_path / "m.onnx", "--html", tmp_path / "m.html")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "m.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert '"op":"Relu"' in page


def test_no_page_replaces_what_is_read(tmp_path: Path) -> None:
    weights = onnx.numpy_helper.from_array(np.zeros(2000, np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["y"])], "g", [float_value("x", 2000)], [float_value("y", 2000)], [weights]
    )
    onnx.save(make_model(graph), tmp_path / "m.onnx", save_as_external_data=True, location="w.data")
    (tmp_path / "link.html").symlink_to(tmp_path / "m.onnx")
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(2),))
    torch.export.save(program, tmp_path / "p.pt2")
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for model, page in [
        ("m.onnx", "m.onnx"),
        ("m.onnx", "link.html"),
        ("m.onnx", "w.data"),
        ("m.onnx", f"../{tmp_path.name}/m.onnx"),
        ("p.pt2", "p.pt2"),
    ]:
        line = refusal("inspect", tmp_path / model, "--html", tmp_path / page)
        assert f"{tmp_path / page} is both the input and the output" in line
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_refuses_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("not a model")
    graph = helper.make_graph([helper.make_node("Relu", ["nowhere"], ["y"])], "g", [], [float_value("y", 2)])
    onnx.save(make_model(graph), tmp_path / "undefined.onnx")
    for name, reason in [("missing.onnx", "no such file"), ("text.onnx", "protobuf"), ("undefined.onnx", "nowhere")]:
        line = refusal("inspect", tmp_path / name)
        assert line.startswith(f"opbridge: cannot read {tmp_path / name}: ")
        assert reason in line
