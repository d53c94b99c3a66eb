"""Models that differentiate in forward: torch.autograd, torch.func and forward-mode derivatives, in both captures.

Each model is compared with PyTorch at other inputs than those of the export: a derivative that the capture has
computed from the example would differ there.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from gradients_check import CAPTURES, Function, check
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.nn import functional as F

import opbridge
from checking.models import compare, loaded
from opbridge.errors import UnsupportedError


@pytest.fixture(autouse=True)
def _fixed_inputs():
    torch.manual_seed(0)


class Network(nn.Module):
    """A physics-informed network returns u(x), its gradient, and the second derivatives that an equation has."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), activation, nn.Linear(8, 8), activation, nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> Any:
        x.requires_grad_(True)
        u = self.net(x)
        (slope,) = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)
        (second,) = torch.autograd.grad(slope[:, 0].sum(), x, create_graph=True)
        (third,) = torch.autograd.grad(second[:, 1].sum(), x)
        return u, slope, second[:, 0] - slope[:, 1] + u[:, 0], third


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("activation", [nn.Tanh(), nn.SiLU(), nn.GELU(), nn.Softplus(), nn.Sigmoid(), nn.ELU()])
def test_a_physics_informed_network(capture, activation, tmp_path):
    others = ((torch.randn(7, 2),), (torch.randn(1, 2),))
    tolerances = {"rtol": 1e-4, "atol": 1e-5}
    check(
        Network(activation),
        tmp_path,
        torch.randn(4, 2),
        capture=capture,
        dynamic=({0: "n"},),
        others=others,
        **tolerances,
    )


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("unbind", [torch.unbind, lambda y: y.unbind(dim=0)])
def test_gradients_of_rows(capture, unbind, tmp_path):
    """As captum asks for the gradients of all samples."""

    def model(x):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            scores = MLP(x).square().sum(1)
            assert scores[0].numel() == 1
            return torch.autograd.grad(unbind(scores), x, create_graph=True)[0]

    others = ((torch.randn(1, 4),), (torch.randn(5, 4),))
    check(model, tmp_path, torch.randn(3, 4), capture=capture, dynamic=({0: "n"},), others=others)


class Potential(nn.Module):
    """Energy and forces of atoms, which depend only on the distances between the atoms."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.LayerNorm(8), nn.Linear(8, 1))
        self.register_buffer("centers", torch.linspace(0.5, 3, 4))
        self.embedding = nn.Embedding(5, 4)

    def forward(self, positions: torch.Tensor, species: torch.Tensor) -> Any:
        with torch.enable_grad():
            positions = positions.detach().requires_grad_(True)
            offsets = positions[:, None] - positions[None]
            distances = (offsets.square().sum(-1) + torch.eye(positions.shape[0])).sqrt()
            features = torch.exp(-((distances[..., None] - self.centers) ** 2)) * self.embedding(species)[:, None]
            energy = self.layers(features.sum(1)).sum()
            forces = -torch.autograd.grad(energy, positions, create_graph=True)[0]
        return energy, forces


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("dynamic", [None, {"positions": {0: "atoms"}, "species": {0: "atoms"}}])
def test_forces_of_a_potential(capture, dynamic, tmp_path):
    others = () if dynamic is None else ((torch.randn(9, 3), torch.randint(0, 5, (9,))),)
    args = torch.randn(5, 3), torch.randint(0, 5, (5,))
    check(Potential(), tmp_path, *args, capture=capture, dynamic=dynamic, others=others, rtol=1e-4, atol=1e-4)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 4, 3, 2, 1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(4, 6, 3, padding=1, groups=2),
            nn.GroupNorm(2, 6),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(24, 5),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Saliency(nn.Module):
    """The share of each pixel in the score of a class, and the guidance of a diffusion model by a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = Classifier()

    def forward(self, image: torch.Tensor, label: torch.Tensor) -> Any:
        image = image.clone().requires_grad_()
        scores = self.classifier(image)
        picked = scores.gather(1, label[:, None]).sum()
        (saliency,) = torch.autograd.grad(picked, image, retain_graph=True)
        (guidance,) = torch.autograd.grad(-F.cross_entropy(scores, label), image)
        return saliency.abs().amax(1), image + 0.1 * guidance


@pytest.mark.parametrize("capture", CAPTURES)
def test_saliency_and_guidance(capture, tmp_path):
    args = torch.randn(2, 3, 17, 16), torch.tensor([1, 4])
    others = ((torch.randn(3, 3, 17, 16), torch.tensor([0, 2, 3])),)
    check(
        Saliency(), tmp_path, *args, capture=capture, dynamic=({0: "n"}, {0: "n"}), others=others, rtol=1e-4, atol=1e-5
    )


W = torch.randn(4, 5)
MLP = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3), nn.GELU(), nn.Linear(3, 1))


def of_parameters(x: torch.Tensor) -> Any:
    parameters = dict(MLP.named_parameters())
    return grad(lambda p: functional_call(MLP, p, (x,)).square().mean())(parameters)


def nested(x: torch.Tensor) -> torch.Tensor:
    return grad(lambda x: grad(lambda x: (x.sin() * x).sum())(x).square().sum())(x)


def wave(row: torch.Tensor) -> torch.Tensor:
    """A layer of a SIREN: its frequency is a Python number."""
    return (MLP[2](torch.sin(3 * MLP[0](row)) / 3 - 0.5) + 1).sum()


TRANSFORMS: dict[str, Function] = {
    "grad": grad(lambda x: (x.sin() * x).sum()),
    "grad_and_value": grad_and_value(lambda x: F.softmax(x, -1).square().sum()),
    "nested grad": nested,
    "grad of parameters": of_parameters,
    "vjp": lambda x: vjp(lambda x: x @ W, x)[1](torch.ones_like(x @ W)),
    "jvp": lambda x: jvp(lambda x: torch.tanh(x @ W), (x,), (x * 2,)),
    "jvp of glu": lambda x: jvp(lambda x: F.glu(x, 1), (x,), (x.exp(),)),
    "jvp of jvp": lambda x: jvp(lambda x: jvp(torch.sin, (x,), (x.exp(),))[1], (x,), (x,)),
    "jacrev": lambda x: jacrev(lambda x: torch.tanh(x @ W))(x),
    "jacfwd": lambda x: jacfwd(lambda x: torch.tanh(x @ W))(x),
    "vmap": vmap(lambda row: (row.sin() * row).sum() + row),
    "vmap of vmap": vmap(vmap(lambda number: number.exp() * number)),
    "vmap over another dim": vmap(lambda column: column / column.norm(), in_dims=1, out_dims=1),
    "vmap of linear layers": vmap(lambda row: MLP(row)),
    "layers of sequences": grad(lambda x: MLP(torch.stack([x, x.cos()])).square().sum()),
    "vmap of layers of sequences": vmap(lambda row: MLP(torch.stack([row, row.cos()])[None])),
    "numbers: grad": grad(lambda x: wave(x).sum()),
    "numbers: vmap of grad": vmap(grad(wave)),
    "numbers: vmap of jacrev of grad": vmap(jacrev(grad(wave))),
    "numbers: grad of autograd": lambda x: grad(lambda y: (nested(y * 2) * 3 / 7).sum())(x),
    "vmap of grad": vmap(grad(lambda row: MLP(row).sum())),
    "vmap of hessian": vmap(hessian(lambda row: MLP(row).sum())),
    "vmap of jacrev": vmap(jacrev(lambda row: torch.cumsum(row, 0).exp())),
    "jvp of layers of sequences": lambda x: jvp(lambda x: MLP(torch.stack([x, x.cos()])), (x,), (x.sin(),)),
    "numbers: jvp": lambda x: jvp(wave, (x,), (x.exp(),)),
    "vmap of hessian of quotients and products": vmap(
        hessian(lambda row: (row**3 / (2 + row.cos())).sum() - row.prod())
    ),
    "vmap of jacfwd of jacfwd": vmap(jacfwd(jacfwd(lambda row: (row / (1 + row.square().sum())).sin().sum()))),
    "vmap of jacfwd of joined tensors": vmap(jacfwd(lambda row: torch.cat([row[:2], torch.ones(2), row.sin()]))),
    "vmap of hessian of a convolution": vmap(
        hessian(lambda row: F.conv1d(row[None, None], W[:1, :3, None].mT).exp().sum())
    ),
    "numbers: vmap of hessian": vmap(hessian(wave)),
    "numbers: vmap of jacfwd of grad": vmap(jacfwd(grad(wave))),
    "jvp by weights": lambda x: jvp(lambda weight: F.linear(x, weight).tanh(), (W.mT,), (W.mT.sin(),)),
    "numbers: hessian of a row": lambda x: hessian(wave)(x[0]),
}
OF_CONSTANT_SIZES: dict[str, Function] = {
    "hessian": hessian(lambda x: torch.tanh(x @ W).sum()),
    "jacfwd of jacrev": jacfwd(jacrev(lambda x: (x @ W).sigmoid().sum())),
    "autograd.functional": lambda x: torch.autograd.functional.hessian(lambda x: MLP(x).sum(), x),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", [*TRANSFORMS, *OF_CONSTANT_SIZES])
def test_transforms(name, capture, tmp_path):
    function = (TRANSFORMS | OF_CONSTANT_SIZES)[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(function, tmp_path, torch.randn(3, 4), capture=capture, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_dynamic_sizes(name, capture, tmp_path):
    others = ((torch.randn(5, 4),), (torch.randn(2, 4),))
    check(
        TRANSFORMS[name],
        tmp_path,
        torch.randn(3, 4),
        capture=capture,
        dynamic=({0: "n"},),
        others=others,
        rtol=1e-4,
        atol=1e-5,
    )


def autograd_of(function: Function) -> Function:
    def differentiated(x: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(function(x).sum(), x)[0]

    return differentiated


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.cosine_similarity(x, W[:, :4]),
        lambda x: F.normalize(x) * x,
        lambda x: F.layer_norm(x, (4,)) * x,
        lambda x: x.std(0) * x,
        lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2, 1])),
        lambda x: (x.exp()[None] @ x.sin()[None]) * x,
        lambda x: torch.linalg.norm(x, dim=1),
        lambda x: torch.linalg.solve(x @ x.T + torch.eye(4), x),
        lambda x: torch.cdist(x, W[:, :4]).abs(),
        lambda x: F.embedding_bag(torch.tensor([1, 3, 0, 1]), x, torch.tensor([0, 1]), mode="sum"),
        lambda x: F.grid_sample(W[None, None], x.tanh().reshape(1, 2, 4, 2), align_corners=False),
        lambda x: F.grid_sample(x[None, None], x.tanh().reshape(1, 2, 4, 2), "bicubic", "reflection", False),
        lambda x: torch.fft.irfft2(torch.fft.rfft2(x).abs() * torch.fft.rfft2(x)),
        lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None].cos(), x[None, None].sin()),
        lambda x: F.scaled_dot_product_attention(
            x[None, :, None], x.view(1, 2, 2, 4).cos(), x.view(1, 2, 2, 4).sin(), enable_gqa=True
        ),
        lambda x: torch.istft(torch.stack([x, x.cos()]) + 1j * x.sin(), 6, 2, window=torch.hann_window(6)).sin(),
        F.rrelu,
    ],
)
def test_what_operators_save_inside_is_not_a_constant(function, capture, tmp_path):
    check(autograd_of(function), tmp_path, torch.randn(4, 4), capture=capture, rtol=1e-4, atol=1e-5)


CTC_LENGTHS: dict[str, Function] = {
    "tensors": lambda target: (torch.tensor([12, 10, 7]), torch.tensor([5, 2, 3])),
    "numbers": lambda target: ((12, 10, 7), (5, 2, 3)),
    "of the inputs": lambda target: (target[:, 3] + 7, target[:, 4]),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("lengths", CTC_LENGTHS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc_loss(reduction, lengths, capture, tmp_path):
    def model(x, target):
        x = x.detach().requires_grad_()
        sizes = CTC_LENGTHS[lengths](target)
        with torch.enable_grad():
            loss = F.ctc_loss(x.log_softmax(-1), target, *sizes, blank=5, reduction=reduction, zero_infinity=True)
            return loss, torch.autograd.grad((loss * torch.arange(1.0, 4)).sum() + x.sin().sum(), x)[0]

    target = torch.tensor([[2, 2, 3, 4, 4], [0, 1, 2, 1, 3], [4, 4, 4, 0, 4]])  # the last one's lengths: 7, 4
    dynamic = ({0: "length"}, {}) if lengths != "numbers" else None
    check(model, tmp_path, torch.randn(12, 3, 6), target, capture=capture, dynamic=dynamic, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("capture", CAPTURES)
def test_ctc_loss_of_one_sequence(capture, tmp_path):
    def model(x):
        target, sizes = torch.tensor([1, 2, 2]), (torch.tensor(12), torch.tensor(3))
        return F.ctc_loss(x.log_softmax(-1), target, *sizes) + x.square().mean()

    check(autograd_of(model), tmp_path, torch.randn(12, 6), capture=capture, rtol=1e-4, atol=1e-5)
    check(grad(model), tmp_path, torch.randn(12, 6), capture=capture, rtol=1e-4, atol=1e-5)


# Pools of regions; those of channels by position take 6 channels for each of the image.
REGIONS = {
    "roi_align": lambda ops, x, boxes: ops.roi_align(x, boxes, (3, 2), 0.7),
    "aligned": lambda ops, x, boxes: ops.roi_align(x, boxes, 2, sampling_ratio=2, aligned=True),
    "roi_pool": lambda ops, x, boxes: ops.roi_pool(x, boxes, (3, 2), 0.8),
    "ps_roi_align": lambda ops, x, boxes: ops.ps_roi_align(x.repeat(1, 6, 1, 1), boxes, (3, 2), 0.7),
    "ps_roi_align of samples": lambda ops, x, boxes: ops.ps_roi_align(x.repeat(1, 6, 1, 1), boxes, (3, 2), 0.7, 2),
    "ps_roi_pool": lambda ops, x, boxes: ops.ps_roi_pool(x.repeat(1, 6, 1, 1), boxes, (3, 2), 0.8),
}
BOXES = torch.tensor([[0, 0.5, 0.5, 4, 4], [1, 1, 1, 5, 6], [0, 3, 2, 9, 9]])


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", [*REGIONS, "deform_conv2d", "modulated"])
def test_operators_of_torchvision(name, capture, tmp_path):
    ops = pytest.importorskip("torchvision").ops
    weight = torch.randn(3, 2, 3, 3)
    functions = {
        **{name: lambda x, pool=pool: pool(ops, x, BOXES) for name, pool in REGIONS.items()},
        "deform_conv2d": lambda x: ops.deform_conv2d(x, x[:, :1].expand(-1, 18, -1, -1).sin(), weight, padding=1),
        "modulated": lambda x: ops.deform_conv2d(
            x, x[:, :1].expand(-1, 18, -1, -1).sin(), weight, padding=1, mask=x[:, 1:].expand(-1, 9, -1, -1).sigmoid()
        ),
    }
    others = ((torch.randn(3, 2, 6, 9),),)
    check(
        autograd_of(lambda x: functions[name](x) ** 2),
        tmp_path,
        torch.randn(2, 2, 7, 8),
        capture=capture,
        dynamic=({0: "n", 2: "h", 3: "w"},),
        others=others,
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", REGIONS)
def test_any_number_of_regions(name, capture, tmp_path):
    ops = pytest.importorskip("torchvision").ops

    def model(x, boxes):
        return autograd_of(lambda x: REGIONS[name](ops, x, boxes) ** 2)(x)

    x, other = torch.randn(2, 2, 7, 8), torch.randn(3, 2, 6, 9)
    everywhere = torch.tensor([[2.0, -30, -20, 40, 50], [1, 5, 6, 5, 9], [0, 6, 5, 2, 1], [1, 99, 99, 120, 110]])
    sizes = ({0: "n", 2: "h", 3: "w"}, {0: "k"})
    path = tmp_path / "model.onnx"
    opbridge.export(model, (x, BOXES), path, capture=capture, dynamic_shapes=sizes)
    others = [(x, BOXES[:0]), (x, BOXES[1:2]), (other, everywhere), (other[:0], BOXES[:0])]
    compare(model, loaded(path), [(x, BOXES), *others], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("function", [torch.det, torch.logdet, lambda x: torch.linalg.slogdet(x)[1]])
@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x.mT, lambda x: x[0], lambda x: x[:, ::2, ::2]])
def test_determinants(function, layout, capture, tmp_path):
    def model(x):
        return function(layout(x @ x.mT + 4 * torch.eye(4) + x.tril(-1))) ** 2

    torch.manual_seed(0)  # some matrices have gradients so large that what cancels out leaves rounding errors
    others = ((torch.randn(5, 4, 4),),)
    args = torch.randn(3, 4, 4)
    check(autograd_of(model), tmp_path, args, capture=capture, others=others, dynamic=({0: "n"},), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("capture", CAPTURES)
def test_determinants_of_singular_matrices(capture, tmp_path):
    def model(x):
        return torch.det(x * torch.tensor([1.0, 1, 0]))

    check(autograd_of(model), tmp_path, torch.randn(2, 3, 3), capture=capture, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("capture", CAPTURES)
def test_second_derivatives_of_absolute_values_and_signs_of_complex_numbers(capture, tmp_path):
    def model(x):
        z = torch.complex(x, x.cos())
        y = (z.abs() ** 3).sum() + z.sgn().real.sum() + torch.fft.rfft(x).abs().square().sum()
        return torch.autograd.grad(y, x, create_graph=True)[0] ** 2

    check(autograd_of(model), tmp_path, torch.randn(3, 4), capture=capture, dynamic=({0: "n"},), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("capture", CAPTURES)
def test_imaginary_parts_of_conjugated_tensors(capture, tmp_path):
    def model(x):
        z = torch.complex(x, x.cos())
        return z.conj().imag * x.sin(), torch.fft.hfft(z) * x[:, :1], torch.fft.ihfft(x).imag * x[:, :1]

    def gradient(x):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(sum(y.sum() for y in model(x)), x)[0]

    check(gradient, tmp_path, torch.randn(3, 4), capture=capture, dynamic=({0: "n"},), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("capture", CAPTURES)
def test_second_derivatives_of_determinants(capture, tmp_path):
    def model(x):
        y = torch.linalg.slogdet(x @ x.mT + torch.eye(3))[1].sum() + torch.det(x).sum()
        return torch.autograd.grad(y, x, create_graph=True)[0] ** 2

    check(autograd_of(model), tmp_path, torch.randn(2, 3, 3), capture=capture, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("capture", CAPTURES)
def test_images_of_dynamic_sizes(capture, tmp_path):
    weight = torch.randn(2, 2, 3, 3)

    def function(x):
        y = F.conv2d(F.pad(x, (1, 1, 1, 1), "reflect"), weight, stride=2)
        y = F.interpolate(F.silu(y), scale_factor=2, mode="bilinear")
        return F.avg_pool2d(y, 2).square().sum() + F.max_pool2d(y, 3, 2).sum()

    dynamic = ({2: "h", 3: "w"},)
    args = torch.randn(1, 2, 12, 10)
    others = ((torch.randn(1, 2, 9, 15),),)
    check(autograd_of(function), tmp_path, args, capture=capture, dynamic=dynamic, others=others, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_loss_that_is_differentiated_by_backward(capture, tmp_path):
    def model(x):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            (x.tanh() ** 3).sum().backward()
        return x.grad * 2

    check(model, tmp_path, torch.randn(3, 4), capture=capture)


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_refusal_has_no_stack_of_torch(capture):
    def model(x):
        return torch.fake_quantize_per_channel_affine(x, torch.full((4,), 0.1), torch.zeros(4).int(), 1, -8, 7) ** 2

    with pytest.raises(UnsupportedError, match="with symbolic sizes") as refusal:
        opbridge.export(autograd_of(model), (torch.randn(5, 4),), "m.onnx", capture=capture, dynamic_shapes=({0: "n"},))
    assert len(str(refusal.value).splitlines()) < 4


class Sign(torch.autograd.Function):
    """A sign with the derivative of a clipped identity. torch.func accepts it, since it has setup_context."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (1 - ctx.saved_tensors[0] ** 2)

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
        return tangent * (1 - ctx.saved_tensors[0] ** 2)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x + x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return Sign.apply(gradient) * gradient

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: torch.Tensor) -> Any:
        return Doubled.apply(x), in_dims[0]


def through_functions(x: torch.Tensor) -> torch.Tensor:
    return (Sign.apply(x.cos()) * Doubled.apply(x.sin()) + x).sum()


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize(
    "function",
    [
        grad(through_functions),
        lambda x: vjp(lambda x: Doubled.apply(Sign.apply(x) * x), x)[1](x.cos())[0],
        lambda x: jvp(lambda x: Sign.apply(x) * x, (x,), (x.cos(),)),
        vmap(through_functions),
        vmap(lambda row: Doubled.apply(row.sin())),
        vmap(grad(lambda row: (Sign.apply(row) * row.sin()).sum())),
        grad(lambda x: grad(through_functions)(x).square().sum()),
    ],
)
def test_functions_of_autograd(function, capture, tmp_path):
    x, others = torch.randn(3, 4), ((torch.randn(5, 4),),)
    check(function, tmp_path, x, capture=capture, rtol=1e-4, atol=1e-5)
    check(function, tmp_path, x, capture=capture, dynamic=({0: "n"},), others=others, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("capture", CAPTURES)
def test_an_operator_without_gradient_is_refused_where_a_derivative_goes_through_it(capture, tmp_path):
    opbridge.load_operators()

    def keypoints(x):
        return torch.ops.opbridge.heatmaps_to_keypoints(x, torch.tensor([[0.0, 0, 4, 4]] * 2))[1]

    def through(x):
        return keypoints(x).sum() + x.sin().sum()

    x = torch.randn(2, 3, 5, 5)
    for model in (autograd_of(through), grad(through)):
        with pytest.raises(
            UnsupportedError, match=r"opbridge::heatmaps_to_keypoints, which has no gradient\n  at test_"
        ):
            opbridge.export(model, (x,), tmp_path / "model.onnx", capture=capture)

    def beside(x):
        x = x.detach().requires_grad_()
        with torch.enable_grad():
            scores, y = keypoints(x), x.sin()
            return scores, torch.autograd.grad(y.sum(), x)[0]

    check(beside, tmp_path, x, capture=capture)


def test_a_branch_by_a_gradient(tmp_path):
    def model(x):
        gradient = grad(lambda x: x.square().sum())(x)
        return gradient if gradient.sum() > 0 else -gradient

    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.ones(3),), path)
    for x in (torch.ones(3), -torch.ones(3)):
        assert opbridge.verify(path, model, (x,)).ok


def test_the_example_and_the_model_are_as_before(tmp_path):
    model, x = Network(nn.Tanh()), torch.randn(4, 2)
    opbridge.export(model, (x,), tmp_path / "model.onnx", verify=True)
    assert not x.requires_grad
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert torch.vmap(torch.sin)(x).shape == x.shape


def test_transforms_that_fail_are_left():
    def model(x):
        return vmap(lambda row: jvp(lambda row: row if row.sum() > 0 else -row, (row,), (row,))[1])(x)

    for capture in CAPTURES:
        with pytest.raises(Exception, match="vmap"):
            opbridge.capture.capture(model, (torch.ones(3, 2),), how=capture)
        torch.rand(2)  # not allowed in vmap
        assert jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))[1] == 1


def batched_gradients(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        x, unused = x.detach().requires_grad_(), torch.ones(2, requires_grad=True)
        y = torch.tanh(x @ W)
        rows = torch.eye(y.shape[1]).unsqueeze(1).expand(-1, *y.shape)
        given = {"is_grads_batched": True, "create_graph": True, "allow_unused": True}
        none, of_rows = torch.autograd.grad(y, (unused, x), rows, **given)
        assert none is None
        return of_rows, torch.autograd.grad(of_rows.square().sum(), x)[0]


BATCHED = {
    "grad": batched_gradients,
    "jacobian": lambda x: torch.autograd.functional.jacobian(lambda x: torch.tanh(x @ W).sum(0), x, vectorize=True),
    "hessian": lambda x: torch.autograd.functional.hessian(lambda x: torch.tanh(x @ W).sum(), x, vectorize=True),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
@pytest.mark.parametrize("name", BATCHED)
def test_batched_gradients(name, dynamic, capture, tmp_path):
    others = () if dynamic is None else ((torch.randn(1, W.shape[0]),), (torch.randn(5, W.shape[0]),))
    check(BATCHED[name], tmp_path, torch.randn(3, W.shape[0]), capture=capture, dynamic=dynamic, others=others)


def of_several(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.tanh(x @ W).sum(0) * y.sum(), y[:, None] * x.sin(), x.mean()


def forces(x: torch.Tensor) -> torch.Tensor:
    distances = (x[:, None] - x[None]).square().sum(-1)
    return (-distances).exp().sum()


def forces_of_each(x: torch.Tensor) -> torch.Tensor:
    return (x[:, None] - x[None]).square().sum(-1).tanh().sum(1)


LOOPS: dict[str, Function] = {
    "jacrev of several": lambda x: jacrev(lambda x: of_several(x, x[:, 0]))(x),
    "jacrev in chunks": lambda x: jacrev(forces_of_each, chunk_size=2)(x),
    "jacfwd of several": lambda x: jacfwd(lambda x: of_several(x, x[:, 0]))(x),
    "vmap in chunks": lambda x: vmap(jacrev(lambda row: row.sin() * row.sum()), chunk_size=2)(x),
    "jacobian": lambda x: torch.autograd.functional.jacobian(lambda x: torch.tanh(x @ W).sum(0) * x[:, :1], x),
    "of an output of constant size": lambda x: torch.autograd.functional.jacobian(lambda x: x.sin().sum(0), x),
    "of several": lambda x: torch.autograd.functional.jacobian(of_several, (x, x[:, 0])),
    "of several, vectorized": lambda x: torch.autograd.functional.jacobian(of_several, (x, x[:, 0]), vectorize=True),
    "of one that is not used": lambda x: torch.autograd.functional.jacobian(lambda x, y: x.exp(), (x, x.double())),
    "hessian": lambda x: torch.autograd.functional.hessian(forces, x),
    "hessian of several": lambda x: torch.autograd.functional.hessian(
        lambda x, y: (of_several(x, y)[1] * x).sum(), (x, x[:, 0])
    ),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
@pytest.mark.parametrize("name", LOOPS)
def test_gradients_of_each_element_of_an_output(name, dynamic, capture, tmp_path):
    others = () if dynamic is None else ((torch.randn(1, W.shape[0]),), (torch.randn(5, W.shape[0]),))
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        check(LOOPS[name], tmp_path, torch.randn(3, W.shape[0]), capture=capture, dynamic=dynamic, others=others)


@pytest.mark.parametrize("capture", CAPTURES)
def test_batched_derivatives_in_forward_mode_are_refused(capture, tmp_path):
    def model(x):
        return torch.autograd.functional.jacobian(torch.tanh, x, vectorize=True, strategy="forward-mode")

    with pytest.raises(UnsupportedError, match="jacfwd"):
        opbridge.export(model, (torch.randn(3),), tmp_path / "model.onnx", capture=capture)


class ClassActivation(nn.Module):
    def __init__(self, keeps: Function) -> None:
        super().__init__()
        self.convolution, self.head, self.keeps = nn.Conv2d(3, 4, 3), nn.Linear(4, 5), keeps

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        features = self.convolution(image)
        gradient = self.keeps(features)
        self.head(features.relu().mean((2, 3))).amax(1).sum().backward()
        return (features * gradient().mean((2, 3), keepdim=True)).sum(1).relu()


def by_hook(features: torch.Tensor) -> Function:
    kept: list[torch.Tensor] = []
    features.register_hook(kept.append)
    return lambda: kept[0]


def by_attribute(features: torch.Tensor) -> Function:
    features.retain_grad()
    return lambda: features.grad


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("keeps", [by_hook, by_attribute])
def test_class_activation_maps(keeps, capture, tmp_path):
    opbridge.export(
        ClassActivation(keeps),
        (torch.randn(2, 3, 8, 8),),
        tmp_path / "m.onnx",
        capture=capture,
        dynamic_shapes=({0: "n"},),
        mutations_as_outputs=True,
        verify=True,
    )


def test_a_branch_by_data_in_a_transform_is_refused(tmp_path):
    def squares_or_cubes(x):
        return (x**2).sum() if x.sum() > 1 else (x**3).sum()

    with pytest.raises(UnsupportedError, match=r"branches on a tensor.*inside of a transform.*torch\.where"):
        opbridge.export(torch.func.grad(squares_or_cubes), (torch.rand(4, 2),), tmp_path / "m.onnx")


@pytest.mark.parametrize("dynamic", [None, ({0: torch.export.Dim("n")},)])
def test_a_branch_by_data_in_a_transform_is_warned_of_by_trace(dynamic, tmp_path):
    def squares_or_cubes(x):
        return (x**2).sum() if x.sum() > 1 else (x**3).sum()

    def model(x):
        return torch.func.grad(squares_or_cubes)(x)

    with pytest.warns(opbridge.TraceWarning, match="was read as the number True"):
        opbridge.export(model, (torch.rand(4, 2) + 1,), tmp_path / "m.onnx", capture="trace", dynamic_shapes=dynamic)


def test_a_refused_model_that_normalizes_in_a_transform(tmp_path):
    """Whether the model fails by itself is tried out; its buffers, which batch norm may write, are restored."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def loss(x: torch.Tensor) -> torch.Tensor:
                total = self.norm(x).sum()
                if x.sum() > 0:
                    total = total * 2
                return total

            return grad(loss)(x)

    with pytest.raises(UnsupportedError):
        opbridge.export(Model().eval(), (torch.ones(2, 3),), tmp_path / "model.onnx")
