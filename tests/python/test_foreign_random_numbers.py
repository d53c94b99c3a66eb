"""Random numbers of Python's and NumPy's generators, which become constants."""

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
