"""verify draws inputs: sizes in the ranges of the export, other values, edge values. A difference is reproduced."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from command import opbridge as command
from seen import Seen
from torch import nn
from torch.export import Dim

import opbridge
from opbridge import InvalidArgumentError, VerificationError
from opbridge.verification import Verification

X = torch.randn(4, 3)


def labels(result: Verification) -> list[str]:
    return list(dict.fromkeys(output.inputs for output in result.outputs))


def ranges(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


class Rows(nn.Module):
    """Takes 2 rows or more."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softmax(x[1:] - x[:-1], 1)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_sizes_are_drawn_from_the_range_of_the_export(capture: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(Rows(), (X,), path, dynamic_shapes=({0: Dim("n", min=3, max=6)},), capture=capture)
    assert ranges(path) == {"pytorch.size.n": "3..6"}
    result = opbridge.verify(path, Rows(), (X,), random_inputs=6)
    assert result.ok
    assert labels(result)[:3] == ["", "random 1, n=3", "random 2, n=6"]
    assert {label.rpartition("=")[2] for label in labels(result)[1:]} <= set("3456")
    again = opbridge.verify(path, Rows(), (X,), random_inputs=6)
    assert again == result
    assert opbridge.verify(path, Rows(), (X,), random_inputs=6, seed=1) != result


def test_the_range_is_that_of_the_pt2_and_outlives_a_copy(tmp_path: Path) -> None:
    dynamic = ({0: Dim("n", min=3, max=6)},)
    torch.export.save(torch.export.export(Rows(), (X,), dynamic_shapes=dynamic), tmp_path / "m.pt2")
    assert command("convert", tmp_path / "m.pt2", tmp_path / "m.onnx").returncode == 0
    assert list(ranges(tmp_path / "m.onnx").values()) == ["3..6"]
    program = opbridge.export(Rows(), (X,), dynamic_shapes=dynamic, simplify=False)
    program.optimize()
    program.save(tmp_path / "copy.onnx")
    assert list(ranges(tmp_path / "copy.onnx").values()) == ["3..6"]


def test_a_size_without_range_starts_at_1(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(nn.Linear(3, 2), (X,), path, dynamic_axes={"input": {0: "n"}})
    assert ranges(path) == {}
    result = opbridge.verify(path, opbridge_linear(path), (X,), random_inputs=2)
    assert labels(result) == ["", "random 1, n=1", "random 2, n=8"]


def opbridge_linear(path: Path) -> nn.Linear:
    """The layer whose weights are in the file."""
    weights = [onnx.numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer]
    linear = nn.Linear(3, 2)
    state = {"weight" if w.ndim == 2 else "bias": torch.from_numpy(w.copy()) for w in weights if w.ndim}
    linear.load_state_dict(state)
    return linear


def test_values_are_like_the_given_ones(tmp_path: Path) -> None:
    seen = Seen()

    def model(
        f: torch.Tensor, i: torch.Tensor, b: torch.Tensor, c: torch.Tensor, h: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        if not torch.compiler.is_exporting():
            seen.put((f, i, b, c, h))
        return f * 2, i + 1, ~b, c * c, h + h

    given = (
        torch.tensor([0.0, 0.25, 0.75]),
        torch.tensor([3, 5, 9], dtype=torch.uint8),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j, 3 - 1j]),
        torch.tensor([1.0, 2.0], dtype=torch.bfloat16),
    )
    opbridge.export(model, given, tmp_path / "m.onnx")
    seen.taken()
    assert opbridge.verify(tmp_path / "m.onnx", model, given, random_inputs=3).ok
    _, *others = seen.taken()
    assert len(others) == 3
    for drawn in others:
        for tensor, like in zip(drawn, given, strict=True):
            assert (tensor.dtype, tensor.shape) == (like.dtype, like.shape)
        assert not torch.equal(drawn[0], given[0])
        assert 0 <= drawn[0].min() <= drawn[0].max() <= 0.75
        assert set(drawn[1].tolist()) <= set(range(3, 10))


def test_values_of_tensors_whose_elements_are_equal(tmp_path: Path) -> None:
    seen = Seen()

    def model(x: torch.Tensor, keep: torch.Tensor, drop: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_exporting():
            seen.put((x, keep, drop, i))
        return torch.where(keep & ~drop, x, 0) + i

    given = (torch.ones(64), torch.ones(64).bool(), torch.zeros(64).bool(), torch.full((64,), 3))
    opbridge.export(model, given, tmp_path / "m.onnx")
    seen.taken()
    assert opbridge.verify(tmp_path / "m.onnx", model, given, random_inputs=2).ok
    for x, *others in seen.taken()[1:]:
        assert x.min() < 0 < x.max()
        assert all(torch.equal(drawn, like) for drawn, like in zip(others, given[1:], strict=True))


def test_inputs_that_the_model_refuses_are_drawn_again(tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2)

    opbridge.export(model, (torch.randn(4),), tmp_path / "m.onnx", dynamic_axes={"x": {0: "2*n"}}, capture="trace")

    def even(x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2:
            raise ValueError("odd")
        return x.reshape(-1, 2)

    result = opbridge.verify(tmp_path / "m.onnx", even, (torch.randn(4),), random_inputs=5)
    assert len(result.outputs) == 6

    def never(x: torch.Tensor) -> torch.Tensor:
        if x.min() < 0:
            raise ValueError("negative")
        return x.sqrt()

    opbridge.export(torch.sqrt, (torch.ones(64),), tmp_path / "root.onnx")
    with pytest.raises(InvalidArgumentError, match="refuses all 50 inputs that were drawn"):
        opbridge.verify(tmp_path / "root.onnx", never, (torch.zeros(64),), random_inputs=1)


class Fixed(nn.Module):
    """The model branches on a size and compares the answer with True, which keeps a trace to the example's way."""

    flag = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        is_small = x.shape[0] <= 3 and self.flag
        return x if is_small is True else x * 2


@pytest.mark.filterwarnings("ignore:a branch by a dynamic size")
def test_a_size_that_was_fixed_is_found_and_reproduced(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(Fixed(), (X,), path, dynamic_axes={"x": {0: "n"}}, capture="trace")
    assert opbridge.verify(path, Fixed(), (X,)).ok
    with pytest.raises(VerificationError, match=r"mul \(random 1, n=1\): 3 of 3 elements differ") as raised:
        opbridge.verify(path, Fixed(), (X,), random_inputs=3, reproduction=tmp_path / "wrong")
    assert str(tmp_path / "wrong" / "reproduce.py") in str(raised.value)
    assert "the file fixes a size or a value" in str(raised.value)
    assert np.load(tmp_path / "wrong" / "inputs.npz")["x"].shape == (1, 3)
    path.unlink()
    difference = reproduced(tmp_path / "wrong", differs=True)
    assert re.fullmatch(
        r"mul: largest difference [\d.]+; 3 of 3 elements differ by more than 0.0001 \+ 0.0001 \* \|expected\|\n",
        difference,
    )
    opbridge.export(lambda x: x, (X[:1],), tmp_path / "wrong" / "model.onnx", input_names=["x"], output_names=["mul"])
    agreement = reproduced(tmp_path / "wrong", differs=False)
    assert agreement.startswith("mul: largest difference 0; 0 of 3 elements differ")
    assert agreement.endswith("all outputs agree\n")


def reproduced(folder: Path, *, differs: bool) -> str:
    script = folder / "reproduce.py"
    done = subprocess.run([sys.executable, "-I", script], capture_output=True, text=True, cwd="/")
    verdict = (1, "ONNX Runtime and PyTorch differ\n") if differs else (0, "")
    assert (done.returncode, done.stderr) == verdict
    return done.stdout


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (lambda x: x.double(), "y: element type float64, PyTorch returns float32"),
        (lambda x: x[:1], "y: shape (1, 3), PyTorch returns (4, 3)"),
    ],
)
def test_a_reproduction_of_another_type_or_shape(tmp_path: Path, other: Any, line: str) -> None:
    opbridge.export(other, (X,), tmp_path / "m.onnx", output_names=["y"])
    with pytest.raises(VerificationError):
        opbridge.verify(tmp_path / "m.onnx", torch.relu, (X,), reproduction=tmp_path / "wrong")
    assert reproduced(tmp_path / "wrong", differs=True) == f"{line}\n"


def test_a_reproduction_has_the_tolerances_of_the_verification(tmp_path: Path) -> None:
    opbridge.export(lambda x: x + 0.01, (X,), tmp_path / "m.onnx")
    with pytest.raises(VerificationError):
        opbridge.verify(tmp_path / "m.onnx", lambda x: x, (X,), rtol=0, atol=0.005, reproduction=tmp_path / "wrong")
    assert "12 of 12 elements differ by more than 0.005 + 0 * |expected|" in reproduced(
        tmp_path / "wrong", differs=True
    )


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor) -> torch.Tensor:
        return torch.special.i0(a.float()).to(a.dtype)

    @staticmethod
    def symbolic(g: Any, a: Any) -> Any:
        a = g.op("Cast", a, to_i=1)
        return g.op("Cast", g.op("Mul", g.op("opbridge::i0", a), torch.tensor(2.0)), to_i=16)


def test_a_reproduction_with_operators_weights_and_bfloat16(tmp_path: Path) -> None:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((64, 64), 0.5, dtype=torch.bfloat16))

        def forward(self, file: torch.Tensor) -> torch.Tensor:
            return Wrong.apply(file + self.weight)

    x = torch.randn(64, 64).bfloat16()
    opbridge.export(Module(), (x,), tmp_path / "big.onnx", external_data=True, output_names=["y"])
    with pytest.raises(VerificationError, match="reproduced by"):
        opbridge.verify(tmp_path / "big.onnx", Module(), (x,), reproduction=tmp_path / "wrong")
    (tmp_path / "big.onnx").unlink()
    (tmp_path / "big.onnx.data").unlink()
    expected = Module()(x).detach().float()
    found = re.match(r"y: largest difference ([\d.e+]+); ", reproduced(tmp_path / "wrong", differs=True))
    assert found
    largest = float(found[1])
    assert largest == pytest.approx(float(expected.abs().max()), rel=0.02)


def test_edge_values(tmp_path: Path) -> None:
    class Gate(nn.Module):
        def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0, x, x.exp()) + n

    n = torch.tensor([1, 2, 3])
    opbridge.export(Gate(), (X, n), tmp_path / "m.onnx")
    result = opbridge.verify(tmp_path / "m.onnx", Gate(), (X, n), edge_values=True)
    assert labels(result) == ["", "zeros", "infinities", "NaN"]

    def other(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return Gate()(x.nan_to_num(0.5), n)

    with pytest.raises(VerificationError, match=r"add \(NaN\)") as raised:
        opbridge.verify(tmp_path / "m.onnx", other, (X, n), edge_values=True)
    assert "(zeros)" not in str(raised.value)


def test_onnx_runtime_fails_where_pytorch_does_not(tmp_path: Path) -> None:
    opbridge.export(lambda x: x.reshape(2, 6), (X,), tmp_path / "m.onnx")
    model = onnx.load(tmp_path / "m.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_param = "m"
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(VerificationError, match=r"\(random 1, n=1\): ONNX Runtime fails: "):
        opbridge.verify(tmp_path / "m.onnx", lambda x: x.reshape(-1, 1), (X,), random_inputs=1)


def test_the_table(tmp_path: Path) -> None:
    opbridge.export(lambda x: (x + 1, x > 0), (X,), tmp_path / "m.onnx", output_names=["y", "positive"])
    result = opbridge.verify(tmp_path / "m.onnx", lambda x: (x + 1, x > 0), (X,), random_inputs=1)
    head, *rows = result.table().splitlines()
    assert head.split() == ["inputs", "output", "largest", "difference", "relative", "cosine", "mismatches"]
    assert [row.split()[:2] for row in rows[:2]] == [["given", "y"], ["given", "positive"]]
    assert rows[1].split()[2:] == ["0", "0", "1.000000", "0"]
    assert rows[2].startswith("random 1")


def test_a_count_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="random_inputs"):
        opbridge.verify(tmp_path / "m.onnx", nn.Identity(), (X,), random_inputs=-1)
