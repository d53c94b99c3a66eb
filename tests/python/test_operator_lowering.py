"""Operators with a lowering to standard ONNX: their models run without their library."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from not_compiling import compile_errors

import opbridge
from checking.runtime import run_plain
from opbridge import operators
from opbridge.operator_build import build

ROOT = Path(__file__).parents[2]
os.environ.setdefault("OPBRIDGE_CACHE", str(ROOT / "build/operator-cache"))


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    operators.load_operators(build([ROOT / "tests/python/lowered_ops.cc"], flags=["-Wall", "-Wextra", "-Werror"]))


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(torch.ops.lowered, *inputs)


def node_types(path: Path) -> list[str]:
    return [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in onnx.load(path).graph.node]


def check(
    path: Path,
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    others: tuple[torch.Tensor, ...] = (),
    **options: Any,
) -> list[str]:
    """Exports the call; plain ONNX Runtime must compute the same as PyTorch. Returns the nodes' types."""
    model = Call(function)
    opbridge.export(model, inputs, path, **options)
    for values in filter(None, (inputs, others)):
        expected = model(*values)
        for result, tensor in zip(
            run_plain(path, *values), [expected] if torch.is_tensor(expected) else expected, strict=True
        ):
            np.testing.assert_allclose(result, tensor.numpy(), rtol=1e-5, atol=1e-6)
            assert result.dtype == tensor.numpy().dtype
    return node_types(path)


def test_the_table_says_from_which_opset() -> None:
    since = {operator.name: operator.lowered_since for operator in operators.loaded_operators()}
    assert since["lowered::hard_clip"] == 11
    assert since["lowered::softened"] == 10
    assert since["lowered::unsaid"] is None


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_one_node_in_its_place(tmp_path: Path, capture: Any, dtype: torch.dtype) -> None:
    x = torch.linspace(-5, 5, 7, dtype=dtype)
    types = check(tmp_path / "m.onnx", lambda ops, x: ops.hard_clip(x, 2.5), x, capture=capture)
    assert types == ["Clip"]


def test_below_its_opset_its_own_node_stands(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    x = (torch.randn(3),)
    opbridge.export(Call(lambda ops, x: ops.hard_clip(x)), x, path, opset_version=10)
    assert node_types(path) == ["lowered::hard_clip"]
    opbridge.export(Call(lambda ops, x: ops.hard_clip(x)), x, path, opset_version=11)
    assert node_types(path) == ["Clip"]


@pytest.mark.parametrize(
    ("opset", "types"),
    [(9, ["lowered::softened"]), (10, ["Mul", "Max"]), (16, ["Mul", "Max"]), (17, ["LeakyRelu"]), (21, ["LeakyRelu"])],
)
def test_the_greatest_opset_that_holds_wins(tmp_path: Path, opset: int, types: list[str]) -> None:
    path = tmp_path / "m.onnx"
    x = torch.randn(3)
    if opset == 9:
        opbridge.export(Call(lambda ops, x: ops.softened(x)), (x,), path, opset_version=opset)
        assert node_types(path) == types
    else:
        assert check(path, lambda ops, x: ops.softened(x), x, opset_version=opset) == types


def test_what_a_user_registers_wins(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.symbolic("lowered::hard_clip", opset=9)(lambda g, x, limit: g.op("Identity", x))
    try:
        opbridge.export(Call(lambda ops, x: ops.hard_clip(x).exp()), (torch.randn(3),), path, simplify=False)
    finally:
        opbridge.unregister_custom_op_symbolic("lowered::hard_clip", 9)
    assert node_types(path) == ["Identity", "Exp"]


@pytest.mark.parametrize("with_shift", [False, True])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_optional_and_list_inputs_and_every_attribute(tmp_path: Path, with_shift: bool, count: int) -> None:
    def call(ops: Any, x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        shift, more = (rest[0], rest[1:]) if with_shift else (None, rest)
        given = (7, 0.5, True, "text", [1, 2], [0.25, 4.0], [True, False, True], ["", "ab"])
        return ops.total(x, shift, list(more), *given) + ops.total(x, shift, list(more), *given, maybe=-3, pair=[5, 6])

    inputs = [torch.randn(2, 3, dtype=torch.float64) for _ in range(1 + with_shift + count)]
    types = check(tmp_path / "m.onnx", call, *inputs)
    assert not [t for t in types if "::" in t]


@pytest.mark.parametrize("opset", [10, 13, 18, 21])
def test_open_sizes(tmp_path: Path, opset: int) -> None:
    rows, columns, count = (torch.export.Dim(name) for name in ("rows", "columns", "count"))
    types = check(
        tmp_path / "m.onnx",
        lambda ops, x, y: ops.centered(x, 3, [y.shape[0] + 1]),
        torch.randn(2, 7),
        torch.randn(4),
        others=(torch.randn(5, 12), torch.randn(1)),
        dynamic_shapes={"inputs": ({0: rows, 1: columns}, {0: count})},
        opset_version=opset,
    )
    assert "Reshape" in types
    assert not [t for t in types if "::" in t]


def test_several_results(tmp_path: Path) -> None:
    types = check(tmp_path / "m.onnx", lambda ops, x: ops.two_largest(x), torch.tensor([3.0, 9.0, 1.0, 5.0]))
    assert types[0] == "TopK"


def test_a_list_of_results_with_open_sizes(tmp_path: Path) -> None:
    types = check(
        tmp_path / "m.onnx",
        lambda ops, x: ops.halves(x),
        torch.arange(5.0),
        others=(torch.arange(8.0),),
        dynamic_shapes={"inputs": ({0: torch.export.Dim("n", min=2)},)},
    )
    assert "Split" in types


@pytest.mark.parametrize("opset", [9, 11, 13, 18, 21])
def test_forms_that_change_with_the_opset(tmp_path: Path, opset: int) -> None:
    n = torch.export.Dim("n")
    types = check(
        tmp_path / "m.onnx",
        lambda ops, x: ops.forms(x),
        torch.randn(3, 4),
        others=(torch.randn(6, 4),),
        dynamic_shapes={"inputs": ({0: n},)},
        opset_version=opset,
    )
    assert not [t for t in types if "::" in t]


@pytest.mark.parametrize("simplify", [True, False])
def test_a_lowering_leaves_a_call_to_the_own_node(tmp_path: Path, simplify: bool) -> None:
    path = tmp_path / "m.onnx"
    x = torch.randn(3)
    opbridge.export(Call(lambda ops, x: ops.same(x, "own")), (x,), path, simplify=simplify, verify=True)
    assert node_types(path)[-1] == "lowered::same"
    assert check(path, lambda ops, x: ops.same(x, "plain").exp(), x, simplify=False) == ["Identity", "Exp"]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("require", r"lowered::same: standard ONNX has no such thing"),
        ("attribute", r'g.op\("Identity"\) \(in the symbolic function lowered::same\): no attribute "axis"'),
        ("name", r"ONNX has no operator of this name; did you mean Identity"),
        ("type", r"lowered::same: the mapping gives float64, PyTorch gives float32"),
        ("compare", r"lowered::same: its lowering compares the sizes n and 9, which are known only when"),
        ("number", r"lowered::same: a size is symbolic where a number is needed"),
    ],
)
def test_errors_name_the_operator_and_the_line(tmp_path: Path, how: str, message: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"what stood there")
    model = Call(lambda ops, x: ops.same(x, how))
    with pytest.raises(opbridge.Error, match=message) as caught:
        opbridge.export(model, (torch.randn(3),), path, dynamic_shapes={"inputs": ({0: torch.export.Dim("n")},)})
    assert "test_operator_lowering.py:" in str(caught.value)
    if how in ("attribute", "name"):
        assert isinstance(caught.value, opbridge.InvalidNodeError)
    assert path.read_bytes() == b"what stood there"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    ("lowering", "message"),
    [
        ("(GraphBuilder&, Value x) { return x; }", "a lowering takes GraphBuilder&, then each argument"),
        ("(GraphBuilder&, Value x, const Shape&) { return x; }", "a parameter of the lowering does not fit"),
        ("(GraphBuilder&, Value x, Value) { return std::tuple{x, x}; }", "a lowering returns Value for Tensor"),
    ],
)
def test_a_lowering_that_does_not_fit_its_schema_does_not_compile(tmp_path: Path, lowering: str, message: str) -> None:
    errors = compile_errors(
        tmp_path,
        'OPBRIDGE_OPERATOR("lowered::wrong(Tensor x, Tensor y) -> Tensor")\n'
        "    .shape([](const Shape& x, const Shape&) { return x; })\n"
        f"    .onnx(Since{{9}}, []{lowering});\n",
    )
    assert message in errors
