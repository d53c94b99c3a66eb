"""The gradients of deform_conv2d, against torchvision and finite differences."""

from __future__ import annotations

import pytest
import torch
from operator_models import scratch_in_torch
from test_operator_deform_conv2d import CASES, Case, _loaded  # noqa: F401

NAMES = ("input", "weight", "offset", "mask", "bias")
SMALL = Case(channels=4, size=(4, 5), out_channels=2, groups=2, offset_groups=2, stride=(2, 1))


def tensors(case: Case, dtype: type = float) -> list[torch.Tensor | None]:
    arrays = case.inputs(dtype).values()
    return [None if array is None else torch.from_numpy(array).requires_grad_() for array in arrays]


def gradients(operator: torch._ops.OpOverloadPacket, case: Case, use_mask: bool) -> dict[str, torch.Tensor]:
    inputs = tensors(case)
    if operator is torch.ops.torchvision.deform_conv2d:
        absent = torch.zeros(case.batch, 1, dtype=torch.float64), torch.zeros(case.out_channels, dtype=torch.float64)
        given = inputs[:3] + [absent[i] if tensor is None else tensor for i, tensor in enumerate(inputs[3:])]
    else:
        given = inputs
    out = operator(*given, *case.attributes().values(), use_mask)
    weights = torch.rand(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(0))
    asked = {name: tensor for name, tensor in zip(NAMES, inputs, strict=True) if tensor is not None}
    return dict(zip(asked, torch.autograd.grad((out * weights).sum(), list(asked.values())), strict=True))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_gradients_of_torchvision(case: Case) -> None:
    pytest.importorskip("torchvision")
    expected = gradients(torch.ops.torchvision.deform_conv2d, case, case.mask)
    actual = gradients(torch.ops.opbridge.deform_conv2d, case, case.mask)
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        torch.testing.assert_close(gradient, expected[name], msg=lambda text, name=name: f"{name}: {text}")


def test_samples_at_the_edge_of_the_padding() -> None:
    """Offsets of 0, with which training begins: with padding 1 the samples of the border are at -1."""
    pytest.importorskip("torchvision")
    torch.manual_seed(0)
    x, weight = torch.randn(1, 2, 4, 5), torch.randn(3, 2, 3, 3)
    offset, mask, bias = torch.zeros(1, 18, 4, 5), torch.rand(1, 9, 4, 5), torch.randn(3)
    gradients = []
    for operator in (torch.ops.opbridge.deform_conv2d, torch.ops.torchvision.deform_conv2d):
        given = [tensor.double().requires_grad_() for tensor in (x, weight, offset, mask, bias)]
        out = operator(*given, 1, 1, 1, 1, 1, 1, 1, 1, True)
        gradients.append(torch.autograd.grad((out * torch.arange(out.numel()).reshape(out.shape)).sum(), given))
    torch.testing.assert_close(*gradients)
    assert gradients[0][2][..., 0, :].any()


@pytest.mark.parametrize("mask", [True, False])
def test_gradients_by_differences(mask: bool) -> None:
    inputs = tensors(SMALL)
    if not mask:
        inputs[3] = None
    assert torch.autograd.gradcheck(
        lambda *given: torch.ops.opbridge.deform_conv2d(*given, *SMALL.attributes().values()), inputs
    )


def test_a_mask_that_is_not_used_has_no_gradient() -> None:
    inputs = tensors(SMALL)
    out = torch.ops.opbridge.deform_conv2d(*inputs, *SMALL.attributes().values(), False)
    (gradient,) = torch.autograd.grad(out.sum(), [inputs[3]])
    assert not gradient.any()


@pytest.mark.parametrize(("name", "matrices"), [("bias", 0), ("weight", 1), ("mask", 1), ("input", 2)])
def test_scratch_is_what_the_gradient_needs(name: str, matrices: int) -> None:
    case = Case(channels=16, size=(20, 20))
    inputs = [tensor.requires_grad_(name == of) for of, tensor in zip(NAMES, tensors(case), strict=True)]
    out = torch.ops.opbridge.deform_conv2d(*inputs, *case.attributes().values()).sum()
    scratch = scratch_in_torch(lambda: torch.autograd.grad(out, inputs[NAMES.index(name)])[0])
    of_all_samples = 16 * 9 * 20 * 20 * 8
    assert matrices <= scratch / of_all_samples < matrices + 0.5


def test_only_what_is_asked_for() -> None:
    inputs = tensors(SMALL)
    for index, name in enumerate(NAMES):
        alone = [None if t is None else t.detach().requires_grad_(i == index) for i, t in enumerate(inputs)]
        torch.ops.opbridge.deform_conv2d(*alone, *SMALL.attributes().values()).square().sum().backward()
        together = torch.ops.opbridge.deform_conv2d(*inputs, *SMALL.attributes().values()).square().sum()
        (expected,) = torch.autograd.grad(together, [inputs[index]])
        torch.testing.assert_close(alone[index].grad, expected, msg=name)
