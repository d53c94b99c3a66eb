"""Tests of sizes and data that only raise errors, or do nothing, tell nothing of other sizes, unless the model needs
them to hold."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES
from torch.export import Dim

import opbridge
from checking.models import compare, loaded

Function = Callable[[torch.Tensor], torch.Tensor]
LOGGER = logging.getLogger(__name__)


def chosen(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] > 3 else x


def one_of_two_sizes(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] > 4 or x.shape[0] < 9
    return chosen(x)


def size_or_data(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] > 4 or x.min() > -100
    return chosen(x)


def size_or_axes(x: torch.Tensor) -> torch.Tensor:
    assert not (x.shape[0] <= 4 and x.dim() == 2)
    return chosen(x)


def another_size(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] != 7 and x.shape[0] > 99:
        raise ValueError("long")
    return x * 2 if x.shape[0] == 7 else x


def with_flag(x: torch.Tensor, is_strict: bool = False) -> torch.Tensor:
    if x.shape[0] <= 4 and is_strict:
        raise ValueError("short")
    return chosen(x)


def made_contiguous(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 4:
        x = x.contiguous()
    return chosen(x)


def shown(x: torch.Tensor) -> torch.Tensor:
    LOGGER.debug("long" if x.shape[0] > 4 else "short")
    return chosen(x)


def decided_by_flag(x: torch.Tensor, is_shifted: bool = False) -> torch.Tensor:
    if x.shape[0] > 4 and is_shifted:
        x = x - 1
    return chosen(x)


def needed(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] <= 4 or x.dim() != 1:
        raise ValueError("short")
    return x * 2 if x.shape[0] > 3 else x.sum()


def exported(function: Function, path: Path, capture: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(function, (torch.rand(7),), path, capture=capture, dynamic_shapes=({0: Dim("n")},))
    return loaded(path)


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        one_of_two_sizes,
        size_or_data,
        size_or_axes,
        another_size,
        with_flag,
        made_contiguous,
        shown,
        decided_by_flag,
    ],
)
def test_a_later_branch_has_both_ways(function: Function, capture: Any, tmp_path: Path) -> None:
    model = exported(function, tmp_path / "m.onnx", capture)
    compare(function, model, [(torch.rand(n),) for n in (7, 1, 2, 3, 4, 5, 8)])


def test_what_the_model_needs_holds_later(tmp_path: Path) -> None:
    model = exported(needed, tmp_path / "m.onnx", "trace")
    compare(needed, model, [(torch.rand(n),) for n in (7, 5, 9)])


def increasing_or_decreasing(x: torch.Tensor) -> torch.Tensor:
    rises = x[1:] > x[:-1]
    assert rises.all() or (~rises).all(), "neither"
    return x * 2


def not_both(x: torch.Tensor) -> torch.Tensor:
    if x.min() < -100 and x.max() > 100:
        raise ValueError("too far")
    return x * 2


def of_three(x: torch.Tensor) -> torch.Tensor:
    assert not (x.min() < -100) or (not x.isnan().any() and not (x.max() > 100))
    return x * 2


@CAPTURES
@pytest.mark.parametrize("function", [increasing_or_decreasing, not_both, of_three])
def test_one_of_several_conditions_of_data(function: Function, capture: Any, tmp_path: Path) -> None:
    model = exported(function, tmp_path / "m.onnx", capture)
    compare(function, model, [(torch.rand(n).sort().values,) for n in (7, 1, 4)])


def longer(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] <= 4:
        raise ValueError("short")
    return x * 3


def in_one_way(x: torch.Tensor) -> torch.Tensor:
    return chosen(longer(x) if x.sum() > 0 else x)


def by_index_in_one_way(x: torch.Tensor) -> torch.Tensor:
    return chosen(x * x[4] if x.sum() > 0 else x)


def in_steps(x: torch.Tensor, steps: int) -> torch.Tensor:
    total = x.sum() * 0
    for _ in range(steps):
        total = total + x[4]
    return total * 2 if x.shape[0] > 3 else total - 1


@pytest.mark.parametrize("function", [in_one_way, by_index_in_one_way])
def test_what_one_way_by_data_needs_is_not_known_after_it(function: Function, tmp_path: Path) -> None:
    """Sizes for which only the other way runs are warned of."""
    path = tmp_path / "m.onnx"
    with pytest.warns(opbridge.TraceWarning, match="n > 3"):
        opbridge.export(function, (torch.rand(7),), path, capture="export", dynamic_shapes=({0: "n"},))
    compare(function, loaded(path), [(torch.rand(7),), (-torch.rand(5),), (torch.rand(5),)])


@CAPTURES
def test_what_a_step_needs_is_not_known_after_the_loop(capture: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return in_steps(x, y.shape[0] - 1)

    with pytest.warns(opbridge.TraceWarning, match="n > 3"):
        opbridge.export(
            function, (torch.rand(7), torch.rand(3)), path, capture=capture, dynamic_shapes=({0: "n"}, {0: "m"})
        )
    compare(function, loaded(path), [(torch.rand(7), torch.rand(m)) for m in (3, 1, 5)])
