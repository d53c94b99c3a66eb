"""`opbridge compare` lists what differs between two ONNX models, as text and as a page."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from command import opbridge, refusal
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import opbridge as package


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 64), nn.Linear(64, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).relu())


class Other(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


X = torch.randn(2, 4)


def compared(folder: Path, *options: Any) -> tuple[int, str]:
    done = opbridge("compare", folder / "a.onnx", folder / "b.onnx", *options)
    assert done.stderr == ""
    return done.returncode, done.stdout


def test_the_same_model(tmp_path: Path) -> None:
    for name in ("a", "b"):
        package.export(Net(), (X,), tmp_path / f"{name}.onnx")
    status, text = compared(tmp_path)
    assert status == 0
    assert text.endswith("\nThe models are the same, up to names.\n")
    assert "differ" not in text


def test_other_names_alone(tmp_path: Path) -> None:
    package.export(Net(), (X,), tmp_path / "a.onnx")
    model = onnx.load(tmp_path / "a.onnx")
    inner = {name: f"new_{name}" for node in model.graph.node for name in node.output}
    inner = {old: new for old, new in inner.items() if old not in {o.name for o in model.graph.output}}
    inner |= {each.name: f"renamed.{each.name}" for each in model.graph.initializer}
    for node in model.graph.node:
        node.input[:] = [inner.get(name, name) for name in node.input]
        node.output[:] = [inner.get(name, name) for name in node.output]
        node.name = f"n_{node.name}"
    for each in (*model.graph.initializer, *model.graph.value_info):
        each.name = inner[each.name]
    onnx.save(model, tmp_path / "b.onnx")
    status, text = compared(tmp_path)
    assert status == 0, text
    assert f"{len(model.graph.initializer)} initializers differ only in name" in text


def test_another_operator_weight_and_opset(tmp_path: Path) -> None:
    other = Other()
    with torch.no_grad():
        other.second.bias += 0.5
    package.export(Net(), (X,), tmp_path / "a.onnx")
    package.export(other, (X,), tmp_path / "b.onnx", opset_version=18, dynamic_axes={"x": {0: "n"}})
    status, text = compared(tmp_path)
    assert status == 1
    rows = {line.split("  ")[1].strip(): line.split()[-2:] for line in text.splitlines() if line.startswith("  ")}
    assert rows["opset ai.onnx"] == ["21", "18"]
    assert rows["Relu"] == ["1", "0"]
    assert rows["Tanh"] == ["0", "1"]
    assert "  - Relu → %Relu:out: float32[2, 64]" in text
    assert "  + Tanh → %Tanh:out: float32[n, 64]" in text
    assert "~ x" in text
    assert "float32[2, 4] | float32[n, 4]" in text
    assert "second.bias" in text
    assert "3 of 3 elements differ, by at most 0.5" in text
    assert "first.bias" not in text
    assert text.endswith("\nThe models differ.\n")


def model_of(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y", "out")]
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", values[:2], values[2:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def verdict(folder: Path, a: onnx.ModelProto, b: onnx.ModelProto) -> tuple[int, str]:
    onnx.save(a, folder / "a.onnx")
    onnx.save(b, folder / "b.onnx")
    return compared(folder)


def test_inputs_in_another_order(tmp_path: Path) -> None:
    a = model_of([helper.make_node("Sub", ["x", "y"], ["out"])])
    b = model_of([helper.make_node("Sub", ["y", "x"], ["out"])])
    status, text = verdict(tmp_path, a, b)
    assert status == 1
    assert "~ Sub → %out: float32[2]  input 0: %x | %y" in text


def test_another_result_is_returned(tmp_path: Path) -> None:
    def of(out: str) -> onnx.ModelProto:
        nodes = [helper.make_node("Neg", ["x"], ["p"]), helper.make_node("Neg", ["y"], ["q"])]
        model = model_of([*nodes])
        for node in model.graph.node:
            node.output[0] = "out" if node.output[0] == out else node.output[0]
        return model

    status, text = verdict(tmp_path, of("p"), of("q"))
    assert status == 1
    assert "~ out" in text
    assert "another value" in text


@pytest.mark.parametrize("what", ["attribute", "constant", "weight", "body", "function"])
def test_small_differences(what: str, tmp_path: Path) -> None:
    def of(number: int) -> onnx.ModelProto:
        if what == "attribute":
            return model_of([helper.make_node("LeakyRelu", ["x"], ["out"], alpha=float(number))])
        if what == "constant":
            value = helper.make_tensor("v", TensorProto.FLOAT, [2], [1, number])
            return model_of(
                [helper.make_node("Constant", [], ["c"], value=value), helper.make_node("Add", ["x", "c"], ["out"])]
            )
        if what == "weight":
            return model_of([helper.make_node("Add", ["x", "w"], ["out"])], {"w": np.float32([1, number])})
        if what == "function":
            body = [helper.make_node("LeakyRelu", ["a"], ["b"], alpha=float(number))]
            function = helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
            model = model_of([helper.make_node("F", ["x"], ["out"], domain="local")])
            model.opset_import.append(helper.make_opsetid("local", 1))
            model.functions.append(function)
            return model
        branch = helper.make_graph(
            [helper.make_node("LeakyRelu", ["x"], ["b"], alpha=float(number))],
            "branch",
            [],
            [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])],
        )
        flag = helper.make_tensor("v", TensorProto.BOOL, [], [True])
        return model_of(
            [
                helper.make_node("Constant", [], ["c"], value=flag),
                helper.make_node("If", ["c"], ["out"], then_branch=branch, else_branch=branch),
            ]
        )

    assert verdict(tmp_path, of(2), of(2))[0] == 0
    status, text = verdict(tmp_path, of(2), of(3))
    assert status == 1, text


def test_long_sequences_are_aligned(tmp_path: Path) -> None:
    """Against the longest common subsequence by dynamic programming."""
    rng = random.Random(0)
    for _ in range(12):
        kinds = ["Neg", "Abs", "Relu", "Exp"]
        first = [rng.choice(kinds) for _ in range(rng.randrange(0, 30))]
        second = [rng.choice(kinds) for _ in range(rng.randrange(0, 30))]
        longest = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
        for i, a in enumerate(first):
            for j, b in enumerate(second):
                longest[i + 1][j + 1] = longest[i][j] + 1 if a == b else max(longest[i][j + 1], longest[i + 1][j])

        def chain(kinds: list[str]) -> onnx.ModelProto:
            names = ["x", *(f"v{i}" for i in range(len(kinds)))]
            nodes = [helper.make_node(kind, [names[i]], [names[i + 1]]) for i, kind in enumerate(kinds)]
            return model_of([*nodes, helper.make_node("Sqrt", [names[-1]], ["out"])])

        _, text = verdict(tmp_path, chain(first), chain(second))
        removed = sum(line.startswith("  - ") for line in text.splitlines())
        added = sum(line.startswith("  + ") for line in text.splitlines())
        assert removed + added == len(first) + len(second) - 2 * longest[-1][-1]


def test_a_page(tmp_path: Path) -> None:
    package.export(Net(), (X,), tmp_path / "a.onnx")
    package.export(Other(), (X,), tmp_path / "b.onnx")
    status, text = compared(tmp_path, "--html", tmp_path / "page.html")
    assert (status, text) == (1, "")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert '<tr class="gone"><td>Relu → %Relu:out: float32[2, 64]' in page
    assert '<tr class="new"><td></td><td>Tanh → %Tanh:out: float32[2, 64]' in page


def test_no_page_replaces_a_model(tmp_path: Path) -> None:
    onnx.save(model_of([helper.make_node("Neg", ["x"], ["out"])]), tmp_path / "a.onnx")
    onnx.save(model_of([helper.make_node("Abs", ["x"], ["out"])]), tmp_path / "b.onnx")
    for name in ("a.onnx", "b.onnx"):
        before = (tmp_path / name).read_bytes()
        line = refusal("compare", tmp_path / "a.onnx", tmp_path / "b.onnx", "--html", tmp_path / name)
        assert "both the input and the output" in line
        assert (tmp_path / name).read_bytes() == before


def test_names_are_text_in_the_page(tmp_path: Path) -> None:
    a = model_of(
        [helper.make_node("Neg", ["x"], ["<script>alert(1)</script>"]), helper.make_node("Neg", ["y"], ["out"])]
    )
    b = model_of([helper.make_node("Neg", ["y"], ["out"])])
    onnx.save(a, tmp_path / "a.onnx")
    onnx.save(b, tmp_path / "b.onnx")
    compared(tmp_path, "--html", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_what_is_no_model(tmp_path: Path) -> None:
    onnx.save(model_of([helper.make_node("Neg", ["x"], ["out"])]), tmp_path / "a.onnx")
    assert "b.onnx" in refusal("compare", tmp_path / "a.onnx", tmp_path / "b.onnx")
    torch.export.save(torch.export.export(nn.ReLU(), (X,)), tmp_path / "m.pt2")
    assert "it is a zip archive, like a .pt2 file" in refusal("compare", tmp_path / "a.onnx", tmp_path / "m.pt2")
