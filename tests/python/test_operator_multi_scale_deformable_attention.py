"""opbridge::multi_scale_deformable_attention in both hosts against sums of torch's grid_sample, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, in_onnxruntime, refused_by_both_hosts

import opbridge
from opbridge.operators import COMPAT

OP = "multi_scale_deformable_attention"
LEVELS = [(6, 5), (3, 4), (1, 2)]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)


def sample(
    dtype: type = np.float32, images: int = 2, heads: int = 3, channels: int = 5, queries: int = 7, points: int = 4
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = [height * width for height, width in LEVELS]
    weights = rng.random((images, queries, heads, len(LEVELS), points))
    return {
        "value": rng.standard_normal((images, sum(sizes), heads, channels)).astype(dtype),
        "value_spatial_shapes": np.array(LEVELS, np.int64),
        "value_level_start_index": np.array([0, *np.cumsum(sizes)[:-1]], np.int64),
        "sampling_locations": rng.uniform(-0.3, 1.3, (images, queries, heads, len(LEVELS), points, 2)).astype(dtype),
        "attention_weights": weights.astype(dtype),
    }


def reference(inputs: dict[str, np.ndarray]) -> torch.Tensor:
    """The formulation of the paper's authors: one grid_sample for each level."""
    value, shapes, starts, locations, weights = map(torch.from_numpy, inputs.values())
    images, _, heads, channels = value.shape
    queries, points = locations.shape[1], locations.shape[4]
    sampled = []
    for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
        maps = value[:, start : start + height * width].permute(0, 2, 3, 1).reshape(-1, channels, height, width)
        grid = (2 * locations[:, :, :, level] - 1).transpose(1, 2).reshape(-1, queries, points, 2)
        sampled.append(torch.nn.functional.grid_sample(maps, grid, align_corners=False))
    shares = weights.transpose(1, 2).reshape(images * heads, 1, queries, -1)
    summed = (torch.stack(sampled, dim=-2).flatten(-2) * shares).sum(-1)
    return summed.view(images, heads * channels, queries).transpose(1, 2)


@pytest.mark.parametrize("channels", [1, 8, 32, 37, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_grid_sample(dtype: type, channels: int) -> None:
    inputs = sample(dtype, channels=channels)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    expected = reference(inputs).numpy()
    np.testing.assert_allclose(in_both_hosts(OP, inputs)[0], expected, rtol=tolerance, atol=tolerance)


def test_name_of_mmdeploy() -> None:
    inputs = sample()
    arguments = {"domain": "mmdeploy", "outputs": (np.float32,), "im2col_step": 64}
    (result,) = in_onnxruntime("MMCVMultiScaleDeformableAttention", inputs, **arguments)
    np.testing.assert_allclose(result, reference(inputs).numpy(), rtol=1e-5, atol=1e-5)


def test_gradient() -> None:
    value, shapes, starts, locations, weights = map(
        torch.from_numpy, sample(np.float64, images=1, heads=2, channels=3, queries=2, points=2).values()
    )

    def attend(value: torch.Tensor, locations: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return torch.ops.opbridge.multi_scale_deformable_attention(value, shapes, starts, locations, weights)

    tensors = [tensor.requires_grad_() for tensor in (value, locations, weights)]
    assert torch.autograd.gradcheck(attend, tensors)
    for i, tensor in enumerate(tensors):
        others = [t.detach() for t in tensors]
        others[i] = tensor
        assert torch.autograd.gradcheck(attend, others)


def test_nan_reaches_exactly_the_queries_that_read_it() -> None:
    inputs = sample()
    clean = in_both_hosts(OP, inputs)[0]
    inputs["sampling_locations"][0, 2, 1, 0, 0, 0] = np.nan
    out = in_both_hosts(OP, inputs)[0]
    assert np.isnan(out[0, 2, 5:10]).all()
    out[0, 2, 5:10] = clean[0, 2, 5:10]
    np.testing.assert_array_equal(out, clean)


def test_locations_far_outside_give_zero() -> None:
    inputs = sample()
    for far in (1e30, -np.inf, np.inf):
        inputs["sampling_locations"][:] = far
        assert not in_both_hosts(OP, inputs)[0].any()


@pytest.mark.parametrize("sizes", [{"images": 0}, {"queries": 0}, {"heads": 0}, {"channels": 0}, {"points": 0}])
def test_zero_sizes(sizes: dict[str, int]) -> None:
    inputs = sample(**sizes)
    out = in_both_hosts(OP, inputs)[0]
    value = inputs["value"].shape
    assert out.shape == (value[0], inputs["sampling_locations"].shape[1], value[2] * value[3])
    assert not out.any()


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    good = sample()
    for message, changed in {
        "value must have 4 dimensions": {"value": good["value"][0]},
        "sampling_locations must have 6 dimensions": {"sampling_locations": good["sampling_locations"][0]},
        "value_spatial_shapes must have the shape": {"value_spatial_shapes": good["value_spatial_shapes"][:, :1]},
        "value_level_start_index must have the shape": {"value_level_start_index": np.zeros(2, np.int64)},
        "sampling_locations must have the shape": {"sampling_locations": good["sampling_locations"][:, :, :2]},
        "attention_weights must have the shape": {"attention_weights": good["attention_weights"][:, :3]},
        "level 2 lies outside": {"value_level_start_index": np.array([0, 30, 43])},
        "level 0 lies outside": {"value_level_start_index": np.array([-1, 30, 42])},
        "level 1 lies outside": {"value_spatial_shapes": np.array([(6, 5), (2**62, 8), (1, 2)])},
        "level 1 lies outside .*": {"value_spatial_shapes": np.array([(6, 5), (-3, -4), (1, 2)])},
    }.items():
        refused_by_both_hosts(message, OP, {**good, **changed})


def test_torch_accepts_the_registration() -> None:
    torch.library.opcheck(
        torch.ops.opbridge.multi_scale_deformable_attention.default, tuple(map(torch.from_numpy, sample().values()))
    )
