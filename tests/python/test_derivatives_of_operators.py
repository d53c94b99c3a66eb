"""Derivatives of single operators in forward mode, and of each sample of a batch, with dynamic sizes."""

import pytest
import torch
from gradients_check import CAPTURES, Function, check
from torch import nn
from torch.func import grad, hessian, jacfwd, jvp, vmap


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


OF_FIRST_ORDER = ("huber loss", "cat with a constant", "stack with a constant")


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
