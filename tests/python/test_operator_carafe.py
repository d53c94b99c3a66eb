"""opbridge::carafe in both hosts against its definition in NumPy, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, refused_by_both_hosts

import opbridge


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def sample(kernel: int, groups: int, scale: int, dtype: type = np.float32, channels: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "features": rng.standard_normal((2, channels, 4, 5)).astype(dtype),
        "masks": rng.random((2, groups * kernel * kernel, 4 * scale, 5 * scale)).astype(dtype),
    }


def reference(features: np.ndarray, masks: np.ndarray, kernel: int, groups: int, scale: int) -> np.ndarray:
    images, channels, height, width = features.shape
    reach = kernel // 2
    padded = np.pad(features, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    out = np.zeros((images, channels, height * scale, width * scale))
    for y, x in np.ndindex(height * scale, width * scale):
        window = padded[:, :, y // scale : y // scale + kernel, x // scale : x // scale + kernel]
        weights = masks[:, :, y, x].reshape(images, groups, 1, kernel, kernel)
        grouped = window.reshape(images, groups, channels // groups, kernel, kernel)
        out[:, :, y, x] = (grouped * weights).sum((-1, -2)).reshape(images, channels)
    return out


@pytest.mark.parametrize(("kernel", "groups", "scale"), [(1, 1, 1), (3, 1, 2), (5, 3, 2), (3, 6, 3), (9, 2, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_agrees_with_the_definition(dtype: type, kernel: int, groups: int, scale: int) -> None:
    inputs = sample(kernel, groups, scale, dtype)
    given = {"kernel_size": kernel, "group_size": groups, "scale_factor": scale}
    expected = reference(*inputs.values(), kernel, groups, scale)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(in_both_hosts("carafe", inputs, **given)[0], expected, rtol=tolerance, atol=tolerance)


def test_gradient() -> None:
    tensors = [torch.from_numpy(array).requires_grad_() for array in sample(3, 2, 2, np.float64, 4).values()]
    assert torch.autograd.gradcheck(lambda x, m: torch.ops.opbridge.carafe(x, m, 3, 2, 2), tensors)


def test_nan_reaches_exactly_the_windows_around_it() -> None:
    inputs = sample(3, 1, 2)
    inputs["features"][0, 1, 0, 0] = np.nan
    out = in_both_hosts("carafe", inputs, kernel_size=3, group_size=1, scale_factor=2)[0]
    assert np.isnan(out[0, 1, :4, :4]).all()
    assert np.isnan(out).sum() == 16


def test_zero_sizes() -> None:
    inputs = sample(3, 2, 2, channels=0)
    assert in_both_hosts("carafe", inputs, kernel_size=3, group_size=2, scale_factor=2)[0].shape == (2, 0, 8, 10)
    inputs = {name: array[:, :, :0] for name, array in sample(3, 2, 2).items()}
    assert in_both_hosts("carafe", inputs, kernel_size=3, group_size=2, scale_factor=2)[0].shape == (2, 6, 0, 10)


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    good, given = sample(3, 2, 2), {"kernel_size": 3, "group_size": 2, "scale_factor": 2}
    for message, inputs, changed in [
        ("features must have 4 dimensions", {"features": good["features"][0]}, {}),
        ("masks must have 4 dimensions", {"masks": good["masks"][0]}, {}),
        ("masks must have the shape", {"masks": good["masks"][:, 1:]}, {}),
        ("kernel_size must be positive and odd", {}, {"kernel_size": 4}),
        ("kernel_size must be positive and odd", {}, {"kernel_size": -3}),
        ("a size overflows", {}, {"kernel_size": 2**62 + 1}),
        ("must be positive", {}, {"group_size": 0}),
        ("must be positive", {}, {"scale_factor": -1}),
        ("multiple of group_size", {}, {"group_size": 4}),
    ]:
        refused_by_both_hosts(message, "carafe", {**good, **inputs}, **{**given, **changed})


def test_torch_accepts_the_registration() -> None:
    tensors = [torch.from_numpy(array).requires_grad_() for array in sample(3, 2, 2).values()]
    torch.library.opcheck(torch.ops.opbridge.carafe.default, (*tensors, 3, 2, 2))
