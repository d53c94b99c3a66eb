"""opbridge::grid_sample in both hosts against torch.nn.functional.grid_sample."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from operator_models import in_both_hosts, in_onnxruntime, refused_by_both_hosts, scratch_in_torch

import opbridge
from opbridge.operators import COMPAT

MODES, PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
CUBIC_VOLUMES = torch.__version__ >= (2, 15)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()
    opbridge.load_operators(COMPAT)


def sample(dtype: type, rank: int = 2, points: tuple[int, ...] = (9, 11)) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "input": rng.standard_normal((2, 3, *(6, 7, 5)[:rank])).astype(dtype),
        "grid": rng.uniform(-2.5, 2.5, (2, *points, rank)).astype(dtype),
    }


def attributes(mode: str, padding: str, align_corners: bool) -> dict[str, object]:
    return {
        "interpolation_mode": MODES.index(mode),
        "padding_mode": PADDINGS.index(padding),
        "align_corners": align_corners,
    }


def reference(inputs: dict[str, np.ndarray], mode: str, padding: str, align_corners: bool) -> np.ndarray:
    x, grid = map(torch.from_numpy, inputs.values())
    return torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rank", [2, 3])
def test_agrees_with_torch(rank: int, dtype: type) -> None:
    inputs = sample(dtype, rank, (9, 11) if rank == 2 else (3, 4, 5))
    tolerance = 3e-5 if dtype is np.float32 else 1e-12
    for options in itertools.product(MODES[: 3 if rank == 2 or CUBIC_VOLUMES else 2], PADDINGS, (False, True)):
        out = in_both_hosts("grid_sample", inputs, **attributes(*options))[0]
        expected = reference(inputs, *options)
        np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance, err_msg=str(options))


@pytest.mark.parametrize("options", itertools.product(MODES, PADDINGS, (False, True)))
def test_corners_and_pixel_centers(options: tuple[str, str, bool]) -> None:
    inputs = sample(np.float64)
    steps = np.linspace(-2, 2, 17)
    inputs["grid"] = np.tile(np.stack(np.meshgrid(steps, steps), -1), (2, 1, 1, 1))
    out = in_both_hosts("grid_sample", inputs, **attributes(*options))[0]
    np.testing.assert_allclose(out, reference(inputs, *options), rtol=1e-12, atol=1e-12)


def test_name_of_mmdeploy() -> None:
    inputs = sample(np.float32)
    options = ("bilinear", "border", True)
    given = {"domain": "mmdeploy", "outputs": (np.float32,), **attributes(*options)}
    (out,) = in_onnxruntime("grid_sampler", inputs, **given)
    np.testing.assert_allclose(out, reference(inputs, *options), rtol=3e-5, atol=3e-5)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rank", [2, 3])
def test_places_at_nan_or_far_away(rank: int, mode: str, padding: str) -> None:
    if rank == 3 and mode == "bicubic" and not CUBIC_VOLUMES:
        pytest.skip("PyTorch has no cubic samples of volumes")
    inputs = sample(np.float32, rank, (9, 11) if rank == 2 else (3, 4, 5))
    far = [np.nan, np.inf, -np.inf]
    if padding != "reflection":  # there PyTorch's arithmetic rounds them to an arbitrary pixel
        far += [1e30, -1e30, 3e9]
    for index, coordinate in itertools.product(range(len(far)), range(rank)):
        inputs["grid"][0].reshape(-1, rank)[index * rank + coordinate, coordinate] = far[index]
    out = in_both_hosts("grid_sample", inputs, **attributes(mode, padding, False))[0]
    np.testing.assert_allclose(out, reference(inputs, mode, padding, False), rtol=3e-5, atol=3e-5)


def test_a_nan_pixel_reaches_only_the_places_that_read_it() -> None:
    inputs = sample(np.float32)
    inputs["input"][0, 0, 3, 3] = np.nan
    inputs["grid"][0, 0, 0] = 0
    out = in_both_hosts("grid_sample", inputs, **attributes("bilinear", "zeros", False))[0]
    np.testing.assert_allclose(out, reference(inputs, "bilinear", "zeros", False), rtol=3e-5, atol=3e-5)
    assert 0 < np.isnan(out).sum() < 20


def test_scratch_does_not_grow_with_the_batch() -> None:
    def scratch(batch: int) -> int:
        x, grid = torch.randn(batch, 16, 5, 5), torch.rand(batch, 4, 4, 2)
        return scratch_in_torch(lambda: torch.ops.opbridge.grid_sample(x, grid))

    assert scratch(40) < 4 * scratch(1)


def test_zero_sizes() -> None:
    inputs = sample(np.float32)
    for x, grid in (
        (inputs["input"][:0], inputs["grid"][:0]),
        (inputs["input"][:, :0], inputs["grid"]),
        (inputs["input"], inputs["grid"][:, :0]),
    ):
        out = in_both_hosts("grid_sample", {"input": x, "grid": grid})[0]
        assert out.shape == (*x.shape[:2], *grid.shape[1:3])
        assert out.size == 0


def test_hostile_arguments_are_errors_in_both_hosts() -> None:
    good = sample(np.float32)
    for message, inputs, given in [
        ("input must have 4 or 5 dimensions", {"input": good["input"][0]}, {}),
        ("grid must have 4 dimensions", {"grid": good["grid"][0]}, {}),
        ("as many images", {"grid": good["grid"][:1]}, {}),
        ("must hold coordinates", {"grid": good["grid"][..., :1]}, {}),
        ("input has no pixels", {"input": good["input"][:, :, :0]}, {}),
        ("interpolation_mode must be", {}, {"interpolation_mode": 3}),
        ("interpolation_mode must be", {}, {"interpolation_mode": -(2**63)}),
        ("padding_mode must be", {}, {"padding_mode": 7}),
    ]:
        refused_by_both_hosts(message, "grid_sample", {**good, **inputs}, **given)


def test_fake_and_real_shapes_agree() -> None:
    torch.library.opcheck(
        torch.ops.opbridge.grid_sample.default, tuple(map(torch.from_numpy, sample(np.float32).values()))
    )
