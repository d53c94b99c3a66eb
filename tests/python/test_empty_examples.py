"""A model that branches on whether a dynamic size is 0, which it is in the example."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES
from test_branches_by_sizes import Function, check

import opbridge
from opbridge import TraceWarning

NO_ROWS: dict[str, Function] = {
    "equal": lambda x: x + 3 if x.shape[0] == 0 else x * 2,
    "less": lambda x: x.new_ones(2) if x.shape[0] < 1 else x.amax(0),
    "elements": lambda x: x.sum() if x.numel() == 0 else x.mean(),
    "truth": lambda x: torch.cat([x, x[:1] * 2]) if x.shape[0] else x.new_ones(1, 4),
    "length": lambda x: x.new_zeros(1, 4) if not len(x) else x[-1:],
    "greater": lambda x: (x, x.amin(0)) if x.shape[0] > 0 else (x + 1, x.sum(0)),
    "twice": lambda x: x.sum(0) if x.shape[0] == 0 else x.amax(0) if x.shape[0] > 3 else x.amin(0),
}


@CAPTURES
@pytest.mark.parametrize("name", NO_ROWS)
def test_branches_on_whether_there_are_rows(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    check(NO_ROWS[name], tmp_path, capture, 0, rows=(0, 1, 2, 5))


@CAPTURES
def test_a_cache_that_is_empty_in_the_example(capture: Any, tmp_path: pathlib.Path) -> None:
    def step(cache: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cache = x if cache.shape[1] == 0 else torch.cat([cache, x], 1)
        return cache, (x @ cache.transpose(1, 2)).softmax(-1) @ cache

    path, shapes = tmp_path / "model.onnx", ({0: "batch", 1: "past"}, {0: "batch"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(step, (torch.rand(2, 0, 4), torch.rand(2, 1, 4)), path, capture=capture, dynamic_shapes=shapes)
    for batch, past in ((2, 0), (1, 1), (3, 6)):
        opbridge.verify(path, step, (torch.rand(batch, past, 4), torch.rand(batch, 1, 4)))
