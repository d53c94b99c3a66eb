"""Derivatives of single operators in forward mode, and of each sample of a batch, with dynamic sizes."""

import pytest
import torch
from gradients_check import CAPTURES, Function, check
from torch import nn
from torch.func import grad, hessian, jacfwd, jvp, vmap

from opbridge.errors import UnsupportedError


def pushed(function: Function) -> Function:
    """Its derivative along a vector, in forward mode."""
    return lambda x: jvp(function, (x,), (torch.full_like(x, 0.5),))


def curved(function: Function) -> Function:
    """The product of the Hessian of the sum with a vector, forward over reverse mode."""
    return lambda x: jvp(grad(lambda x: function(x).sin().sum()), (x,), (torch.ones_like(x),))[1]


def halves_doubled(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y[..., 1:3] *= x[..., :2]
    return y + x


IMAGES = torch.randn(2, 4, 3, 5)
WEIGHT = torch.linspace(0.5, 1.5, 5, dtype=torch.float64)
# Some are computed in float64: second derivatives of theirs are off by 1e-4 in float32, in PyTorch too.
OF_IMAGES: dict[str, Function] = {
    "batch norm": nn.BatchNorm2d(4).eval(),
    "group norm": nn.GroupNorm(2, 4),
    "instance norm": nn.InstanceNorm2d(4, affine=True),
    "layer norm": lambda x: nn.functional.layer_norm(x.double(), (5,), WEIGHT, WEIGHT - 1),
    "layer norm of halves": lambda x: nn.functional.layer_norm(x.half(), (3, 5)).float(),
    "glu": lambda x: nn.functional.glu(x, 1),
    "cat with a constant": lambda x: torch.cat([x.sin(), torch.ones_like(x[:, :1]), x * x], 1),
    "stack with a constant": lambda x: torch.stack([x.sin(), torch.ones_like(x)], 1),
    "mse loss": lambda x: nn.functional.mse_loss(x, x.cos().detach(), reduction="none"),
    "huber loss": lambda x: nn.functional.huber_loss(x, x.cos().detach(), reduction="none", delta=0.3),
    "maximum": lambda x: x.double().amax(2) + x.double().max(3)[0].sum(2, keepdim=True),
    "sorted": lambda x: x.sort(3)[0] * x,
    "indices": lambda x: (x * x)[..., [0, 2, 2]],
    "transposed": lambda x: (x.double().mT.contiguous() @ x.double()).sin(),
}


OF_FIRST_ORDER = ("huber loss",)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("dynamic", [None, ({0: "n", 2: "h"},)])
@pytest.mark.parametrize(
    ("name", "transform"),
    [
        *((name, pushed) for name in OF_IMAGES),
        *((name, curved) for name in OF_IMAGES if name not in OF_FIRST_ORDER),
    ],
)
def test_forward_mode_of_operators_with_dynamic_sizes(name, transform, dynamic, capture, tmp_path):
    halves = name == "layer norm of halves"
    if halves and dynamic is not None:
        dynamic = ({0: "n"},)
    rows = IMAGES.shape[2] if halves else 7
    others = () if dynamic is None else ((torch.randn(1, 4, rows, 5),), (torch.randn(3, 4, rows, 5),))
    model, atol = transform(OF_IMAGES[name]), 2e-3 if halves else 1e-5
    check(model, tmp_path, IMAGES, capture=capture, dynamic=dynamic, others=others, rtol=10 * atol, atol=atol)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
def test_forward_mode_of_an_operator_in_place(dynamic, capture, tmp_path):
    def model(x):
        return pushed(lambda x: (x * 2).lerp_(x, torch.tensor(0.3)).addcmul_(x, x))(x), x.quantile(0.3, dim=1)

    for each in (model, pushed(lambda x: x.quantile(0.3, dim=1))):
        others = () if dynamic is None else ((torch.randn(1, 6),), (torch.randn(5, 6),))
        check(each, tmp_path, torch.randn(3, 6), capture=capture, dynamic=dynamic, others=others)


def of_each_sample(function: Function) -> Function:
    return vmap(grad(lambda row: function(row).sum()))


PER_SAMPLE: dict[str, Function] = {
    "mse loss": of_each_sample(lambda row: nn.functional.mse_loss(row.sin(), row.cos().detach())),
    "sum of squares": of_each_sample(lambda row: nn.functional.mse_loss(row.sin(), torch.ones(1), reduction="sum")),
    "huber loss": of_each_sample(lambda row: nn.functional.huber_loss(row.sin(), row[:1], delta=0.3)),
    "smooth l1 loss": of_each_sample(lambda row: nn.functional.smooth_l1_loss(row, row.sin().detach(), beta=0.5)),
    "loss of a number": of_each_sample(lambda row: nn.functional.mse_loss(row.sum(), row.prod())),
    "written in place": of_each_sample(halves_doubled),
    "glu in forward mode": vmap(jacfwd(nn.functional.glu)),
    "mish in forward mode": vmap(jacfwd(nn.functional.mish)),
    "second derivatives of glu": vmap(hessian(lambda row: nn.functional.glu(row).sin().sum())),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
@pytest.mark.parametrize("name", PER_SAMPLE)
def test_derivatives_of_each_sample(name, dynamic, capture, tmp_path):
    others = () if dynamic is None else ((torch.randn(1, 6),), (torch.randn(5, 6),))
    check(PER_SAMPLE[name], tmp_path, torch.randn(3, 6), capture=capture, dynamic=dynamic, others=others)


def differentiated_twice(function: Function) -> Function:
    def model(x):
        x = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(function(x).sin().sum(), x, create_graph=True)
        return slope, torch.autograd.grad(slope.square().sum(), x)[0]

    return model


def pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x.cos()], -1)


TWICE: dict[str, Function] = {
    "absolute": torch.abs,
    "absolute of complex numbers": lambda x: torch.view_as_complex(torch.stack([x, x.sin()], -1)).abs(),
    "norm of the first order": lambda x: x.norm(p=1),
    "greatest of a vector": lambda x: torch.linalg.vector_norm(x, torch.inf, -1),
    "normalized": lambda x: nn.functional.normalize(x, p=1, dim=-1),
    "softsign": nn.functional.softsign,
    "glu": lambda x: nn.functional.glu(pairs(x)),
}


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("name", TWICE)
def test_second_derivatives_with_dynamic_sizes(name, capture, tmp_path):
    x, others = torch.rand(3, 4, dtype=torch.float64) + 0.1, [(1, 4), (4, 4), (5, 1), (1, 1)]
    calls = tuple((torch.rand(shape, dtype=torch.float64) + 0.1,) for shape in others)
    for transform in (differentiated_twice, curved):
        check(transform(TWICE[name]), tmp_path, x, capture=capture, dynamic=({0: "n", 1: "m"},), others=calls)


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("norm", [nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.BatchNorm2d(4)])
def test_second_derivatives_of_normalizations_with_dynamic_sizes(norm, capture, tmp_path):
    norm = norm.double().eval()
    others = tuple((torch.randn(shape, dtype=torch.float64),) for shape in [(1, 4, 3, 5), (4, 4, 3, 5)])
    x = torch.randn(3, 4, 3, 5, dtype=torch.float64)
    check(differentiated_twice(norm), tmp_path, x, capture=capture, dynamic=({0: "n"},), others=others)


def test_second_derivatives_at_zero(tmp_path):
    zeros = ((torch.zeros(2, 3, dtype=torch.float64),),)
    x = torch.rand(4, 3, dtype=torch.float64)
    check(curved(torch.abs), tmp_path, x, capture="trace", dynamic=({0: "n"},), others=zeros)
    complex_numbers = differentiated_twice(lambda x: torch.complex(x, x * 2).abs())
    check(complex_numbers, tmp_path, x, capture="trace", dynamic=({0: "n"},), others=zeros)


TRANSFORMED: dict[str, Function] = {
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=4),
    "hfft": lambda x: torch.fft.hfft(x, n=5),
    "fft": lambda x: torch.fft.fft(x, n=3).real,
    "fft of twice the size": lambda x: torch.fft.fft(x, n=2 * x.shape[1]).real,
    "as many as rows": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[0] + 2),
    "both axes": lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape),
    "rfft along the first axis": lambda x: torch.fft.rfft(x, 5, 0).imag,
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_derivatives_of_fourier_transforms_that_cut_or_pad(name, tmp_path):
    """torch does one of both, as for the example."""
    others = tuple((torch.randn(shape),) for shape in [(3, 3), (7, 1), (1, 6), (2, 7)])
    for model in (grad(lambda x: TRANSFORMED[name](x).sin().sum()), differentiated_twice(TRANSFORMED[name])):
        sizes = ({0: "n", 1: "m"},)
        check(model, tmp_path, torch.randn(3, 4), capture="trace", dynamic=sizes, others=others, rtol=1e-4, atol=1e-4)


def test_derivatives_of_fourier_transforms_of_axes_that_are_cut_are_refused(tmp_path):
    model = grad(lambda x: torch.fft.fft2(x, s=(3, 4)).real.sin().sum())
    with pytest.raises(UnsupportedError, match="cuts or pads a dynamic axis"):
        check(model, tmp_path, torch.randn(3, 4), capture="trace", dynamic=({0: "n"},))
    check(model, tmp_path, torch.randn(3, 4), capture="trace")
