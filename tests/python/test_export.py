"""opbridge.export: names, errors, unchanged files after failures, symbolic functions of every kind."""

from __future__ import annotations

import functools
import io
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import opbridge


@torch.library.custom_op("nobody::twist", mutates_args=())
def twist(self: torch.Tensor) -> torch.Tensor:
    return self.clone()


@torch.library.custom_op("nobody::shake", mutates_args=())
def shake(self: torch.Tensor, times: int) -> torch.Tensor:
    return self * times


twist.register_fake(lambda self: torch.empty_like(self))
shake.register_fake(lambda self, times: torch.empty_like(self))


@torch.library.custom_op("nobody::asinh_copy", mutates_args=())
def asinh_copy(self: torch.Tensor) -> torch.Tensor:
    return self * 3


asinh_copy.register_fake(lambda self: torch.empty_like(self))


class Unmapped(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return twist(x) + shake(twist(x).relu(), 2)


def test_names_and_source_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    opbridge.export(model, torch.rand(1, 3, 8, 8), path, input_names=["image"], output_names=["features"], verify=True)
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["image"]
    assert [value.name for value in graph.output] == ["features"]
    assert {tensor.name for tensor in graph.initializer} == {"0.weight", "0.bias"}
    assert graph.node[0].name == "0/Conv"
    assert any("conv.py" in entry.value for entry in graph.node[0].metadata_props)
    opbridge.export(model, torch.rand(1, 3, 8, 8), path, source_lines=False)
    assert not any(entry.key == "pytorch.source" for entry in onnx.load(path).graph.node[0].metadata_props)


class Counter(nn.Module):
    """Writes to an input and to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3))
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x: torch.Tensor, times: int, y: torch.Tensor) -> torch.Tensor:
        y.add_(x)
        self.calls.add_(times)
        return x * self.weight + self.calls


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_names_that_the_program_has_for_other_values(tmp_path: Path, capture: Any) -> None:
    path = tmp_path / "model.onnx"

    def names(**given: list[str]) -> tuple[list[str], list[str]]:
        args = (torch.rand(3), 2, torch.rand(3))
        opbridge.export(Counter(), args, path, capture=capture, mutations_as_outputs=True, **given)
        graph = onnx.load(path).graph
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return [each.name for each in graph.input], [each.name for each in graph.output]

    assert names(input_names=["weight", "cache"], output_names=["x"]) == (
        ["weight", "cache"],
        ["x", "cache_out", "calls_out"],
    )
    assert names(output_names=["weight", "calls"]) == (["x", "y"], ["weight", "calls", "calls_out"])
    for given, message in (
        ({"input_names": ["a", "a"]}, "two inputs or outputs share the name 'a'"),
        ({"output_names": ["y"]}, "two inputs or outputs share the name 'y'"),
        ({"output_names": [""]}, "the name of an input or an output is empty"),
        ({"input_names": ["x", "times", "y"]}, "3 input names for a model with 2 inputs"),
        ({"output_names": ["a", "b", "c", "d"]}, "4 output names for a model with 3 outputs"),
    ):
        with pytest.raises(opbridge.InvalidArgumentError, match=message):
            names(**given)


def test_same_bytes_twice(tmp_path: Path) -> None:
    model = nn.Transformer(16, 2, 1, 1, 32, batch_first=True).eval()
    args = (torch.rand(2, 3, 16), torch.rand(2, 4, 16))
    for name in ("a.onnx", "b.onnx"):
        opbridge.export(model, args, tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_all_that_is_missing_is_told_at_once(tmp_path: Path, capture: Any) -> None:
    target = tmp_path / "m.onnx"
    target.write_bytes(b"what stood here")
    with pytest.raises(opbridge.UnsupportedError) as caught:
        opbridge.export(Unmapped(), torch.rand(3), target, capture=capture)
    text = str(caught.value)
    assert "2 operators of this model have no mapping" in text
    assert "nobody::twist  (2 calls)" in text
    assert "test_export.py:" in text
    assert '@opbridge.symbolic("nobody::shake", opset=21)\n      def shake(g, self, times):' in text
    assert target.read_bytes() == b"what stood here"
    assert list(tmp_path.iterdir()) == [target]


def test_only_views_of_pytorch_have_copies(tmp_path: Path) -> None:
    @opbridge.symbolic("nobody::asinh", opset=9)
    def asinh(g: Any, x: Any) -> Any:
        return g.op("Asinh", x)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return asinh_copy(x)

    try:
        with pytest.raises(opbridge.UnsupportedError, match=r"nobody::asinh_copy  \(1 call\)"):
            opbridge.export(Model(), torch.rand(3), tmp_path / "m.onnx")
    finally:
        opbridge.unregister_custom_op_symbolic("nobody::asinh", 9)


def test_unwritable_target_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(opbridge.FileError, match="no/such/folder"):
        opbridge.export(nn.ReLU(), torch.rand(3), tmp_path / "no/such/folder" / "m.onnx")
    (tmp_path / "folder").mkdir()
    with pytest.raises(opbridge.FileError):
        opbridge.export(nn.ReLU(), torch.rand(3), tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    report = opbridge.export(nn.Linear(64, 64), torch.rand(2, 64), path, external_data=True, verify=True)
    assert report.external_file is not None
    assert Path(report.external_file).stat().st_size == report.external_bytes >= 64 * 64 * 4
    assert path.stat().st_size < 4000


def test_a_wrong_mapping_is_found_by_verify(tmp_path: Path) -> None:
    @opbridge.symbolic("aten::asinh", opset=9)
    def asinh(g: Any, x: Any) -> Any:
        return g.op("Sinh", x)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.asinh(x)

    try:
        with pytest.raises(opbridge.VerificationError, match="elements differ"):
            opbridge.export(Model(), torch.rand(3), tmp_path / "m.onnx", verify=True)
    finally:
        opbridge.unregister_custom_op_symbolic("aten::asinh", 9)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_mapping_of_another_shape_is_refused(tmp_path: Path, capture: Any) -> None:
    @opbridge.symbolic("aten::flip", opset=9)
    def flip(g: Any, x: Any, dims: list[int]) -> Any:
        return g.op("Transpose", x)

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flip(0)

    try:
        with pytest.raises(opbridge.UnsupportedError, match=r"gives float32\[3, 2\], PyTorch gives float32\[2, 3\]"):
            opbridge.export(Model(), torch.rand(2, 3), tmp_path / "m.onnx", capture=capture)
        opbridge.export(Model(), torch.rand(3, 3), tmp_path / "m.onnx", capture=capture)
    finally:
        opbridge.unregister_custom_op_symbolic("aten::flip", 9)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_verify_names_the_first_node_that_differs(tmp_path: Path, capture: Any) -> None:
    @opbridge.symbolic("aten::hardtanh", opset=9)
    def hardtanh(g: Any, x: Any, low: Any, high: Any) -> Any:
        return g.op("Clip", x, torch.tensor(-1.0), torch.tensor(1.0))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm2d(3)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.norm(x)
            x.mul_(3)
            y = nn.functional.hardtanh(x, -1, 2)  # the wrong one
            y[:, 0] += 1
            return y.mean((2, 3)), x

    try:
        opbridge.export(Model().eval(), torch.randn(2, 3, 4, 4), tmp_path / "m.onnx", capture=capture)
        with pytest.raises(opbridge.VerificationError) as raised:
            opbridge.verify(tmp_path / "m.onnx", Model().eval(), torch.randn(2, 3, 4, 4))
    finally:
        opbridge.unregister_custom_op_symbolic("aten::hardtanh", 9)
    assert "the first difference is the value of aten::hardtanh at test_export.py:" in str(raised.value)
    assert "# the wrong one" in str(raised.value)


def _divides(g: Any, self: Any) -> Any:
    return g.op("Asinh", self, 1 / 0)


@pytest.mark.parametrize(
    ("function", "message", "cause"),
    [
        (lambda g, self, more: g.op("Add", self, more), "for aten::asinh raised TypeError: ", TypeError),
        (_divides, "_divides for aten::asinh raised ZeroDivisionError: division by zero (test_exp", ZeroDivisionError),
        (lambda g, self: g.op("Neg", self.bias), "raised AttributeError: 'Value' object has no att", AttributeError),
        (lambda g, self: g.op("Neg", "x"), "raised TypeError: g.op takes values, numbers and tensors", TypeError),
        (lambda g: g.op("Neg"), "self=<a tensor>, but the symbolic function <lambda> has no parameter for it", None),
    ],
    ids=["parameters", "arithmetic", "attribute", "input", "none"],
)
def test_an_error_of_a_symbolic_function_is_told_with_the_line_of_the_model(
    function: Callable[..., Any], message: str, cause: type[Exception] | None
) -> None:
    opbridge.register_custom_op_symbolic("aten::asinh", function, 9)
    try:
        with pytest.raises(opbridge.InvalidArgumentError) as error:
            opbridge.export(lambda x: torch.asinh(x), (torch.rand(2),))
    finally:
        opbridge.unregister_custom_op_symbolic("aten::asinh", 9)
    assert message in error.value.message
    assert "test_export.py" in error.value.where
    assert "torch.asinh(x), (torch.rand(2),))" in error.value.where
    assert isinstance(error.value.__cause__, cause or type(None))


def test_an_argument_without_parameter_is_refused(tmp_path: Path) -> None:
    @opbridge.symbolic("aten::add.Tensor", opset=9)
    def add(g: Any, a: Any, b: Any) -> Any:
        return g.op("Add", a, b)

    class Model(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.add(a, b, alpha=2)

    try:
        with pytest.raises(opbridge.InvalidArgumentError, match="alpha=2"):
            opbridge.export(Model(), (torch.rand(3), torch.rand(3)), tmp_path / "m.onnx")
    finally:
        opbridge.unregister_custom_op_symbolic("aten::add.Tensor", 9)


def test_register_op_holds_for_one_opset(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.asinh(x)

    opbridge.register_op("asinh", lambda g, x: g.op("custom::Mine", x), "", 9)
    try:
        types = []
        for opset in (9, 10):
            opbridge.export(Model(), torch.rand(3), tmp_path / "m.onnx", opset_version=opset)
            types.append(onnx.load(tmp_path / "m.onnx").graph.node[0].op_type)
        assert types == ["Mine", "Asinh"]
    finally:
        opbridge.unregister_custom_op_symbolic("aten::asinh", 9)


def test_what_torch_onnx_registered_counts(tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.asinh(x)

    torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("custom::FromTorch", x), 9)
    try:
        opbridge.export(Model(), torch.rand(3), tmp_path / "m.onnx")
        assert onnx.load(tmp_path / "m.onnx").graph.node[0].op_type == "FromTorch"
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::asinh", 9)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_bundled_mappings_at_older_opsets(tmp_path: Path, opset: int) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Softmax(-1)).eval()
    report = opbridge.export(model, torch.rand(2, 3, 8), tmp_path / "m.onnx", opset_version=opset, verify=True)
    assert report.verification is not None
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_an_example_of_size_one_stays_dynamic(tmp_path: Path, capture: Any) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True).eval()
    path = tmp_path / "m.onnx"
    batch = {"src": {0: torch.export.Dim("batch")}}
    opbridge.export(model, torch.rand(1, 4, 8), path, dynamic_shapes=batch, capture=capture)
    assert opbridge.session(path).get_outputs()[0].shape == ["batch", 4, 8]
    for size in (1, 3):
        opbridge.verify(path, model, torch.rand(size, 4, 8))


def test_a_model_that_returns_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="returns no tensor"):
        opbridge.export(lambda x: (), (torch.ones(2),), tmp_path / "model.onnx")
    assert not (tmp_path / "model.onnx").exists()


def test_a_model_that_fails_itself_is_not_laid_to_torch_export(tmp_path: Path, capfd: Any) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(7, 4)
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> Any:
            self.count.add_(1)
            return self.layer(x)

    model = Counting()
    with pytest.raises(opbridge.InvalidArgumentError, match=r"fails on its inputs \(\[2, 8\]\).*cannot be multiplied"):
        opbridge.export(model, (torch.randn(2, 8),), tmp_path / "model.onnx")
    assert model.count == 0
    assert not capfd.readouterr().err


def test_a_target_that_is_no_path_is_refused() -> None:
    for target in (io.StringIO(), 3):
        with pytest.raises(opbridge.InvalidArgumentError, match=r"a path or a binary stream, not a (StringIO|int)"):
            opbridge.export(nn.ReLU(), (torch.randn(2),), target)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opset_version": "17"}, "opset_version must be an integer, not '17'"),
        ({"external_data": "x"}, 'external_data must be True, False, None or "reference"'),
        ({"input_names": "ab"}, "input_names must be a list of names"),
        ({"output_names": [1]}, "output_names must be a list of names"),
        ({"custom_opsets": ["a"]}, "custom_opsets must be a dict"),
        ({"dynamic_axes": ["x"]}, "dynamic_axes must be a dict"),
        ({"kwargs": [1]}, "kwargs must be a dict"),
    ],
)
def test_arguments_of_another_kind(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match=message):
        opbridge.export(nn.ReLU(), torch.rand(3), tmp_path / "m.onnx", **arguments)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("holder", [types.SimpleNamespace(a=torch.ones(2)), {torch.ones(2)}, np.ones(2)])
def test_tensors_that_torch_does_not_find_are_no_constants(holder: Any, capture: Any, tmp_path: Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="would be"):
        opbridge.export(lambda batch, y: y * 2, (holder, torch.zeros(2)), tmp_path / "m.onnx", capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_objects_that_are_called_and_functions_of_c(capture: Any, tmp_path: Path) -> None:
    class Doubled:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    for model in (Doubled(), functools.partial(torch.add, torch.ones(3)), functools.partial(Doubled().__call__)):
        opbridge.export(model, torch.rand(3), tmp_path / "m.onnx", capture=capture, verify=True)


def test_verify_leaves_inputs_and_buffers_as_they_were(tmp_path: Path) -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = nn.Buffer(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n += 1
            self.cache = x.add_(1) * self.n
            return self.cache

    model, x = Counts(), torch.ones(3)
    opbridge.export(model, x, tmp_path / "m.onnx", mutations_as_outputs=True, verify=True)
    assert model.n == 0
    assert not hasattr(model, "cache")
    assert torch.equal(x, torch.ones(3))


def test_exports_in_several_threads(tmp_path: Path) -> None:
    def export(i: int) -> None:
        capture = ("export", "trace")[i % 2]
        path = tmp_path / f"{i}.onnx"
        opbridge.export(nn.Linear(i + 2, 3), torch.rand(1, i + 2), path, capture=capture, verify=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(export, range(8)))
    assert not torch.onnx.is_in_onnx_export()
    assert not torch.compiler.is_compiling()
