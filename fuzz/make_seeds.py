"""Writes the seeds of program_fuzz and npz_fuzz into fuzz/corpus: programs whose lowerings compute with numbers from
the file, and arrays of every kind that a .npz may hold.

    .venv/bin/python fuzz/make_seeds.py
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.export import Dim

CORPUS = Path(__file__).parent / "corpus"
Tensors = tuple[torch.Tensor, ...]

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any] | None]] = {}


def program(*shapes: tuple[int, ...], dynamic: dict[str, Any] | None = None, dtype: torch.dtype = torch.float32) -> Any:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        inputs = [torch.randn(shape).to(dtype) if shape else torch.tensor(2.0, dtype=dtype) for shape in shapes]
        PROGRAMS[function.__name__] = (function, tuple(inputs), dynamic)
        return function

    return add


@program((2, 4, 8, 8), (6, 2, 3, 3), (6,), (4, 3, 2, 2))
def convolutions(x, weight, bias, back):
    x1 = F.conv2d(x, weight, bias, stride=2, padding=1, dilation=1, groups=2)
    same = F.conv2d(x, weight, bias, padding="same", dilation=2, groups=2)
    x2 = F.conv_transpose2d(x, back, stride=2, padding=1, output_padding=1)
    return x1, same, x2, F.conv1d(x[:, :, 0], weight[:, :, 0], bias, groups=2, padding=2)


@program((1, 4, 6, 6), (6, 2, 3, 3), (4, 2, 2, 2), dtype=torch.float64)
def convolutions_by_products(x, weight, back):
    return F.conv2d(x, weight, stride=2, padding=1, groups=2), F.conv_transpose2d(x, back, stride=3, groups=2)


@program((2, 3, 9, 9))
def pooling(x):
    largest, indices = F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, return_indices=True)
    return (
        *(largest, indices, F.max_pool2d(x, (2, 3), dilation=2), F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
        *(F.avg_pool2d(x, 2, count_include_pad=False, divisor_override=3), F.lp_pool2d(x, 2, 3, stride=2)),
        *(F.adaptive_avg_pool2d(x, (4, 3)), F.adaptive_max_pool2d(x, (2, 5), return_indices=True)),
    )


@program((2, 3, 8, 8), dtype=torch.int64)
def pooling_of_integers(x):
    return F.max_pool2d(x, 3, 2, 1, return_indices=True), F.avg_pool2d(x, 2, 3), x.unfold(2, 3, 2)


@program((2, 3, 8, 8))
def patches(x):
    columns = F.unfold(x, (3, 2), dilation=2, padding=1, stride=2)
    image = F.fold(columns, (8, 8), (3, 2), dilation=2, padding=1, stride=2)
    halves = F.max_pool2d(x, 2, return_indices=True)
    return columns, image, F.max_unpool2d(*halves, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x[:, :2], 2)


@program((2, 4, 6, 6))
def resizing(x):
    return (
        *(F.interpolate(x, scale_factor=2), F.interpolate(x, size=(9, 4), mode="bilinear")),
        *(F.interpolate(x, scale_factor=1.5, mode="bicubic"), F.interpolate(x, (3, 3), mode="nearest-exact")),
        *(F.interpolate(x, (4, 4), mode="bilinear", antialias=True), F.pixel_shuffle(x, 2)),
        *(F.pad(x, (1, 2, 0, 1), mode="reflect"), F.pad(x, (1, 1), value=2.0), F.pad(x, (1, 1, 1, 1), mode="circular")),
        F.grid_sample(x, torch.zeros(2, 3, 3, 2), align_corners=False),
    )


@program((2, 4, 6, 8), (2, 2, 5, 8), (2, 2, 5, 8), (6, 5))
def attention(query, key, value, mask):
    return (
        F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True),
        F.scaled_dot_product_attention(query, query, query, is_causal=True, scale=0.3),
    )


@program((3, 2, 8))
def multihead(x):
    layer = torch.nn.MultiheadAttention(8, 2)
    weights = [torch.zeros_like(p) for p in (layer.in_proj_weight, layer.in_proj_bias)]
    return F.multi_head_attention_forward(
        x, x, x, 8, 2, *weights, None, None, False, 0.0, x.new_zeros(8, 8), x.new_zeros(8), training=False
    )[0]


@program((4, 3), ())
def control_flow(x, threshold):
    from torch._higher_order_ops.while_loop import while_loop

    branch = torch.cond(x.sum() > threshold, lambda a: a * 2, lambda a: a - 1, (x,))
    count, total = while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x))
    return branch, count, total


@program((3, 4), (4,))
def scans(xs, start):
    from torch._higher_order_ops.scan import scan

    return scan(lambda carry, x: (carry + x, carry * x), start, xs)


@program((2, 3, 4, 4))
def quantization(x):
    scales, zeros = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2], dtype=torch.int32)
    return (
        torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
        torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, -128, 127),
    )


@program((4, 5))
def writes(x):
    y = x.clone()
    y[1:3, ::2] = 7
    y[:, 0].add_(1)
    y.view(20)[3:5] = x[0, :2]
    y[torch.tensor([0, 2])] = x[:2] * 2
    y.transpose(0, 1)[2].mul_(3)
    y.masked_fill_(x > 1, 0)
    y.diagonal().zero_()
    y.index_add_(0, torch.tensor([1, 3]), x[:2])
    return y, y.as_strided((3, 2), (2, 1), 1), y.scatter(1, torch.zeros(4, 1, dtype=torch.int64), 5.0)


@program((6, 4), dynamic={"x": {0: Dim("rows", min=4, max=64), 1: Dim("columns", min=3)}})
def sizes(x):
    n, m = x.shape
    return (
        *(x.reshape(n * m), x.new_zeros(n, m + 2), x[: n - 1], x.expand(3, n, m)),
        *(torch.cat([x, x], 1), torch.arange(n), x.mean(0) * n, x.flatten().unfold(0, 2, 3), x.roll(1, 0)),
        *(F.pad(x, (0, m)), x.repeat(2, 1), x.narrow(0, 1, n - 2), x.t().reshape(-1, 1, n)),
    )


@program((1, 2, 8, 8), dynamic={"x": {2: Dim("height", min=4), 3: Dim("width", min=4)}})
def dynamic_images(x):
    return (
        *(
            F.max_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 2),
            F.interpolate(x, scale_factor=2.0),
            F.adaptive_avg_pool2d(x, 1),
        ),
        F.interpolate(x, size=x.shape[2:], mode="bilinear"),
    )


@program((8,))
def data_dependent(x):
    indices = x.nonzero()
    k = indices.numel()
    return x[x > 0], indices, torch.zeros(k), torch.unique(x)


@program((4, 16))
def signals(x):
    spectrum = torch.stft(x, 8, hop_length=4, win_length=6, window=torch.ones(6), return_complex=True)
    return torch.view_as_real(spectrum), torch.fft.irfft(torch.fft.rfft(x, 12), 10), torch.fft.fftshift(x, 1)


@program((5, 5), (5, 3))
def matrices(a, b):
    square = a @ a.mT + torch.eye(5)
    return (
        *(torch.linalg.inv(square), torch.linalg.solve(square, b), torch.linalg.det(square), a.matrix_exp()),
        *(torch.linalg.matrix_power(a, 3), torch.tensordot(a, b, 1), torch.einsum("ij,jk->ik", a, b), a.tril(1)),
        *(torch.linalg.norm(a, 2), torch.linalg.cholesky(square), torch.cdist(a, a), torch.linalg.vector_norm(a, 3)),
    )


@program((4, 6))
def orders(x):
    values, indices = x.sort(1, descending=True)
    return (
        *(values, indices, *x.topk(3), *x.kthvalue(2), *x.median(1), x.cumsum(1), *x.cummax(0), x.argmax(1), x.flip(0)),
        *(x.chunk(3, 1), x.rot90(), x.diff(2), x.std(1, correction=1), x.quantile(0.3), x.histc(4, -1.0, 1.0)),
        *(
            torch.bucketize(x, torch.tensor([0.0, 1.0])),
            x.gather(1, indices),
            x.repeat_interleave(2, 0),
            x.logcumsumexp(1),
        ),
    )


@program((2, 6, 4))
def normalizations(x):
    mean, var = torch.zeros(6), torch.ones(6)
    return (
        *(F.batch_norm(x, mean, var, mean, var), F.layer_norm(x, (6, 4)), F.group_norm(x, 3), F.instance_norm(x)),
        *(F.local_response_norm(x, 3), F.normalize(x), F.rms_norm(x, (4,)), F.glu(x, 1), F.softmax(x, -1)),
    )


@program((5, 2, 3))
def recurrent(x):
    state = torch.zeros(2, 2, 4)
    weights = [torch.full(shape, 0.1) for shape in ((16, 3), (16, 4), (16,), (16,)) * 2]
    out, hidden, cell = torch.lstm(x, (state, state), weights, True, 1, 0.0, False, True, False)
    gru = [torch.full(shape, 0.1) for shape in ((12, 3), (12, 4), (12,), (12,))]
    return out, hidden, cell, torch.gru(x, state[:1], gru, True, 1, 0.0, False, False, False)[0]


@program((4, 5))
def losses(x):
    target = torch.tensor([1, 0, 3, 2])
    return (
        *(
            F.cross_entropy(x, target, label_smoothing=0.1),
            F.nll_loss(x, target, ignore_index=3),
            F.huber_loss(x, x * 2),
        ),
        *(F.smooth_l1_loss(x, x, beta=0.5), F.kl_div(x, x)),
        *(F.embedding(target, x), F.embedding_bag(target, x, torch.tensor([0, 2])), F.one_hot(target, 5)),
        *(F.multi_margin_loss(x, target), F.poisson_nll_loss(x, x), F.triplet_margin_loss(x, x, x + 1)),
    )


@program((3, 4))
def creation(x):
    return (
        *(
            torch.arange(0, 10, 3),
            torch.linspace(0, 1, 7),
            torch.logspace(0, 2, 5),
            torch.full((2, 3), 4),
            torch.eye(3, 4),
        ),
        *(torch.hann_window(6), torch.tril_indices(3, 4), torch.fft.fftfreq(5), torch.ones_like(x), torch.triu(x, -1)),
        *(torch.vander(x[0], 3), torch.special.polygamma(2, x.abs() + 1), torch.mvlgamma(x.abs() + 4, 3), x.pow(3)),
        *(torch.combinations(x[0], 2), torch.block_diag(x, x), torch.cartesian_prod(x[0], x[1]), torch.trapezoid(x)),
    )


@program((3, 4))
def complex_numbers(x):
    z = torch.complex(x, x + 1)
    return torch.view_as_real(z * z.conj()), z.abs(), torch.view_as_real((z @ z.mT).exp()), torch.polar(x, x).real


class Net(torch.nn.Module):
    """A model with weights, which simplification folds."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.fc, self.scale = torch.nn.Linear(4, 3), torch.nn.Parameter(torch.ones(3))
        self.register_buffer("steps", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)
        x = F.relu(self.bn(self.conv(x)))
        x = F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 2).permute(0, 2, 3, 1)
        return (self.fc(x) * self.scale + self.steps).permute(0, 3, 1, 2).flatten(1).unsqueeze(0).squeeze(0)


PROGRAMS["weights"] = (Net().eval(), (torch.randn(2, 2, 6, 6),), None)


class Wrapped(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def without_traces(value: Any) -> Any:
    if isinstance(value, list):
        return [without_traces(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: {} if key == "metadata" else without_traces(each) for key, each in value.items()}


def seed_of(function: Callable[..., Any], inputs: tuple[Any, ...], dynamic: dict[str, Any] | None) -> bytes:
    module = function if isinstance(function, torch.nn.Module) else Wrapped(function)
    shapes = None if dynamic is None else {"args": tuple(dynamic.values())}
    exported = torch.export.export(module, inputs, dynamic_shapes=shapes)
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(exported, Path(folder) / "m.pt2")
        with zipfile.ZipFile(Path(folder) / "m.pt2") as archive:
            read = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    parts = [without_traces(json.loads(read["models/model.json"]))]
    for kind in ("weights", "constants"):
        index = json.loads(read[f"data/{kind}/model_{kind}_config.json"])
        for entry in index["config"].values():
            entry["path_name"], entry["use_pickle"] = "weight_0", False  # the only weight
        parts.append(index)
    while not parts[-1].get("config", True):
        parts.pop()
    return b"\0".join(json.dumps(part, separators=(",", ":")).encode() for part in parts)


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=False)
    return file.getvalue()


ARRAYS = {
    "float32": npy(np.arange(6, dtype=np.float32).reshape(2, 3)),
    "columns": npy(np.asfortranarray(np.arange(24, dtype=np.float64).reshape(2, 3, 4))),
    "number": npy(np.array(3, np.int64)),
    "empty": npy(np.zeros((0, 4), np.int8)),
    "bools": npy(np.array([True, False])),
    "half": npy(np.ones((2, 1), np.float16), (2, 0)),
    "complex": npy(np.ones(3, np.complex64), (3, 0)),
    "bfloat16": npy(np.zeros(4, "V2")),
    "text": npy(np.array(["a", "bc"])),
    "records": npy(np.zeros(2, [("a", "<i4"), ("b", "<f8")])),
}


def main() -> None:
    torch.manual_seed(0)
    for folder in ("program", "npz"):
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
    for name, (function, inputs, dynamic) in PROGRAMS.items():
        (CORPUS / "program" / name).write_bytes(seed_of(function, inputs, dynamic))
    for name, content in ARRAYS.items():
        (CORPUS / "npz" / name).write_bytes(content)


if __name__ == "__main__":
    main()
