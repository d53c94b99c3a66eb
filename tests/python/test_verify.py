"""verify runs a model as its user does, pairs inputs and outputs with those of the file, and names the faulty node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import opbridge
from opbridge import InvalidArgumentError, VerificationError

A, B, C = torch.tensor([1.0, -2, 3]), torch.tensor([5.0, 7, -11]), torch.tensor([0.5, 0.25, 2])


def refusal(path: Path, model: Any, args: Any = (), kwargs: Any = None) -> str:
    with pytest.raises(VerificationError) as raised:
        opbridge.verify(path, model, args, kwargs)
    return str(raised.value)


def minus(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a - b


@pytest.mark.parametrize("names", [["b", "a"], ["a", "x"], ["b", "x"]])
def test_inputs_are_paired_in_order(names: list[str], tmp_path: Path) -> None:
    opbridge.export(minus, (A, B), tmp_path / "m.onnx", input_names=names, verify=True)
    assert "differ" in refusal(tmp_path / "m.onnx", lambda a, b: b - a, (A, B))


def test_keywords_are_paired_by_name(tmp_path: Path) -> None:
    def model(x: torch.Tensor, *, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x * u - v

    def free(x: torch.Tensor, **given: torch.Tensor) -> torch.Tensor:
        return x * given["u"] - given["v"]

    for each in (model, free):
        opbridge.export(each, (A,), tmp_path / "m.onnx", kwargs={"u": B, "v": C})
        for args, kwargs in (((A,), {"u": B, "v": C}), ((A,), {"v": C, "u": B}), ((), {"v": C, "x": A, "u": B})):
            assert opbridge.verify(tmp_path / "m.onnx", each, args, kwargs).ok
        wrong = refusal(tmp_path / "m.onnx", lambda x, u, v: x * v - u, (A,), {"v": C, "u": B})
        assert "differ" in wrong


@pytest.mark.parametrize("names", [None, ["c", "first"]])
def test_items_of_dicts_are_paired_by_name(names: list[str] | None, tmp_path: Path) -> None:
    def model(c: torch.Tensor, d: dict[str, torch.Tensor]) -> torch.Tensor:
        return d["p"] * c - d["q"]

    opbridge.export(model, (C, {"p": A, "q": B}), tmp_path / "m.onnx", input_names=names, verify=True)
    assert opbridge.verify(tmp_path / "m.onnx", model, (C, {"p": A, "q": B})).ok
    if names is None:
        assert opbridge.verify(tmp_path / "m.onnx", model, (C, {"q": B, "p": A})).ok


@pytest.mark.parametrize("names", [None, ["b", "a"], ["x", "y"]])
def test_what_is_written_to_renamed_inputs(names: list[str] | None, tmp_path: Path) -> None:
    def model(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.add_(1)
        b.mul_(2)
        return a - b

    def other(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = model(a, b)
        b.add_(1)
        return c

    args = A.clone(), B.clone()
    opbridge.export(model, args, tmp_path / "m.onnx", input_names=names, mutations_as_outputs=True, verify=True)
    assert torch.equal(args[0], A)
    assert f"{names[1] if names else 'b'}_out: " in refusal(tmp_path / "m.onnx", other, args)


def test_outputs_of_every_kind(tmp_path: Path) -> None:
    def returned(a: Any, b: Any, sign: float = 1.0, number: int = 5, flag: bool = True) -> Any:
        pair = torch.complex(a * sign, b)
        return {"pair": pair, "none": None, "rest": [a[:0], (a.sum() > 0) == flag, (number, 2.5)]}

    opbridge.export(returned, (A, B), tmp_path / "m.onnx", verify=True)
    for change in ({"sign": -1.0}, {"number": 6}, {"flag": False}):
        assert "differ" in refusal(tmp_path / "m.onnx", lambda a, b, change=change: returned(a, b, **change), (A, B))
    for kept in (["pair"], ["pair", "rest", "pair"]):
        with pytest.raises(VerificationError, match=r"the ONNX model has 5 outputs, PyTorch returns [16]"):
            opbridge.verify(tmp_path / "m.onnx", lambda a, b, kept=kept: [returned(a, b)[key] for key in kept], (A, B))


def test_a_model_that_fails(tmp_path: Path) -> None:
    def failing(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        raise KeyError("of the model's own")

    opbridge.export(minus, (A, B), tmp_path / "m.onnx")
    with pytest.raises(InvalidArgumentError, match=r"the model itself fails on its inputs .*of the model's own"):
        opbridge.verify(tmp_path / "m.onnx", failing, (A, B))


@pytest.mark.parametrize(
    ("node", "x", "message"),
    [
        ("elsewhere::Sinh", A, "no kernel for the custom operator elsewhere::Sinh of the node 'Sinh': the third link"),
        ("opbridge::Sinh", A, "no kernel for the custom operator opbridge::Sinh of the node 'Sinh'"),
        ("Sinh", A.double(), "no kernel for Sinh of the node 'Sinh' with the element types of its inputs"),
    ],
)
@pytest.mark.parametrize("file", [True, False], ids=["file", "temporary"])
def test_a_node_without_a_kernel(node: str, x: torch.Tensor, message: str, file: bool, tmp_path: Path) -> None:
    opbridge.register_custom_op_symbolic("aten::sinh", lambda g, x: g.op(node, x), 9)
    path = tmp_path / "m.onnx"
    try:
        with pytest.raises(VerificationError) as raised:
            opbridge.export(lambda x: torch.sinh(x), (x,), path if file else None, verify=True)
    finally:
        opbridge.unregister_custom_op_symbolic("aten::sinh", 9)
    assert message in raised.value.message
    assert "torch.sinh(x), (x,)" in raised.value.where
    assert type(raised.value.__cause__).__name__ in ("Fail", "NotImplemented")
    assert path.exists() == file
    if file:
        assert message in refusal(path, torch.sinh, (x,))


def test_what_onnx_runtime_refuses(tmp_path: Path) -> None:
    opbridge.export(minus, (A, B), tmp_path / "m.onnx")
    other = torch.ones(2)
    assert "ONNX Runtime cannot run" in refusal(tmp_path / "m.onnx", minus, (other, other))  # other sizes
    (tmp_path / "m.onnx").write_text("not a model")
    assert "ONNX Runtime cannot run" in refusal(tmp_path / "m.onnx", minus, (A, B))


class Scaled(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return a * self.scale


def test_a_file_of_another_state_of_the_model(tmp_path: Path) -> None:
    model = Scaled(2.0)
    opbridge.export(model, (A,), tmp_path / "m.onnx")
    model.scale = 3.0
    assert "a new export of this model agrees: the file was exported from another state" in refusal(
        tmp_path / "m.onnx", model, (A,)
    )


def test_a_file_with_the_branch_of_another_size(tmp_path: Path) -> None:
    class Branch(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            is_small = a.shape[0] <= 2 and a.dim() == 2
            return a if is_small is True else a * 2

    sizes = ({0: torch.export.Dim("n")},)
    with pytest.warns(opbridge.TraceWarning):
        opbridge.export(Branch(), (torch.rand(3, 2),), tmp_path / "m.onnx", dynamic_shapes=sizes, capture="trace")
    assert "has the branch that other inputs took" in refusal(tmp_path / "m.onnx", Branch(), (torch.rand(2, 2),))


def test_a_program_that_is_not_what_the_model_does(tmp_path: Path) -> None:
    def model(a: torch.Tensor) -> torch.Tensor:
        return a * 2 if torch.compiler.is_exporting() else a * 3

    opbridge.export(model, (A,), tmp_path / "m.onnx")
    text = refusal(tmp_path / "m.onnx", model, (A,))
    assert "the program captured by torch.export differs from the model" in text
    assert "simplif" not in text


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        return a * 2

    @staticmethod
    def symbolic(g: Any, a: Any) -> Any:
        return g.op("Mul", a, torch.tensor(3.0))


class Substituted(nn.Module):
    """torch.export captures it only with replaced functions."""

    def forward(self, a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return Wrong.apply(a) * F.one_hot(i).sum()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(3, 3)

    def forward(self, a: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return Wrong.apply(self.gru(a.expand(i.shape[0], 3))[0])


@pytest.mark.parametrize("kind", [Substituted, Recurrent])
@pytest.mark.parametrize("axes", [None, {"i": {0: "n"}}])
def test_the_operator_at_fault_in_models_that_need_replacements(kind: Any, axes: Any, tmp_path: Path) -> None:
    model, args = kind(), (A, torch.tensor([0, 2, 1, 2]))
    opbridge.export(model, args, tmp_path / "m.onnx", dynamic_axes=axes)
    text = refusal(tmp_path / "m.onnx", model, args)
    assert "the first difference is the value of autograd_function::Wrong at test_verify.py:" in text


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_attributes_that_a_model_writes_are_compared(tmp_path, capture):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = torch.zeros(3)

        def forward(self, x):
            self.seen.mul_(0).add_(x)
            return x * 2

    model = Model()
    program = opbridge.export(
        model, (torch.ones(3),), tmp_path / "model.onnx", capture=capture, mutations_as_outputs=True, verify=True
    )
    assert len(program(torch.ones(3))) == 2
    assert torch.equal(model.seen, torch.zeros(3))
