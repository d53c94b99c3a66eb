"""Dynamic sizes: models are exported at one size, often 1, and compared at three others."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees
from torch import nn
from torch.export import Dim

import opbridge
from opbridge.runtime import session


class Pictures(nn.Module):
    """A net that halves and doubles, with a bypass."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.up = nn.ConvTranspose2d(4, 4, 2, 2)
        self.head = nn.Linear(7, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = self.down(x)
        larger = F.interpolate(low, scale_factor=2.0, mode="bilinear", align_corners=False)
        both = torch.cat([self.up(low) + F.interpolate(low, size=x.shape[-2:]) + larger, x], 1)
        return self.head(F.adaptive_avg_pool2d(both, 1).flatten(1))


class Sequences(nn.Module):
    """Attention with positions and a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = nn.Parameter(torch.rand(64, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.rnn = nn.GRU(8, 6, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        y = self.layer(x + self.positions[:length], src_mask=mask)
        return self.rnn(y)[0].mean(1)


BATCH = Dim("batch")


@CAPTURES
def test_batch_height_and_width(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(1, 3, 32, 32)], [(2, 3, 40, 48)], [(3, 3, 64, 32)], [(5, 3, 32, 36)]]
    dynamic = {"x": {0: BATCH, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC}}
    model = agrees(Pictures().eval(), shapes, dynamic, capture, tmp_path)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert dims[0].dim_param == "batch"
    assert [dim.HasField("dim_value") for dim in dims] == [False, True, False, False]


@CAPTURES
def test_batch_and_length(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(1, 5, 8)], [(2, 7, 8)], [(4, 1, 8)], [(3, 64, 8)]]
    model = agrees(Sequences().eval(), shapes, {"x": {0: BATCH, 1: Dim("length", max=64)}}, capture, tmp_path)
    assert [d.dim_param or d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [
        "batch",
        "length",
        8,
    ]
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@CAPTURES
def test_a_name_that_two_inputs_share_may_have_a_greatest_size(capture: Any, tmp_path: pathlib.Path) -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kinds", torch.rand(1, 32))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            kinds = self.kinds[:, : x.shape[1]].expand(x.shape[0], x.shape[1])  # x.shape[1] is at most 32
            return x * kinds + mask

    sizes = {0: "batch", 1: "length"}
    model = agrees(
        Tokens(), [[(2, 8)] * 2, [(3, 32)] * 2, [(1, 1)] * 2], {"x": sizes, "mask": sizes}, capture, tmp_path
    )
    for value in (*model.graph.input, *model.graph.output):
        assert [dim.dim_param for dim in value.type.tensor_type.shape.dim] == ["batch", "length"]


RECURRENT: dict[str, Callable[[], nn.Module]] = {
    "LSTM": lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True),
    "GRU, sequences in rows": lambda: nn.GRU(4, 3, batch_first=True),
    "RNN": lambda: nn.RNN(4, 3, nonlinearity="relu"),
}


@CAPTURES
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_of_any_length(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(1, 5, 4)], [(2, 7, 4)], [(6, 1, 4)], [(3, 9, 4)]]
    agrees(RECURRENT[name]().eval(), shapes, ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), capture, tmp_path)


LENGTHS = [[(6, 4)], [(7, 4)], [(12, 4)], [(25, 4)]]
ARITHMETIC: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "floor division": lambda x: x[: x.shape[0] // 3],
    "modulo": lambda x: x[x.shape[0] % 5 :],
    "negative": lambda x: x[-x.shape[0] // 2 :],
    "minimum": lambda x: x[: torch.sym_min(x.shape[0], 10)],
    "distance": lambda x: torch.cat([x, x.new_ones(abs(x.shape[0] - 3), 4)]),
    "with sizes": lambda x: torch.cat([F.pad(x, (1, 0), value=v) for v in (x.shape[0] - 1, x.shape[0] / 2)]),
    "to a multiple": lambda x: F.pad(x, (0, 0, 0, (4 - x.shape[0] % 4) % 4)),
    "range": lambda x: x + torch.arange(x.shape[0]).unsqueeze(1),
    "flat": lambda x: x.reshape(-1, 2).sum(1).view(x.shape[0], 2),
    "outer": lambda x: (x[:, None] - x[None]).flatten(0, 1),
    "expanded": lambda x: torch.ones(1, 4).expand(x.shape[0], 4) * x,
    "rolled": lambda x: torch.roll(x, 2, 0).flip(0),
    "rolled twice along an axis": lambda x: torch.roll(x, (-15, 2, 1), (0, 0, -1)),
    "mean": lambda x: x.sum(0) / x.shape[0],
    "new": lambda x: torch.cat([x, x.new_zeros(x.shape[0] * 2 + 1, 4)]),
    "eye": lambda x: torch.eye(x.shape[0]) @ x,
    "triangle": lambda x: torch.ones(x.shape[0], x.shape[0]).tril() @ x,
    "sorted": lambda x: x.sort(0).values.cumsum(0),
}


@CAPTURES
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_of_sizes(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(ARITHMETIC[name], LENGTHS, ({0: Dim.DYNAMIC},), capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize("kind", ["derived", "auto", "named"])
def test_dims_that_depend_on_one_another(kind: str, capture: Any, tmp_path: pathlib.Path) -> None:
    n = Dim("n", min=2)
    dynamic = {
        "derived": ({0: n}, {0: 2 * n + 1}),
        "auto": ({0: Dim.AUTO}, {0: Dim.AUTO}),
        "named": ({0: Dim("n", min=2)}, {0: Dim("m", min=4)}),
    }[kind]
    shapes = [[(3, 2), (7, 2)], [(5, 2), (11, 2)], [(9, 2), (19, 2)], [(2, 2), (5, 2)]]
    function = (lambda x, y: x + y[1::2]) if kind != "named" else (lambda x, y: x.sum(0) + y.sum(0))
    agrees(function, shapes, dynamic, capture, tmp_path)


@CAPTURES
def test_dynamic_axes(capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    model = Pictures().eval()
    opbridge.export(
        model,
        (torch.rand(1, 3, 32, 32),),
        path,
        input_names=["picture"],
        output_names=["classes"],
        dynamic_axes={"picture": {0: "batch", 2: "height", 3: "width"}, "classes": {0: "batch"}},
        capture=capture,
    )
    graph = onnx.load(path).graph
    assert [d.dim_param for d in graph.input[0].type.tensor_type.shape.dim] == ["batch", "", "height", "width"]
    assert graph.output[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    for shape in [(1, 3, 32, 32), (2, 3, 48, 40), (7, 3, 16, 20)]:
        opbridge.verify(path, model, (torch.rand(*shape),))


@CAPTURES
def test_arguments_beyond_the_parameters(capture: Any, tmp_path: pathlib.Path) -> None:
    def function(x: torch.Tensor, *rest: torch.Tensor, scale: torch.Tensor, **others: Any) -> torch.Tensor:
        return x * scale + sum(each.sum() for each in rest) - others["others"].mean() + others["pair"]["a"].amax()

    def arguments(n: int, k: int, m: int) -> Any:
        pair = {"a": torch.rand(m), "b": torch.rand(2)}
        return (torch.rand(n, 4), torch.rand(2)), {
            "others": torch.rand(k),
            "scale": torch.rand(n, 1),
            "pair": pair,
        }

    args, kwargs = arguments(1, 3, 5)
    dynamic = {"x": {0: "n"}, "scale": {0: "n"}, "others": {0: "k"}, "pair": {"a": {0: "m"}}}
    path = tmp_path / "model.onnx"
    opbridge.export(function, args, path, kwargs=kwargs, dynamic_shapes=dynamic, capture=capture)
    for sizes in [(1, 3, 5), (4, 1, 2), (3, 6, 1)]:
        args, kwargs = arguments(*sizes)
        opbridge.verify(path, function, args, kwargs=kwargs)
    shapes = {each.name: [d.dim_param for d in each.type.tensor_type.shape.dim] for each in onnx.load(path).graph.input}
    assert shapes["others"] == ["k"]
    assert shapes["pair_a"] == ["m"]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("scale", [1.5, 1.7, 0.6])
def test_sizes_times_decimals(tmp_path: pathlib.Path, scale: float, capture: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=scale, mode="bilinear")

    sizes = {2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    agrees(model, [[(1, 2, 7, 8)], [(1, 2, 10, 5)], [(1, 2, 30, 2)]], (sizes,), capture, tmp_path)


SCALED = [
    *[(mode, rank) for mode in ("nearest", "nearest-exact") for rank in (1, 2, 3)],
    *[("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)],
]


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize(("mode", "rank"), SCALED)
def test_scales_made_of_sizes(tmp_path: pathlib.Path, mode: str, rank: int, capture: str) -> None:
    positions = torch.sin(torch.arange(2 * 4**rank)).reshape(1, 2, *[4] * rank)

    def model(x: torch.Tensor) -> torch.Tensor:
        scales = tuple((n + 0.1) / 4 for n in x.shape[:rank])
        return F.interpolate(positions, scale_factor=scales if rank > 1 else scales[0], mode=mode)

    sizes = dict.fromkeys(range(3), Dim.DYNAMIC)
    shapes = [(7, 6, 5), (4, 8, 3), (8, 2, 4), (9, 13, 1)]  # some sizes are those of the positions, or twice as large
    agrees(model, [[shape] for shape in shapes], (sizes,), capture, tmp_path)


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_scales_made_of_sizes_without_aliases(tmp_path: pathlib.Path, mode: str, capture: str) -> None:
    """As DINOv2 scales its position embeddings."""
    positions = torch.sin(torch.arange(98.0)).reshape(1, 2, 7, 7)

    def model(x: torch.Tensor) -> torch.Tensor:
        scales = tuple((n + 0.1) / 7 for n in x.shape)
        return F.interpolate(positions, scale_factor=scales, mode=mode, antialias=True)

    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        shapes = [[(9, 4)], [(7, 14)], [(3, 7)], [(2, 16)], [(13, 2)]]
        agrees(model, shapes, ({0: "h", 1: "w"},), capture, tmp_path)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_diagonal_of_a_dynamic_matrix_is_filled(tmp_path: pathlib.Path, capture: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, x).fill_diagonal_(torch.inf).argmin(1) + (x @ x.T).fill_diagonal_(2)

    agrees(model, [[(4, 3)], [(2, 3)], [(7, 3)]], ({0: Dim.DYNAMIC},), capture, tmp_path)


ISTFT: dict[str, dict[str, Any]] = {
    "centered": {"window": torch.hann_window(16)},
    "normalized": {"window": torch.hamming_window(12), "win_length": 12, "normalized": True},
    "not centered": {"center": False, "window": torch.ones(16)},
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("options", list(ISTFT.values()), ids=list(ISTFT))
def test_a_signal_gets_its_length_back(tmp_path: pathlib.Path, options: dict[str, Any], capture: str) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, 16, 4, **options, return_complex=True)
        return torch.istft(spectrum * 2, 16, 4, **options, length=x.shape[-1])

    dynamic = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    agrees(model, [[(2, 32)], [(1, 45)], [(3, 20)]], dynamic, capture, tmp_path)


@pytest.mark.filterwarnings("error::opbridge.TraceWarning")
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_products_of_three_tensors(tmp_path: pathlib.Path, capture: str) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        chained = torch.linalg.multi_dot([x[0], y[0].T, y[0]]) + torch.chain_matmul(x[0], x[0].T, y[0])
        sums = torch.einsum("btd,bte,bue->bdu", x, y, y) + torch.einsum("...td,...te,...te->...d", [x, y, y])[..., None]
        return sums * chained.sum()

    dynamic = ({0: "batch", 1: "time"}, {0: "batch", 1: "time"})
    agrees(model, [[(2, 3, 4)] * 2, [(1, 5, 4)] * 2, [(3, 1, 4)] * 2], dynamic, capture, tmp_path)


@pytest.mark.filterwarnings("error::opbridge.TraceWarning")
@pytest.mark.parametrize("capture", ["export", "trace"])
def test_equal_compares_the_sizes_too(tmp_path: pathlib.Path, capture: Any) -> None:
    path, ones = tmp_path / "m.onnx", torch.ones
    shapes = {"x": {0: "n"}, "y": {0: "m"}}
    opbridge.export(lambda x, y: torch.equal(x, y), (ones(4), ones(4)), path, capture=capture, dynamic_shapes=shapes)
    running = session(path)
    for x, y in ((ones(4), ones(4)), (ones(1), ones(3)), (ones(3), ones(2)), (ones(2), torch.zeros(2))):
        (equal,) = running.run(None, {"x": x.numpy(), "y": y.numpy()})
        assert equal == torch.equal(x, y)


def test_sizes_that_a_model_takes_for_equal_have_one_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    for first, second in (({0: "n", 1: "m"}, {0: "k"}), ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC})):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shapes = {"x": first, "y": second}
            opbridge.export(
                lambda x, y: x + y, (torch.rand(2, 3), torch.rand(3)), path, dynamic_shapes=shapes, capture="trace"
            )
        x, y = (value.shape for value in session(path).get_inputs())
        assert x[1] == y[0] != x[0]


NAMES = ["u0", "size", "s77", "count", "slice", "x_dim_1"]


@CAPTURES
@pytest.mark.parametrize("name", NAMES)
def test_a_name_means_nothing(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    def many(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        found = x[x[:, 0] > 0.3]  # torch calls its size u0
        return torch.cat([x @ w, found @ w, x.mean(0).reshape(1, -1) @ w]).reshape(-1, 2).cumsum(0)

    shapes = [[(3, 4), (4, 2)], [(1, 5), (5, 2)], [(4, 4), (4, 2)]]
    models = []
    for other in ("n", name):
        torch.manual_seed(1)
        dynamic = {"x": {0: other, 1: Dim.DYNAMIC}, "w": {0: Dim.DYNAMIC}}
        models.append(agrees(many, shapes, dynamic, capture, tmp_path))
    first, second = ([node.op_type for node in model.graph.node] for model in models)
    assert first == second
    dims = [dim.dim_param for dim in models[1].graph.input[0].type.tensor_type.shape.dim]
    assert dims[0] == name
    assert len({*dims}) == 2
    named = {dim.dim_param for value in models[1].graph.value_info for dim in value.type.tensor_type.shape.dim}
    assert len(named - {""}) >= 2  # the size that depends on data has a new name


FIRST_EXPORT = """
import sys, torch, opbridge
assert "torch._dynamo" not in sys.modules
opbridge.export(torch.nn.ReLU(), (torch.ones(2, 3),), sys.argv[1], capture="trace", dynamic_shapes={"input": {0: "n"}})
"""


def test_torch_dynamo_is_first_imported_during_a_capture(tmp_path: pathlib.Path) -> None:
    """Dynamo, when it is imported, reads attributes of functions that the capture replaces."""
    command = [sys.executable, "-c", FIRST_EXPORT, str(tmp_path / "model.onnx")]
    package = pathlib.Path(opbridge.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@CAPTURES
def test_cdist_of_more_than_25_rows(capture: Any, tmp_path: pathlib.Path) -> None:
    """By default, torch chooses between two formulas by the number of rows; a guard on it would bound the number."""
    path, rows = tmp_path / "model.onnx", {1: torch.export.Dim("n", min=2)}

    def nearest(x: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, x).topk(2, largest=False).values

    opbridge.export(nearest, (torch.rand(2, 9, 3),), path, capture=capture, dynamic_shapes=(rows,), verify=True)
    x = torch.rand(2, 40, 3, dtype=torch.float64).float()
    exact = torch.cdist(x.double(), x.double()).topk(2, largest=False).values
    torch.testing.assert_close(opbridge.session(path).run(None, {"x": x.numpy()})[0], exact.float().numpy())
