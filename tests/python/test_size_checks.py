"""Tests of dynamic sizes that only raise errors cause no warning: PyTorch does not run the other way either."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES

import opbridge
from opbridge import TraceWarning

ROWS = ({0: torch.export.Dim.DYNAMIC},)
X = torch.rand(6, 4)


def asserts(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] <= 64, f"{x.shape[0]} rows"
    return x * 2


def raises(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64 or x.shape[0] % 2 != 0:
        message = f"{x.shape[0]} rows"
        raise ValueError(message)
    return x * 2


def raises_otherwise(x: torch.Tensor) -> torch.Tensor:
    if (
        x.shape[0]
        <= 64
    ):  # fmt: skip
        x = x * 2
    else:
        raise ValueError
    return x


@CAPTURES
@pytest.mark.parametrize("model", [asserts, raises, raises_otherwise])
def test_checks(model: Callable[..., torch.Tensor], capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(model, (X,), path, dynamic_shapes=ROWS, capture=capture)
    opbridge.verify(path, model, (torch.rand(10, 4),))


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64:
        x = x + 1
    return x * 2


def returns_before(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64:
        if x.sum() == 0:
            return x
        raise ValueError
    return x * 2


def keeps_the_answer(x: torch.Tensor) -> torch.Tensor:
    if not (few := x.shape[0] <= 64) and x.shape[1] > 4:
        raise ValueError
    return x * (2 if few else 3)


def catches(x: torch.Tensor) -> torch.Tensor:
    try:
        assert x.shape[0] <= 64
    except AssertionError:
        return x
    return x * 2


@CAPTURES
@pytest.mark.parametrize("model", [branches, returns_before, keeps_the_answer, catches])
def test_other_branches(model: Callable[..., torch.Tensor], capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match="64' was read as"):
        opbridge.export(model, (X,), tmp_path / "m.onnx", dynamic_shapes=ROWS, capture=capture)
