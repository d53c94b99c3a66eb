"""Where an operator has no kernel of float16 or bfloat16, its float32 kernel is used: tensors are widened, and results
are rounded."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts
from torch.utils import _pytree as pytree

import opbridge
from opbridge.operators import COMPAT
from opbridge.runtime import run, session

HALF_TYPES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)


def boxes(count: int) -> torch.Tensor:
    corners = torch.rand(count, 2) * 20
    return torch.cat([corners, corners + 5], 1)


def rois(count: int) -> torch.Tensor:
    return torch.cat([torch.zeros(count, 1), boxes(count)], 1)


def converted(tensors: tuple[torch.Tensor, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors)


OPERATORS: dict[str, tuple[Callable[..., object], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "roi_align": (
        lambda x, r: torch.ops.opbridge.roi_align(x, r, 0.5, 7, 7, 2),
        lambda: (torch.randn(1, 8, 20, 20), rois(5)),
    ),
    "no regions": (
        lambda x, r: torch.ops.opbridge.roi_align(x, r, 0.5, 7, 7, 2),
        lambda: (torch.randn(1, 8, 20, 20), rois(0)),
    ),
    "integers come out": (
        lambda b, s: torch.ops.opbridge.nms(b, s, 0.5),
        lambda: (boxes(30), torch.rand(30)),
    ),
    "numbers of a size that the data decides": (
        lambda b, s: torch.ops.opbridge.soft_nms(b, s, 0.3, 0.5, 0.2, "gaussian"),
        lambda: (boxes(30), torch.rand(30)),
    ),
    "integers go in": (
        lambda v, s, i, x, w: torch.ops.opbridge.multi_scale_deformable_attention(v, s, i, x, w),
        lambda: (
            torch.randn(1, 20, 2, 4),
            torch.tensor([[4, 5]]),
            torch.tensor([0]),
            torch.rand(1, 3, 2, 1, 4, 2),
            torch.rand(1, 3, 2, 1, 4),
        ),
    ),
}


@HALF_TYPES
@pytest.mark.parametrize("name", OPERATORS)
def test_both_hosts_round_the_result_of_float32(name: str, dtype: torch.dtype, tmp_path: pathlib.Path) -> None:
    call, arguments = OPERATORS[name]
    torch.manual_seed(0)
    inputs = converted(arguments(), dtype)
    expected = pytree.tree_leaves(call(*converted(inputs, torch.float32)))
    in_torch = pytree.tree_leaves(call(*inputs))
    assert [t.dtype for t in in_torch] == [dtype if t.is_floating_point() else t.dtype for t in expected]

    class Model(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> object:
            return call(*tensors)

    opbridge.export(Model(), inputs, tmp_path / "model.onnx")
    runtime = session(tmp_path / "model.onnx")
    names = [value.name for value in runtime.get_inputs()]
    in_onnxruntime = run(runtime, dict(zip(names, inputs, strict=True)))
    for wide, *results in zip(expected, in_torch, in_onnxruntime, strict=True):
        for result in results:
            assert torch.equal(result, wide.to(result.dtype))


@HALF_TYPES
def test_gradients(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, regions = torch.randn(1, 4, 12, 12).to(dtype), rois(3).to(dtype)
    gradients = []
    for wide in (False, True):
        leaf = (x.float() if wide else x).clone().requires_grad_()
        torch.ops.opbridge.roi_align(leaf, regions.to(leaf.dtype), 0.5, 3, 3, 2).float().sum().backward()
        gradients.append(leaf.grad)
    assert gradients[0].dtype == dtype
    assert torch.equal(gradients[0], gradients[1].to(dtype))


def test_an_argument_that_is_always_float32_stays_so() -> None:
    torch.manual_seed(0)
    inputs = {
        "boxes": boxes(12)[None].half().numpy(),
        "scores": torch.rand(1, 2, 12).half().numpy(),
        "iou_threshold": np.float32([0.1]),
        "score_threshold": np.float32([0.2]),
    }
    wide = {name: array.astype(np.float32) for name, array in inputs.items()}
    given, expected = (
        in_both_hosts("NMSMatch", arrays, domain="mmdeploy", outputs=(np.int64,))[0] for arrays in (inputs, wide)
    )
    assert len(expected)
    np.testing.assert_array_equal(given, expected)
