"""Bodies that a symbolic function builds by g.subgraph: If, Loop and Scan, as ONNX Runtime runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import TensorProto
from symbolic_models import export

import opbridge
from checking.runtime import run_plain
from opbridge.symbolics import ValueType

X = torch.arange(1, 7, dtype=torch.float32).reshape(2, 3)
CONDITION = ValueType(TensorProto.BOOL, [])
ITERATION = ValueType(TensorProto.INT64, [])


def is_positive(g: Any, x: Any) -> Any:
    return g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), 0.0)


def test_if_uses_values_from_outside(tmp_path: Path) -> None:
    def symbolic(g: Any, x: Any) -> Any:
        doubled = g.op("Mul", x, 2.0)
        then = g.subgraph("then", [], lambda g: g.op("Add", doubled, 1.0))
        otherwise = g.subgraph("else", [], lambda g: x)  # from outside: passed through an Identity
        result = g.op("If", is_positive(g, x), then_branch_g=then, else_branch_g=otherwise)
        assert result.type().scalarType() == "Float"
        assert result.type().sizes() == [2, 3]
        return result

    export(symbolic, tmp_path / "m.onnx", lambda x: x * 2 + 1 if x.sum() > 0 else x.clone(), X)
    np.testing.assert_array_equal(run_plain(tmp_path / "m.onnx", X)[0], X.numpy() * 2 + 1)
    np.testing.assert_array_equal(run_plain(tmp_path / "m.onnx", -X)[0], -X.numpy())


def test_bodies_in_bodies_and_constants_that_fold(tmp_path: Path) -> None:
    def symbolic(g: Any, x: Any) -> Any:
        three = g.op("Add", torch.tensor(1.0), torch.tensor(2.0))  # simplified to a constant, used inside only

        def inner(g: Any) -> Any:
            return g.op("Mul", x, three)

        def outer(g: Any) -> Any:
            large = g.op("Greater", g.op("ReduceMax", x, keepdims_i=0), 5.0)
            times, plus = g.subgraph("times", [], inner), g.subgraph("plus", [], lambda g: g.op("Add", x, three))
            return g.op("If", large, then_branch_g=times, else_branch_g=plus)

        negated = g.subgraph("negated", [], lambda g: g.op("Neg", x))
        return g.op("If", is_positive(g, x), then_branch_g=g.subgraph("outer", [], outer), else_branch_g=negated)

    export(symbolic, tmp_path / "m.onnx", lambda x: x * 3, X)
    for x, expected in [(X, X * 3), (X - 1, X + 2), (-X, X)]:
        np.testing.assert_array_equal(run_plain(tmp_path / "m.onnx", x)[0], expected.numpy())


def test_loop(tmp_path: Path) -> None:
    """Sums of powers: a loop that carries two values and stacks a third."""

    def symbolic(g: Any, x: Any) -> Any:
        def body(g: Any, i: Any, condition: Any, power: Any, total: Any) -> Any:
            power = g.op("Mul", power, x)
            return g.op("Identity", condition), power, g.op("Add", total, power), power

        loop = g.subgraph("body", [ITERATION, CONDITION, x, x], body)
        ones = g.op("Div", x, x)
        _, total, powers = g.op("Loop", torch.tensor(3), torch.tensor(True), ones, ones, body_g=loop, outputs=3)
        assert powers.type().dim() == 3
        return total, powers

    def forward(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        powers = torch.stack([x, x**2, x**3])
        return 1 + powers.sum(0), powers

    export(symbolic, tmp_path / "m.onnx", forward, X)
    for actual, expected in zip(run_plain(tmp_path / "m.onnx", X), forward(X), strict=True):
        np.testing.assert_allclose(actual, expected.numpy())


def test_scan(tmp_path: Path) -> None:
    """Running sums of the rows."""

    def symbolic(g: Any, x: Any) -> Any:
        row = ValueType(TensorProto.FLOAT, [3])

        def body(g: Any, total: Any, x: Any) -> Any:
            total = g.op("Add", total, x)
            return total, g.op("Identity", total)

        scan = g.subgraph("body", [row, row], body)
        zero = g.op("Mul", g.op("Gather", x, torch.tensor(0), axis_i=0), 0.0)
        _, sums = g.op("Scan", zero, x, body_g=scan, num_scan_inputs_i=1, outputs=2)
        assert sums.type().sizes() == [2, 3]
        return sums

    export(symbolic, tmp_path / "m.onnx", lambda x: x.cumsum(0), X)
    np.testing.assert_array_equal(run_plain(tmp_path / "m.onnx", X)[0], X.cumsum(0).numpy())


def one_body_twice(g: Any, x: Any) -> Any:
    body = g.subgraph("body", [], lambda g: g.op("Neg", x))
    return g.op("If", is_positive(g, x), then_branch_g=body, else_branch_g=body)


def value_escapes(g: Any, x: Any) -> Any:
    kept = []
    g.subgraph("body", [x], lambda g, y: kept.append(y) or g.op("Neg", y))
    return g.op("Neg", kept[0])


def outer_builder(g: Any, x: Any) -> Any:
    return g.op("custom::f", x, body_g=g.subgraph("body", [x], lambda inner, y: g.op("Neg", y)))


def branches(then: Any, otherwise: Any) -> Any:
    def symbolic(g: Any, x: Any) -> Any:
        bodies = {"then_branch_g": g.subgraph("a", [], then(x)), "else_branch_g": g.subgraph("b", [], otherwise(x))}
        return g.op("If", is_positive(g, x), **bodies)

    return symbolic


def loop(inputs: list[ValueType], body: Any) -> Any:
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Loop", torch.tensor(3), None, x, body_g=g.subgraph("body", [*inputs, x], body))

    return symbolic


@pytest.mark.parametrize(
    ("symbolic", "message"),
    [
        (one_body_twice, "another attribute holds already"),
        (value_escapes, "after the symbolic function has returned"),
        (outer_builder, "a value of a subgraph is used outside it"),
        (branches(lambda x: lambda g: (x, x), lambda x: lambda g: x), "then_branch has 2 outputs, but 1 is expected"),
        (branches(lambda x: lambda g: x, lambda x: lambda g: g.op("Shape", x)), "float32.*else_branch is int64"),
        (branches(lambda x: lambda g: None, lambda x: lambda g: x), "None among its outputs"),
        (loop([ITERATION], lambda g, i, x: (x, x)), "body has 2 inputs, but 3 are expected"),
        (loop([ITERATION, CONDITION], lambda g, i, c, x: x), "body has 1 output, but 2 are expected"),
        (loop([ITERATION, CONDITION], lambda g, i, c, x: (x, x)), "output 0 of body is float32"),
        (loop([CONDITION, CONDITION], lambda g, i, c, x: (c, x)), "input 0 of body is bool"),
    ],
)
def test_refuses(tmp_path: Path, symbolic: Any, message: str) -> None:
    with pytest.raises((TypeError, opbridge.Error), match=message):
        export(symbolic, tmp_path / "m.onnx", lambda x: x.clone(), X)
    assert list(tmp_path.iterdir()) == []
