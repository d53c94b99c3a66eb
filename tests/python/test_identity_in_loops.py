"""Comparisons by ``is``, and writes to what may be another tensor, of variables that a loop or a branch changes."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES
from loops_check import refuses


def same_as_before(self: Any, x: torch.Tensor) -> Any:
    first = h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        if h is first:
            h = h + 1
        h = h + x[:, t]
    return h


def same_after_steps(self: Any, x: torch.Tensor) -> Any:
    h = x[:, 0]
    first = h
    for t in range(1, x.shape[1]):
        h = h + x[:, t]
    return h * 2 if h is first else h


def same_in_a_method(self: Any, x: torch.Tensor) -> Any:
    kept, outputs = Compared(x[:, 0]), []
    for t in range(x.shape[1]):
        outputs.append(kept.update(x[:, t]))
    return torch.stack(outputs, 1)


class Compared:
    def __init__(self, h: torch.Tensor) -> None:
        self.h = self.first = h

    def update(self, x: torch.Tensor) -> torch.Tensor:
        self.h = x if self.h is self.first else self.h + x
        return self.h


@CAPTURES
@pytest.mark.parametrize("run", [same_as_before, same_after_steps, same_in_a_method], ids=lambda run: run.__name__)
def test_refuses_to_tell_which_tensor_a_variable_holds(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, "whether two variables hold one tensor", capture, tmp_path)


def test_refuses_to_tell_which_tensor_data_choose(tmp_path: pathlib.Path) -> None:
    def chosen(self: Any, x: torch.Tensor) -> Any:
        y = x
        if x.sum() > 0:
            y = x * 2
        return y + 1 if y is x else y - 1

    refuses(chosen, "whether two variables hold one tensor", "export", tmp_path)


def test_a_while_loop_without_steps_returns_what_it_begins_with(tmp_path: pathlib.Path) -> None:
    def written_afterwards(self: Any, x: torch.Tensor) -> Any:
        before = x * 2
        h = before
        while h.abs().sum() < 5:
            h = h * 2
        h.add_(1)
        return h, before

    refuses(written_afterwards, "may be the same memory", "export", tmp_path)
