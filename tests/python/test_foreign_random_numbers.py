"""Random numbers that an exported model cannot draw: of Python, of NumPy, and from a seed of torch."""

from __future__ import annotations

import pathlib
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import opbridge

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
SIZES = pytest.mark.parametrize("dynamic", [None, ({0: "n"},)], ids=["fixed", "dynamic"])


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


def noisy(x: torch.Tensor) -> torch.Tensor:
    return x + torch.from_numpy(np.random.rand(4).astype(np.float32))


def seeded(x: torch.Tensor) -> torch.Tensor:
    random.seed(0)
    np.random.seed(0)
    return x * random.random() * float(np.random.rand())


def unused(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if random.random() < 2 else x


@CAPTURES
@SIZES
@pytest.mark.parametrize(("model", "of"), [(scaled, "random"), (noisy, "numpy.random")])
def test_drawn_numbers(model: Callable[..., Any], of: str, capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    before = random.getstate(), np.random.get_state()[1]
    with pytest.warns(opbridge.TraceWarning, match=f"the model uses numbers that {of} draws"):
        opbridge.export(model, (torch.rand(3, 4),), tmp_path / "m.onnx", dynamic_shapes=dynamic, capture=capture)
    assert random.getstate() == before[0]
    assert np.array_equal(np.random.get_state()[1], before[1])


@CAPTURES
@pytest.mark.parametrize("model", [seeded, unused])
def test_numbers_that_do_not_matter(model: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    before = random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(model, (torch.rand(3, 4),), tmp_path / "m.onnx", capture=capture)
    assert random.getstate() == before


def seeds_torch(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(7)
    return x + torch.rand(4)


def seeds_torch_for_a_while(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        directions = torch.randn(4, 2)
    return x @ directions + torch.rand(2)


def puts_the_state_back(x: torch.Tensor) -> torch.Tensor:
    state = torch.get_rng_state()
    torch.manual_seed(7)
    noise = torch.rand_like(x)
    torch.set_rng_state(state)
    return x + noise


def makes_a_layer(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(7)
    return torch.nn.Linear(4, 2)(x)


def draws_for_a_while(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng():
        return x + torch.rand(4)


def draws_of_torch(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(4)


def seeds_without_drawing(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(7)
    return x * 2


@CAPTURES
def test_a_seed_of_torch_by_which_the_model_drew_before(capture: Any, tmp_path: pathlib.Path) -> None:
    x = torch.ones(3, 4)
    seeds_torch(x)
    with pytest.raises(opbridge.UnsupportedError, match="the model sets the seed of torch's generator"):
        opbridge.export(seeds_torch, (x,), tmp_path / "m.onnx", capture=capture)


@CAPTURES
@SIZES
def test_a_seed_of_torch(capture: Any, dynamic: Any, tmp_path: pathlib.Path) -> None:
    before = torch.get_rng_state()
    x = torch.ones(3, 4)
    for model in (seeds_torch, seeds_torch_for_a_while, puts_the_state_back, makes_a_layer):
        with pytest.raises(opbridge.UnsupportedError, match="the model sets the seed of torch's generator"):
            opbridge.export(model, (x,), tmp_path / "m.onnx", dynamic_shapes=dynamic, capture=capture)
    for model in (draws_of_torch, draws_for_a_while, seeds_without_drawing):
        opbridge.export(model, (x,), tmp_path / "m.onnx", dynamic_shapes=dynamic, capture=capture)
    assert torch.equal(torch.get_rng_state(), before)
