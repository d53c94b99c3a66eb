"""Programs that run_decompositions has decomposed into the core operators of ATen."""

from __future__ import annotations

import pathlib

import command
import pytest
import torch
from functionalize_check import Model
from lowering_check import check
from torch import nn

import opbridge
from opbridge.symbolics.registry import registry

# Gradients are refused, and operators that change the shape of a tensor with views; sizes are not operators in ONNX but
# part of the types of tensors.
LEFT_OUT = ("_backward", "::resize_", "::sym_")


def core_operators() -> list[str]:
    names = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        operator = (
            getattr(getattr(torch.ops.aten, packet), overload or "default", None) if namespace == "aten" else None
        )
        if operator is not None and torch.Tag.core in operator.tags:
            names.append(name)
    return names


def test_every_core_operator_has_a_mapping() -> None:
    mapped = {entry[0] for entry in registry().entries()}

    def is_mapped(name: str) -> bool:
        whole, view = name.split(".")[0], name.replace("_copy", "")
        return bool(mapped & {name, whole, view, view.split(".")[0]})

    core = [name for name in core_operators() if not any(part in name for part in LEFT_OUT)]
    assert len(core) > 170
    assert not [name for name in core if not is_mapped(name)]


F = nn.functional
IMAGE, SIGNAL = torch.randn(2, 3, 9, 7), torch.randn(2, 3, 8)


class ConvNext(nn.Module):
    """A block whose result has the memory format channels-last."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise, self.norm = nn.Conv2d(3, 3, 7, padding=3, groups=3), nn.LayerNorm(3)
        self.wide, self.narrow, self.scale = nn.Linear(3, 12), nn.Linear(12, 3), nn.Parameter(torch.rand(3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return x + self.scale * y


BAG = nn.EmbeddingBag(10, 4, mode="sum", padding_idx=2)
PROGRAMS = {
    "reflection 1d": (lambda x: F.pad(x, (2, 3), "reflect"), SIGNAL),
    "reflection 2d": (lambda x: F.pad(x, (2, 3, 1, 0), "reflect"), IMAGE),
    "reflection 3d": (lambda x: F.pad(x[None], (2, 3, 1, 0, 1, 1), "reflect"), IMAGE),
    "replication 1d": (lambda x: F.pad(x, (2, -1), "replicate"), SIGNAL),
    "replication 2d": (lambda x: F.pad(x, (2, 3, 1, 0), "replicate"), IMAGE),
    "replication 3d": (lambda x: F.pad(x[None], (2, 3, 1, 0, 1, 1), "replicate"), IMAGE),
    "adaptive average 2d": (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), IMAGE),
    "convnext": (nn.Sequential(ConvNext(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(3)), IMAGE),
    "adaptive average 3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)), IMAGE),
    "cdist": (lambda x: torch.cdist(x, x + 1), SIGNAL),
    "cdist of order 1": (lambda x: torch.cdist(x, x + 1, 1.0), SIGNAL),
    "pdist": (lambda x: F.pdist(x), SIGNAL[0]),
    "embedding bag": (BAG, torch.tensor([[1, 2, 3], [2, 9, 2]])),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), SIGNAL),
    "group norm": (nn.GroupNorm(3, 3), IMAGE),
    "lstm": (nn.LSTM(8, 5, batch_first=True, bidirectional=True), SIGNAL),
    "transformer": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SIGNAL),
    "convolution": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ConvTranspose2d(4, 2, 3, 2)), IMAGE),
    "bilinear": (nn.Bilinear(8, 8, 3), SIGNAL, SIGNAL + 1),
    "interpolation": (lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), IMAGE),
    "grid sample": (lambda x: F.grid_sample(x, torch.tanh(x[:, :2].permute(0, 2, 3, 1))), IMAGE),
}
for norm in ("backward", "ortho", "forward"):
    PROGRAMS |= {
        f"fft {norm}": (lambda x, n=norm: torch.view_as_real(torch.fft.fft(x, norm=n)), SIGNAL),
        f"ifft {norm}": (lambda x, n=norm: torch.view_as_real(torch.fft.ifftn(x + 0j, norm=n)), SIGNAL),
        f"rfft {norm}": (lambda x, n=norm: torch.view_as_real(torch.fft.rfft2(x, norm=n)), SIGNAL),
        f"irfft {norm}": (lambda x, n=norm: torch.fft.irfft2(x + 0j, (3, 13), norm=n), SIGNAL),
        f"hfft {norm}": (lambda x, n=norm: torch.fft.hfft(x + 0j, norm=n), SIGNAL),
        f"ihfft {norm}": (lambda x, n=norm: torch.fft.ihfft(x, norm=n).abs(), SIGNAL),
    }
SQUARE = torch.randn(2, 4, 4) + 4 * torch.eye(4)
PROGRAMS |= {
    "det": (torch.linalg.det, SQUARE),
    "slogdet": (lambda x: tuple(torch.linalg.slogdet(x)), SQUARE),
    "solve": (torch.linalg.solve, SQUARE, torch.randn(2, 4, 3)),
    "inv": (torch.linalg.inv, SQUARE),
    "eigh": (lambda x: torch.linalg.eigh(x + x.mT)[0], SQUARE),
    "eigvalsh": (torch.linalg.eigvalsh, SQUARE),
    "eigvals": (lambda x: torch.linalg.eigvals(x).abs().sort()[0], SQUARE),  # their order is not defined
    "svd": (lambda x: torch.linalg.svd(x)[1], SQUARE),
    "svdvals": (torch.linalg.svdvals, SQUARE),
    "pinv": (torch.linalg.pinv, SQUARE),
    "lu": (lambda x: tuple(torch.linalg.lu(x)), SQUARE),
    "qr": (lambda x: torch.linalg.qr(x)[1].abs(), SQUARE),
    "cholesky": (lambda x: torch.linalg.cholesky(x @ x.mT), SQUARE),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_decomposed_programs(name: str, tmp_path: pathlib.Path) -> None:
    function, *args = PROGRAMS[name]
    model = (function if isinstance(function, nn.Module) else Model(function)).eval()
    program = torch.export.export(model, tuple(args)).run_decompositions()
    opbridge.export(program, tuple(args), tmp_path / "model.onnx", verify=True)
    torch.export.save(program, tmp_path / "program.pt2")
    done = command.opbridge("convert", tmp_path / "program.pt2", tmp_path / "converted.onnx")
    assert done.returncode == 0, done.stderr
    opbridge.verify(tmp_path / "converted.onnx", program, tuple(args))


def test_calls_that_decompositions_and_old_programs_make():
    aten = torch.ops.aten
    log, target = torch.randn(4, 3).log_softmax(1), torch.tensor([0, 2, -100, 1])
    weight, images = torch.tensor([1.0, 2.0, 3.0]), torch.randn(2, 3, 4, 5).log_softmax(1)
    classes = torch.randint(0, 3, (2, 4, 5))
    functions = {
        **{
            f"nll_loss_forward {reduction}": lambda x, reduction=reduction: (
                aten.nll_loss_forward(x, target, weight, reduction, -100),
                aten.nll_loss_forward(x[0], target[0], None, reduction, 1),
                aten.nll_loss2d_forward(images, classes, weight, reduction, 1),
            )
            for reduction in range(3)
        },
        "frobenius_norm": lambda x: aten.frobenius_norm.dim(x, [1], True),
        "casts": lambda x: (aten._cast_Double(x), aten._cast_Float(x), aten._cast_Long(x * 9), aten._cast_Half(x)),
        "range": lambda x: (aten.range(0.5, 4.5), aten.range.step(7, 1, -2), aten.range.step(0, 1, 0.25)),
        "range of integers": lambda x: aten.range.step(2, 11, 3, dtype=torch.int64),
        "rrelu": lambda x: aten.rrelu_with_noise_functional(x, torch.ones(4, 3), 0.1, 0.3),
    }
    check(functions, log)
