"""Caches whose keys contain a dynamic size: the model computes the same with and without them."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES

import opbridge

AXES = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
X = torch.rand(5, 4)
OTHERS = (torch.rand(7, 3), torch.rand(4, 4))


@functools.lru_cache(maxsize=8)
def table(size: int) -> torch.Tensor:
    return torch.arange(size).float().sin()


@functools.lru_cache
def frequencies(shape: tuple[int, int], scale: float) -> torch.Tensor:
    return torch.arange(shape[0] * shape[1]).reshape(shape) * scale


class OfMethod(torch.nn.Module):
    @functools.lru_cache(maxsize=4)  # noqa: B019 - the tests end before memory matters
    def positions(self, size: int, step: int = 1) -> torch.Tensor:
        return torch.arange(0, size * step, step)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.positions(x.shape[1], step=2) + self.positions(x.shape[0]).sum()


class OfDict(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[Any, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        key = (x.shape[1], x.dtype)
        if key not in self.cache:
            self.cache[key] = torch.arange(x.shape[1], dtype=x.dtype)
        return x + self.cache[key]


def of_function(x: torch.Tensor) -> torch.Tensor:
    return x + table(x.shape[1]) + table(x.shape[0])[:, None] * table(x.shape[1])


def of_tuple(x: torch.Tensor) -> torch.Tensor:
    return x + frequencies((x.shape[0], x.shape[1]), 0.5)


def without_cache_if_unhashable(x: torch.Tensor) -> torch.Tensor:
    try:
        return x + table(x.shape[1])
    except TypeError:
        return x + table.__wrapped__(x.shape[1])


@CAPTURES
@pytest.mark.parametrize("make", [lambda: of_function, lambda: of_tuple, OfMethod, OfDict])
def test_caches(make: Callable[[], Any], capture: Any, tmp_path: pathlib.Path) -> None:
    model, path = make(), tmp_path / "m.onnx"
    opbridge.export(model, (X,), path, dynamic_shapes=AXES, capture=capture)
    for x in (X, *OTHERS):
        opbridge.verify(path, model, (x,))


@CAPTURES
def test_no_symbolic_size_remains(capture: Any, tmp_path: pathlib.Path) -> None:
    model = OfDict()
    opbridge.export(model, (X,), tmp_path / "m.onnx", dynamic_shapes=AXES, capture=capture)
    assert not model.cache
    opbridge.export(of_function, (X,), tmp_path / "m.onnx", dynamic_shapes=AXES, capture=capture)
    assert table.cache_info().currsize == 0


@CAPTURES
def test_a_function_that_catches_the_error_decides(capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(without_cache_if_unhashable, (X,), path, dynamic_shapes=AXES, capture=capture)
    opbridge.verify(path, without_cache_if_unhashable, (OTHERS[0],))


STEPS = {4: 2.0, 8: 3.0}


def of_table(x: torch.Tensor) -> torch.Tensor:
    return x * STEPS.get(x.shape[1], 1.0)


def of_table_and_cache(x: torch.Tensor) -> torch.Tensor:
    return x * STEPS.get(x.shape[1], 1.0) + table(x.shape[1])


def of_new_dict(x: torch.Tensor) -> torch.Tensor:
    return x * {4: 2.0}.get(x.shape[1], 1.0)


def of_set(x: torch.Tensor) -> torch.Tensor:
    return x * (2 if x.shape[1] in {4, 8} else 3)


def of_sizes(x: torch.Tensor) -> torch.Tensor:
    return x * len(set(x.shape))


@CAPTURES
@pytest.mark.parametrize("model", [of_table, of_table_and_cache, of_new_dict, of_set, of_sizes])
def test_other_lookups_are_refused(model: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"the dynamic size .* (dict|set)"):
        opbridge.export(model, (X,), tmp_path / "m.onnx", dynamic_shapes=AXES, capture=capture)


@CAPTURES
def test_the_refusal_of_a_set_names_a_tuple(capture: Any, tmp_path: pathlib.Path) -> None:
    def of_tuple(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if x.shape[1] in (4, 8) else 3)

    path = tmp_path / "m.onnx"
    with pytest.raises(opbridge.UnsupportedError, match=r"as 'size in \(2, 3\)' does"):
        opbridge.export(of_set, (X,), path, dynamic_shapes=AXES, capture=capture)
    opbridge.export(of_tuple, (X,), path, dynamic_shapes=AXES, capture=capture)
    for x in (X, *OTHERS):
        opbridge.verify(path, of_set, (x,))


@CAPTURES
def test_a_filled_cache_is_to_be_emptied(capture: Any, tmp_path: pathlib.Path) -> None:
    model = OfDict()
    model(X)
    with pytest.raises(opbridge.UnsupportedError, match="if it is a cache, empty it"):
        opbridge.export(model, (X,), tmp_path / "m.onnx", dynamic_shapes=AXES, capture=capture)
