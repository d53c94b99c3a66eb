"""TorchScript modules, whose operators capture="trace" records: scripted, traced, loaded and frozen."""

from __future__ import annotations

import inspect
import io
import pathlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.export import Dim

import opbridge

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning", "ignore:.*torch.jit.*:DeprecationWarning")

X = torch.randn(3, 8)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.convolution = nn.Linear(8, 4), nn.Conv1d(1, 2, 3)

    def forward(self, x: torch.Tensor, times: int = 2) -> dict[str, torch.Tensor]:
        y = self.linear(x)
        for i in range(times):
            y = y + torch.relu(y) * float(i + 1)
        if x.dim() == 2:
            y = y.unsqueeze(1)
        return {"y": y, "z": self.convolution(y)}


class Outer(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)["z"] + 1


def loaded(module: torch.jit.ScriptModule) -> Any:
    archive = io.BytesIO()
    torch.jit.save(module, archive)
    archive.seek(0)
    return torch.jit.load(archive)


FORMS: dict[str, Callable[[], Any]] = {
    "scripted": lambda: torch.jit.script(Model().eval()),
    "traced": lambda: torch.jit.trace(nn.Linear(8, 4), X),
    "loaded": lambda: loaded(torch.jit.script(Model().eval())),
    "frozen": lambda: torch.jit.freeze(torch.jit.script(Model().eval())),
    "a part": lambda: Outer(torch.jit.script(Model().eval())),
}


@pytest.mark.parametrize("form", FORMS)
def test_torchscript(form: str, tmp_path: pathlib.Path) -> None:
    model = FORMS[form]()
    opbridge.export(model, (X,), tmp_path / "model.onnx", capture="trace", verify=True)
    with pytest.raises(opbridge.UnsupportedError, match=r'TorchScript.*capture="trace"'):
        opbridge.export(model, (X,), tmp_path / "other.onnx", capture="export")
    assert not (tmp_path / "other.onnx").exists()
    opbridge.export(model, (X,), tmp_path / "other.onnx")
    assert (tmp_path / "other.onnx").read_bytes() == (tmp_path / "model.onnx").read_bytes()


def test_a_function(tmp_path: pathlib.Path) -> None:
    def halved_where_large(x: torch.Tensor, bound: float = 0.5) -> torch.Tensor:
        return torch.where(x > bound, x / 2, x)

    function = torch.jit.script(halved_where_large)
    opbridge.export(function, (X, 0.25), tmp_path / "model.onnx", capture="trace", verify=True)
    with pytest.raises(opbridge.UnsupportedError, match='capture="trace"'):
        opbridge.export(function, (X,), tmp_path / "model.onnx", capture="export")
    opbridge.export(function, (X,), tmp_path / "model.onnx", verify=True)


def test_dynamic_sizes(tmp_path: pathlib.Path) -> None:
    path, model = tmp_path / "model.onnx", torch.jit.script(Model().eval())
    opbridge.export(model, (X,), path, capture="trace", dynamic_shapes=({0: Dim.DYNAMIC},))
    x = torch.randn(5, 8)
    opbridge.verify(path, model, (x,))


def test_the_model_is_as_before(tmp_path: pathlib.Path) -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(8, 4), nn.Dropout()))
    opbridge.export(model, (X,), tmp_path / "model.onnx", capture="trace")
    assert all(module.training for module in model.modules())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(X)


class Convolutions(nn.Module):
    """torch.jit.trace records each of these as aten::_convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, groups=1),
            nn.Conv2d(8, 8, 3, dilation=2, groups=4, bias=False),
            nn.ConvTranspose2d(8, 4, 3, stride=2, output_padding=1, groups=2),
            nn.Conv2d(4, 2, 3, padding="same"),
        )
        self.line = nn.Conv1d(2, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.line(self.layers(x).mean(-1))


@pytest.mark.parametrize("axes", [None, {"x": {0: "batch"}}])
def test_traced_convolutions(axes: Any, tmp_path: pathlib.Path) -> None:
    x = torch.randn(2, 3, 20, 22)
    model = torch.jit.trace(Convolutions().eval(), x)
    opbridge.export(model, x, tmp_path / "model.onnx", input_names=["x"], dynamic_axes=axes, verify=True)
    if axes:
        opbridge.verify(tmp_path / "model.onnx", model, torch.randn(3, 3, 20, 22))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * factor

    @staticmethod
    def symbolic(g: Any, x: Any, factor: float) -> Any:
        return g.op("Mul", x, torch.tensor(factor))


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Scale.apply(x, 3.0)


@torch.jit.ignore
def scaled(x):  # TorchScript does not read postponed annotations of an ignored function
    return Scale.apply(x, 3.0)


class CallsIgnored(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = scaled(x)
        return x


class CallsOwnIgnored(nn.Module):
    @torch.jit.ignore
    def scaled(self, x):
        return Scale.apply(x, 3.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scaled(x)


WITH_FUNCTIONS: dict[str, tuple[Callable[[], Any], int]] = {
    "traced": (lambda: torch.jit.trace(Scaled(), X), 1),
    "a traced part": (lambda: nn.Sequential(torch.jit.trace(Scaled(), X), nn.Linear(8, 4)), 1),
    "traced in scripted": (lambda: torch.jit.script(nn.Sequential(torch.jit.trace(Scaled(), X), nn.ReLU())), 1),
    "an ignored function": (lambda: torch.jit.script(CallsIgnored()), 2),
    "an ignored method": (lambda: nn.Sequential(torch.jit.script(CallsOwnIgnored())), 1),
    "scripted in traced": (lambda: torch.jit.trace(nn.Sequential(torch.jit.script(CallsIgnored())), X), 2),
}


@pytest.mark.parametrize("dynamic_shapes", [None, ({0: "rows"},)])
@pytest.mark.parametrize("form", WITH_FUNCTIONS)
def test_symbolic_of_functions(form: str, dynamic_shapes: Any) -> None:
    make, calls = WITH_FUNCTIONS[form]
    program = opbridge.export(make(), X, dynamic_shapes=dynamic_shapes, simplify=False, verify=True)
    assert [node.op_type for node in program.model_proto.graph.node].count("Mul") == calls


class View(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.size(0), -1)


class Positions(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(x.shape[1]).view(1, -1, 1) / x.shape[0]


class Permuted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, c, d = x.shape
        return x.permute(0, 2, 1).reshape(b // 1, d * c)[:, : (d * c) // 2 + 1]


class Windows(nn.Module):
    """Lists, dicts, tuples, optional values, an early return, and functions that are compiled too."""

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        sizes = [int(size) for size in x.shape]
        sizes.append(1)
        parts: list[torch.Tensor] = []
        for i in range(3):
            if i == 1:
                continue
            parts.append(x.narrow(1, i, min(sizes[1] - i, 2)) * scale)
        bound: int | None = sizes[0] if len(parts) > 1 else None
        if bound is not None:
            parts = [part + bound for part in parts]
        y = nn.functional.interpolate(torch.cat(parts, 1), scale_factor=2.0)
        return y.view(sizes[0], -1), {"flat": nn.functional.relu(x).flatten(), "sizes": torch.tensor(sizes)}


class Parts(nn.Module):
    """Modules in modules; one of them computes with sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(3, 6, 3, padding=1), nn.BatchNorm1d(6), nn.ReLU(), Permuted())
        self.recurrent = nn.LSTM(4, 5, 2, bidirectional=True)
        self.linear = nn.Linear(10, 2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, _ = self.recurrent(x)
        return self.body(x), self.linear(y)


class Pair(NamedTuple):
    first: torch.Tensor
    second: int


class Paired(nn.Module):
    def forward(self, x: torch.Tensor):  # TorchScript does not read a postponed annotation of a named tuple
        return Pair(x * x.size(0), 3)


class UsesNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Paired())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pair = self.inner(x)
        return pair.first + pair.second


class WithoutGradients(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
        return y.view(x.size(0), -1)


class KeepsList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factors = [1.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.factors.append(2.0)
        return x * self.factors[-1]


WAYS: dict[str, Callable[[nn.Module, Any], Any]] = {
    "scripted": lambda model, x: torch.jit.script(model),
    "traced": lambda model, x: torch.jit.trace(model, x),
    "loaded": lambda model, x: loaded(torch.jit.script(model)),
    "traced and loaded": lambda model, x: loaded(torch.jit.trace(model, x)),
    "frozen": lambda model, x: torch.jit.freeze(torch.jit.script(model)),
    "a part": lambda model, x: nn.Sequential(nn.Identity(), torch.jit.script(model)),
}
BATCH = {"x": {0: "batch"}}


def export_and_compare(model: Any, module: nn.Module, x: torch.Tensor, path: pathlib.Path, others: Any) -> None:
    opbridge.export(model, x, path, input_names=["x"], dynamic_axes=BATCH)
    for other in others:
        opbridge.verify(path, module, other)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [View, Positions, Permuted, Windows, Parts])
def test_sizes_stay_dynamic(kind: Any, way: str, tmp_path: pathlib.Path) -> None:
    if kind is Windows and way.startswith("traced"):
        pytest.skip("torch.jit.trace makes the sizes numbers")
    module, x = kind().eval(), torch.rand(2, 3, 4)
    others = [torch.rand(batch, 3, 4) for batch in (1, 3, 7)]
    export_and_compare(WAYS[way](module, x), module, x, tmp_path / "model.onnx", others)


@pytest.mark.parametrize("way", ["scripted", "traced", "loaded"])
@pytest.mark.parametrize("name", ["resnet18", "swin_t"])
def test_models_of_torchvision(name: str, way: str, tmp_path: pathlib.Path) -> None:
    models = pytest.importorskip("torchvision").models
    torch.manual_seed(0)
    module, x = getattr(models, name)(weights=None).eval(), torch.rand(2, 3, 32, 32)
    others = [torch.rand(batch, 3, 32, 32) for batch in (1, 3, 5)]
    export_and_compare(WAYS[way](module, x), module, x, tmp_path / "model.onnx", others)


def test_a_file(tmp_path: pathlib.Path) -> None:
    torch.jit.script(Parts().eval()).save(tmp_path / "model.pt")
    model = torch.jit.load(tmp_path / "model.pt")
    export_and_compare(model, model, torch.rand(2, 3, 4), tmp_path / "model.onnx", [torch.rand(5, 3, 4)])


def test_scopes_and_lines() -> None:
    """Nodes have the paths of the modules within TorchScript, and the lines of the code that it has compiled."""
    model = nn.Sequential(torch.jit.script(Parts().eval()))
    graph = opbridge.export(model, torch.rand(2, 3, 4), simplify=False).model_proto.graph
    assert "0.body.0/Conv" in [node.name for node in graph.node]
    line = inspect.getsourcelines(Permuted.forward)[1] + 2
    lines = [entry.value for node in graph.node for entry in node.metadata_props if entry.key == "pytorch.source"]
    assert any(f"test_capture_torchscript.py:{line} in forward" in each for each in lines)


def test_named_tuples_are_named(tmp_path: pathlib.Path) -> None:
    module = UsesNames()
    export_and_compare(module, module, torch.rand(2, 3), tmp_path / "model.onnx", [torch.rand(5, 3)])


def test_no_grad(tmp_path: pathlib.Path) -> None:
    module = WithoutGradients()
    export_and_compare(
        torch.jit.script(module), module, torch.rand(2, 3, 4), tmp_path / "a.onnx", [torch.rand(5, 3, 4)]
    )


def test_a_list_that_is_an_attribute(tmp_path: pathlib.Path) -> None:
    """Python would get a copy: TorchScript's own interpreter runs the method."""
    module = torch.jit.script(KeepsList())
    opbridge.export(module, torch.rand(2, 3), tmp_path / "model.onnx", verify=True)


def scaled_by_text(x: torch.Tensor, text: str) -> torch.Tensor:
    return x * float(text) if text.isdigit() else x  # in TorchScript's own interpreter


@torch.jit.script
def of_functions(x: torch.Tensor) -> torch.Tensor:
    return scaled_by_text(torch.norm(x, p=2, dim=-1, keepdim=True), "12") + x


@pytest.mark.parametrize("sizes", [None, ({0: Dim.DYNAMIC},)], ids=["constant", "dynamic"])
def test_functions_that_a_compiled_function_calls(tmp_path: pathlib.Path, sizes: Any) -> None:
    path = tmp_path / "model.onnx"
    model: Any = lambda x: of_functions(x)  # noqa: E731 - not compiled itself
    opbridge.export(model, (X,), path, capture="trace", dynamic_shapes=sizes)
    opbridge.verify(path, model, (X if sizes is None else torch.randn(5, 8),))


@torch.jit.script
def of_tuples(pair: tuple[torch.Tensor, torch.Tensor], sizes: tuple[int, int]) -> tuple[torch.Tensor, int]:
    return pair[0] * pair[1], sizes[0] + sizes[1]


class GivesLists(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product, number = of_tuples([x, x + 1], x.shape)
        return product * number


def test_lists_and_sizes_that_are_given_for_tuples(tmp_path: pathlib.Path) -> None:
    module = GivesLists()
    export_and_compare(module, module, torch.rand(2, 3), tmp_path / "model.onnx", [torch.rand(5, 3)])
    opbridge.export(module, torch.rand(2, 3), tmp_path / "constant.onnx", capture="trace", verify=True)
