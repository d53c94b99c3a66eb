"""Every opset as target: from 13 on, exported models compute the same; below, they do or are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from conftest import INSTALLED
from onnx import TensorProto, helper
from torch import nn

import opbridge
from checking.runtime import run_plain

PROMISED = 13


def loads(opset: int) -> bool:
    """Whether the installed ONNX Runtime loads models of the opset."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception:  # ONNX Runtime's own classes, which it does not name in one place
        return False
    return True


OPSETS = [opset for opset in range(PROMISED, onnx.defs.onnx_opset_version() + 1) if loads(opset)]


class Block(nn.Module):
    """Convolutions, then a transformer on their output."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2, groups=4))
        self.encoder = nn.TransformerEncoderLayer(16, 4, 32, activation="gelu", batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = nn.functional.silu(self.down(self.stem(x)))
        tokens = self.encoder(y.flatten(2).transpose(1, 2))
        scores = self.head(tokens.mean(1))
        causal = nn.functional.scaled_dot_product_attention(tokens, tokens, tokens, is_causal=True)
        return scores.log_softmax(-1), causal


def agree(model: nn.Module, path: Path, x: torch.Tensor) -> None:
    with torch.no_grad():
        expected = model(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for actual, wanted in zip(run_plain(path, x), expected, strict=True):
        np.testing.assert_allclose(actual, wanted.numpy(), rtol=1e-4, atol=1e-5)


def version(path: Path) -> int:
    return {each.domain: each.version for each in onnx.load(path).opset_import}[""]


def test_the_runtime_loads_what_is_promised() -> None:
    assert OPSETS[0] == PROMISED
    assert len(OPSETS) >= 9  # ONNX Runtime 1.20, the oldest supported, loads opset 21


@pytest.fixture(scope="module")
def block() -> Block:
    torch.manual_seed(0)
    return Block().eval()


@pytest.mark.parametrize("opset", OPSETS)
def test_a_convolutional_transformer(block: Block, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    x = torch.randn(2, 3, 12, 12)
    opbridge.export(
        block, (x,), path, input_names=["x"], opset_version=opset, dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    onnx.checker.check_model(path, full_check=True)
    assert version(path) == opset
    agree(block, path, x)
    agree(block, path, torch.randn(5, 3, 12, 12))


class Functional(nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)  # type: ignore[operator]


class Functional2(nn.Module):
    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return self.function(x, i)  # type: ignore[operator]


def flat(value: object) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)  # type: ignore[arg-type]


OLDER = {
    "convolution": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.AdaptiveAvgPool2d(1)),
    "linear": lambda: nn.Sequential(nn.Linear(6, 4), nn.Hardtanh(), nn.Softmax(-1)),
    "layer norm": lambda: nn.LayerNorm(6),
    "causal attention": lambda: Functional(
        lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
    ),
    "gelu": nn.GELU,
    "hardswish": nn.Hardswish,
    "encoder": lambda: nn.Sequential(nn.Flatten(1, 2), nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)),
    "softmax inside": lambda: nn.Softmax(1),
    "split and stack": lambda: Functional(lambda x: torch.stack(x.split([2, 4], dim=-1)[1].unbind(0))),
    "slices": lambda: Functional(lambda x: x[:, ::2, -3:] + x[:, :2, :3]),
    "sums": lambda: Functional(lambda x: x.sum((1, 2)) + x.amax((1, 2)) + x.squeeze().mean((1, 2))),
    "where": lambda: Functional(lambda x: torch.where(x > 0, x, x.clamp(min=-0.5))),
    "pad": lambda: Functional(lambda x: nn.functional.pad(x, (1, 2, 0, 1))),
    "einsum": lambda: Functional(lambda x: torch.einsum("bchw,bcvw->bchv", x, x)),
    "resize": lambda: nn.Upsample(scale_factor=2, mode="nearest"),
    "cumsum": lambda: Functional(lambda x: x.cumsum(-1)),
    "topk": lambda: Functional(lambda x: x.topk(3).values),
    "one hot": lambda: Functional(lambda x: nn.functional.one_hot((x > 0).long(), 2).float()),
}


@pytest.mark.parametrize("opset", range(9, PROMISED))
@pytest.mark.parametrize("name", OLDER)
def test_below_the_promise_it_is_right_or_refused(name: str, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = OLDER[name]().eval()
    path = tmp_path / "m.onnx"
    x = torch.randn(2, 3, 6, 6)
    refusal = ""
    try:
        opbridge.export(model, (x,), path, input_names=["x"], opset_version=opset, capture="trace")
    except opbridge.Error as error:
        refusal = str(error)
    if refusal:
        assert "opset" in refusal
        assert not path.exists()
    else:
        onnx.checker.check_model(path, full_check=True)
        assert version(path) == opset
        agree(model, path, x)


@pytest.mark.parametrize("opset", [0, 8, onnx.defs.onnx_opset_version() + 1])
def test_an_opset_out_of_range_is_refused(opset: int, tmp_path: Path) -> None:
    with pytest.raises(opbridge.Error, match=f"opset.*{opset}|{opset}.*opset"):
        opbridge.export(nn.ReLU(), (torch.zeros(2),), tmp_path / "m.onnx", opset_version=opset)
    assert list(tmp_path.iterdir()) == []


# Operators of models that scripts export for opset 11, besides layers. NaN, infinities and -0 must be right too.
X = torch.tensor([[1.5, -0.0, 0.0, float("nan")], [float("inf"), -2.5, 0.25, 7.0], [3.0, 3.0, -float("inf"), 1.0]])
Y = torch.tensor([[1.5, 1.0, -1.0, 2.0], [1.0, float("nan"), 0.25, 6.5], [4.0, 3.0, -float("inf"), -1.0]])
ROWS = torch.tensor([0, -1])


def put(x: torch.Tensor, index: object, value: object) -> torch.Tensor:
    x = x.clone()
    x[index] = value  # type: ignore[index, assignment]
    return x


def whole(x: torch.Tensor) -> torch.Tensor:
    return x.nan_to_num(0, 9, -9).long()


OF_SCRIPTS = {
    "eq": lambda x, y: (x == y, x == 0.25),
    "ne": lambda x, y: (x != y, x != 3),
    "lt": lambda x, y: (x < y, x < 1.5),
    "le": lambda x, y: (x <= y, x <= 1.5),
    "gt": lambda x, y: (x > y, x > 3),
    "ge": lambda x, y: (x >= y, x >= 3),
    "le of integers": lambda x, y: (x.nan_to_num(0, 9, -9).int() <= 3, x.nan_to_num(0, 9, -9).long() >= 3),
    "maximum": lambda x, y: (torch.maximum(x, y), torch.fmin(x, y)),
    "clamp": lambda x, y: (x.clamp(-1, 2), x.clamp(min=0), x.clamp_max(1.0)),
    "relu6": lambda x, y: (nn.functional.relu6(x), nn.functional.hardtanh(x, -2, 2)),
    "pow": lambda x, y: (x**2, (x * x) ** 0.5, 2.0**y),
    "sum": lambda x, y: (x.sum(), x.sum(1), y.sum((0, 1), keepdim=True)),
    "softmax": lambda x, y: (y.softmax(1), y[:, :1].softmax(0), y.unsqueeze(0).expand(2, 3, 4).softmax(1)),
    "log_softmax": lambda x, y: (y.log_softmax(-1), y.clamp(-5, 5).log_softmax(0), y.double().log_softmax(0)),
    "attention": lambda x, y: nn.functional.scaled_dot_product_attention(
        y.nan_to_num(0, 1, 0)[None], y.nan_to_num(1, 1, 1)[None], y.nan_to_num(2, 1, 2)[None]
    ),
    "indices": lambda x, y: (
        x[ROWS],
        x[:, ROWS],
        x[ROWS[None]],
        x[ROWS, ROWS],
        x[ROWS[:, None], ROWS],
        x[:, None, ROWS],
        x[ROWS, 1:],
    ),
    "masks": lambda x, y: (x[x > 0], x[(x > 0)[:, 0]], x[:, y[0] > 0], x.masked_select(y > 0)),
    "assignment by index": lambda x, y: (
        put(x, ROWS, y[ROWS]),
        put(x, (ROWS, ROWS), 1.0),
        put(x, (slice(None), ROWS), y[:, :2]),
    ),
    "assignment by mask": lambda x, y: (put(x, x > 0, 1.0), put(x, (y > 1)[:, 0], y[:1]), put(x, x > 1, y[x > 1])),
    "argmax": lambda x, y: (x.argmax(1), y.argmin(0, keepdim=True), x.argmax(), y.nan_to_num(0).argmax(-1)),
    "max": lambda x, y: (x.max(), x.max(1), y.min(0, keepdim=True), y.amax((0, 1)), whole(x).max(1), whole(x).amin()),
    "clamp of integers": lambda x, y: (whole(x).clamp(0, 3), whole(x).int().clamp(min=1), whole(x).clamp_max(-1)),
    "maximum of integers": lambda x, y: (torch.maximum(whole(x), whole(y)), torch.minimum(whole(x).int(), whole(y))),
    "relu of integers": lambda x, y: (whole(x).relu(), whole(x).int().relu(), nn.functional.hardtanh(whole(x))),
    "norm": lambda x, y: (x.norm(), x.norm(dim=1), y.norm(1, 0), y.norm(dim=1, keepdim=True), x.norm(float("inf"), 1)),
    "norms of linalg": lambda x, y: (
        torch.linalg.vector_norm(y, dim=0),
        torch.linalg.norm(y.nan_to_num(1)),
        y.norm(3, 1),
    ),
    "normalize": lambda x, y: (nn.functional.normalize(x), nn.functional.normalize(y.nan_to_num(0, 1, -1), dim=0)),
    "cosine similarity": lambda x, y: nn.functional.cosine_similarity(x.nan_to_num(0, 1, 2), y.nan_to_num(0, 1, 2)),
    "any and all": lambda x, y: ((x > 0).any(), (x > 0).all(1), (y != 0).any(0, keepdim=True), x.count_nonzero(1)),
    "triangles": lambda x, y: (x.triu(), x.tril(-1), x.bool().triu(), torch.ones(4, 4).triu(1) * y[:1]),
    "diagonals": lambda x, y: (torch.diag_embed(y), y.diagonal(), torch.diag(y[0])),
    "threshold": lambda x, y: (
        nn.functional.threshold(x, 1, 0),
        nn.functional.hardshrink(x),
        nn.functional.softshrink(y),
    ),
    "glu": lambda x, y: nn.functional.glu(y),
    "losses": lambda x, y: (
        nn.functional.smooth_l1_loss(y.nan_to_num(0, 1, 2), torch.ones(3, 4)),
        nn.functional.binary_cross_entropy(y.nan_to_num(0, 0, 0).sigmoid(), torch.ones(3, 4)),
        nn.functional.cross_entropy(y.nan_to_num(0, 0, 0), torch.tensor([0, 3, 1])),
    ),
    "isin": lambda x, y: (torch.isin(x, y), torch.bucketize(x, torch.tensor([-1.0, 0.0, 2.0]))),
    "isclose": lambda x, y: (torch.isclose(x, y), torch.isclose(x, y, equal_nan=True)),
    "median": lambda x, y: (x.median(1), y.median(), x.nan_to_num(0).quantile(0.25, dim=1)),
    "distances": lambda x, y: torch.cdist(x.nan_to_num(0, 1, 2), y.nan_to_num(0, 1, 2)),
    "cumulative maximum": lambda x, y: (x.cummax(1), y.cummin(0)),
    "clamp of float64": lambda x, y: (x.double().clamp(-1, 2), nn.functional.relu6(y.double())),
}


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("name", OF_SCRIPTS)
def test_what_scripts_for_opset_11_contain(name: str, opset: int, tmp_path: Path) -> None:
    if name == "pow" and INSTALLED == (1, 20):
        pytest.skip("the square root of infinity is NaN in ONNX Runtime 1.20")
    opbridge.export(OF_SCRIPTS[name], (X, Y), tmp_path / "m.onnx", opset_version=opset, verify=True)
    opset_of_file = {each.domain: each.version for each in onnx.load(tmp_path / "m.onnx").opset_import}[""]
    assert opset_of_file == opset


class Detector(nn.Module):
    """Decodes boxes as YOLO does, and takes those of high scores."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(3, 3 * 8, 3, padding=1)
        self.register_buffer("anchors", torch.rand(1, 3, 1, 1, 2))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.head(x)
        batch, _, height, width = y.shape
        y = y.view(batch, 3, 8, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack((columns, rows), 2).view(1, 1, height, width, 2).float()
        y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + grid) * 8
        y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * self.anchors
        boxes = y.reshape(batch, -1, 8)
        score, label = boxes[..., 5:].max(2, keepdim=True)
        kept = boxes[0][(boxes[..., 4] * score[..., 0])[0] > 0.3]
        return boxes, score, label, kept, boxes[0, :, 4].topk(3)[0]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4, batch_first=True)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.gru(self.lstm(x)[0])[0]
        hidden = torch.arange(x.shape[1])[None] >= (x[:, :1, 0] > 0).long() + 2
        return y[:, -1], self.encoder(y, src_key_padding_mask=hidden), y.norm(dim=-1).argmax(1)


@pytest.mark.parametrize("opset", [9, 11, 12])
@pytest.mark.parametrize(("make", "size"), [(Detector, (1, 3, 8, 8)), (Recurrent, (2, 4, 6))])
def test_models_for_older_opsets(make: type, size: tuple[int, ...], opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, path = make().eval(), tmp_path / "m.onnx"
    shapes = (dict.fromkeys(range(2 if make is Detector else 0, len(size) - 1), torch.export.Dim.AUTO),)
    opbridge.export(
        model, torch.rand(size), path, input_names=["x"], opset_version=opset, dynamic_shapes=shapes, verify=True
    )
    onnx.checker.check_model(path, full_check=True)
    agree(model, path, torch.rand(size))
    agree(model, path, torch.rand(*size[:-2], size[-2] + 3, size[-1]))


def test_bert_at_opset_11(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    tokens, mask = torch.randint(0, 100, (2, 7)), torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    model = transformers.BertModel(config).eval()
    opbridge.export(model, (tokens, mask), tmp_path / "m.onnx", opset_version=11, verify=True)


# Models that opset 9 and 10 can express too.
OF_LOWEST_OPSETS = [
    *("eq", "ne", "lt", "le", "gt", "ge", "le of integers", "maximum", "clamp", "relu6", "pow", "sum"),
    *("softmax", "log_softmax", "attention", "indices", "masks", "assignment by index", "assignment by mask"),
    *("argmax", "max", "clamp of integers", "maximum of integers", "relu of integers", "norm", "norms of linalg"),
    *("normalize", "cosine similarity", "any and all", "triangles", "threshold", "glu", "losses", "isin", "isclose"),
    "clamp of float64",
]


@pytest.mark.parametrize("opset", [9, 10])
@pytest.mark.parametrize("name", OF_LOWEST_OPSETS)
def test_what_opset_9_expresses(name: str, opset: int, tmp_path: Path) -> None:
    if name == "pow" and INSTALLED == (1, 20):
        pytest.skip("the square root of infinity is NaN in ONNX Runtime 1.20")
    opbridge.export(OF_SCRIPTS[name], (X, Y), tmp_path / "m.onnx", opset_version=opset, verify=True)
    onnx.checker.check_model(tmp_path / "m.onnx", full_check=True)


@pytest.mark.parametrize("opset", [9, 10])
def test_softmax_and_pixel_shuffle_at_the_lowest_opsets(opset: int, tmp_path: Path) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.softmax(1), x.log_softmax(-1), x.softmax(0), nn.functional.pixel_shuffle(x, 2)

    opbridge.export(model, torch.randn(2, 8, 3, 5), tmp_path / "m.onnx", opset_version=opset, verify=True)


# Operators of opset 10 and 11, for which lower opsets use other operators; some sizes are known only at run time.
OLD_FORMS = {
    "topk": lambda x, i: (x.topk(2), x.topk(3, dim=1, largest=False), (x * 1e6).int().topk(2)),
    "sort": lambda x, i: (x.sort(0, descending=True), x.argsort(-1)),
    "gather": lambda x, i: (x.gather(1, i), x.gather(0, i[:1]), x[:, :3].gather(-1, i)),
    "scatter": lambda x, i: (x.scatter(1, i, x * 2), x.scatter(0, i.clamp(max=1), 5.0)),
    "index": lambda x, i: (x[i[:, 0], i[:, 1]], x[i[:, :1], i], x[:, i[0]], x[i[:1], :], x[-i[0, :2]], x[x > 0.5]),
    "take": lambda x, i: (x.take(i - 2), x.put(-1 - i[0, :1], x[0, :1]), x.index_select(0, i[0])),
    "index_put": lambda x, i: (
        put(x, (i[0], i[0]), 7.0),
        put(x, i[0, :1] - 1, x[:1] * 3),
        put(x, x > 0.5, x[x > 0.5] * 2),
    ),
    "pad": lambda x, i: (
        nn.functional.pad(x, (1, 2), value=-1.5),
        nn.functional.pad(x, (-1, 2, 0, 1)),
        nn.functional.pad(x[None], (1, 2), mode="reflect"),
        nn.functional.pad(x[None], (1, 0), mode="replicate"),
    ),
    "arange": lambda x, i: (torch.arange(x.shape[0]) + i[:, :1], torch.arange(2, x.shape[0] + 2) * 2.5),
    "pool": lambda x, i: (
        nn.functional.max_pool1d(x[None], 2),
        nn.functional.avg_pool1d(x[None], 3, 1, padding=1),
        nn.functional.max_pool1d(x[None], 2, ceil_mode=True),
    ),
    "linear without bias": lambda x, i: (nn.functional.linear(x, torch.ones(3, 5)), x @ x.T),
    "interpolate": lambda x, i: (
        nn.functional.interpolate(x[None, None], scale_factor=2, mode="nearest"),
        nn.functional.interpolate(x[None, None], size=(5, 7), mode="bilinear"),
        nn.functional.interpolate(x[None, None], scale_factor=2, mode="bilinear", align_corners=True),
    ),
    "remainder": lambda x, i: ((i - 2) % 3, (i - 2) // 3, i.remainder(-2)),
    "logsumexp": lambda x, i: x.logsumexp(1),
    "steps": lambda x, i: (x[:, ::2], x[:, -4:-1:3], x[:, 1:1:2], i[:, 2::5]),
    "elements": lambda x, i: ((x * 5).floor(), (-x * 5).ceil(), (x - 0.5).trunc(), x.log2(), x.rsqrt(), x.isinf()),
}


@pytest.mark.parametrize("opset", [9, 10, 11, 12])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", OLD_FORMS)
def test_older_forms_compute_the_same(name: str, dynamic: bool, opset: int, tmp_path: Path) -> None:
    def sample(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand(rows, 5), torch.randint(0, 3, (rows, 3))

    if name == "sort" and dynamic and opset == 9:
        pytest.skip("TopK of opset 9 takes a constant count alone")
    torch.manual_seed(0)
    model, path = Functional2(OLD_FORMS[name]), tmp_path / "m.onnx"
    rows = {0: torch.export.Dim("rows", min=3, max=64)}
    options = {"dynamic_shapes": (rows, rows)} if dynamic else {}
    opbridge.export(model, sample(4), path, input_names=["x", "i"], opset_version=opset, verify=True, **options)
    onnx.checker.check_model(path, full_check=True)
    inputs = sample(6 if dynamic else 4)
    expected = [each for value in flat(model(*inputs)) for each in flat(value)]
    for actual, wanted in zip(run_plain(path, *inputs), expected, strict=True):
        np.testing.assert_allclose(actual, wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [9, 10])
def test_what_an_older_opset_lacks_is_refused_with_the_opset_needed(opset: int, tmp_path: Path) -> None:
    refused = {
        lambda x: x.cumsum(0): 11,
        lambda x: x.round(): 11,
        lambda x: torch.einsum("ii,ij->j", x[:, :2], x): 12,
        lambda x: x.long().sort().values: 11,
        lambda x: nn.functional.pad(x.long(), (1, 1)): 11,
    }
    for function, needed in refused.items():
        with pytest.raises(opbridge.UnsupportedError, match=f"opset_version={needed}"):
            opbridge.export(function, torch.ones(2, 3), tmp_path / "m.onnx", opset_version=opset, capture="trace")
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("opset", [11, 12])
def test_bfloat16_before_onnx_can_cast_it_is_refused(opset: int, tmp_path: Path) -> None:
    for function in (lambda x: x.relu(), lambda x: x.float() * 2, lambda x: x.sum()):
        with pytest.raises(opbridge.Error, match="bfloat16"):
            opbridge.export(function, torch.ones(2).bfloat16(), tmp_path / "m.onnx", opset_version=opset)
    with pytest.raises(opbridge.Error, match="bfloat16"):
        opbridge.export(lambda x: x.bfloat16() * 2, torch.ones(2), tmp_path / "m.onnx", opset_version=opset)
