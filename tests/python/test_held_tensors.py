"""Tensors that a model holds, or finds elsewhere, and writes to: what it reads afterwards is what it has written."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import pytest
import torch
from dynamic_check import agrees_without_warnings

import opbridge
from opbridge.runtime import run, session

FOUND: dict[str, torch.Tensor] = {}


class Held(torch.nn.Module):
    def __init__(self, forward: Any, registered: bool) -> None:
        super().__init__()
        self.computed = forward
        if registered:
            self.register_buffer("table", torch.ones(2, 2))
            self.register_buffer("count", torch.tensor(0))
        else:
            self.table, self.count = torch.ones(2, 2), torch.tensor(0)
        self.kept = [torch.ones(2, 2)]
        FOUND["table"] = torch.ones(2, 2)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.computed(self, x, y)
        return made


def counted(held: Any, x: Any, y: Any) -> Any:
    held.count += 1
    return x + 1 if held.count % 2 == 1 else x - 1


def added(held: Any, x: Any, y: Any) -> Any:
    held.table.add_(1)
    return x + 1 if (held.table * 2).sum() > 8 else x - 1


def filled(held: Any, x: Any, y: Any) -> Any:
    held.table.copy_(torch.tensor([[1.0, 2], [3, 4]]))
    return x + 1 if (held.table * 2).sum() > 10 else x - 1


def through_view(held: Any, x: Any, y: Any) -> Any:
    flat = held.table.reshape(-1)
    flat[1:].mul_(y.sum())
    return flat + 1 if held.table.to(torch.float64).sum() > 3 else flat - 1


def found_elsewhere(held: Any, x: Any, y: Any) -> Any:
    FOUND["table"].mul_(y.sum())
    return x + 1 if (FOUND["table"] * 2).sum() > 4 else x - 1


def in_a_list(held: Any, x: Any, y: Any) -> Any:
    held.kept[0] += y.sum()
    return x + 1 if (held.kept[0] * 2).sum() > 10 else x - 1


BRANCHES = [counted, added, filled, through_view, found_elsewhere, in_a_list]


def places(held: Any, x: Any, y: Any) -> Any:
    held.table *= y.sum()
    return ((held.table * 2)[1] > 1).nonzero()


def as_number(held: Any, x: Any, y: Any) -> Any:
    held.table[0].mul_(y.sum())
    return x * int((held.table + 1).sum())


def as_list(held: Any, x: Any, y: Any) -> Any:
    held.table[0].mul_(y.sum())
    return x * held.table.tolist()[0][1]


def of_quotients(held: Any, x: Any, y: Any) -> Any:
    held.table.add_(y.sum())
    return x * (held.table / 2).tolist()[0][0]


def returned_by_write(held: Any, x: Any, y: Any) -> Any:
    held.table.add_(1).mul_(y.sum())
    doubled = held.table * 2
    return doubled[doubled > 1]


NUMBERS = [places, as_number, as_list, of_quotients, returned_by_write]
CASES = [*((each, "export") for each in BRANCHES), *((each, how) for each in NUMBERS for how in ("export", "trace"))]


@pytest.mark.parametrize("registered", [True, False], ids=["buffers", "attributes"])
@pytest.mark.parametrize(("forward", "capture"), CASES)
def test_what_the_run_writes_is_what_it_reads(forward: Any, capture: Any, registered: bool, tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    x, example = torch.ones(3), torch.tensor([1.0, -1, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        opbridge.export(
            Held(forward, registered),
            (x, example),
            path,
            capture=capture,
            dynamic_shapes=({0: "n"}, {0: "m"}),
            mutations_as_outputs=True,
        )
    for y in (example, torch.tensor([1.0, -1, 0]), torch.tensor([1.0, 1, 2.5])):
        expected = Held(forward, registered)(x, y)
        torch.testing.assert_close(run(session(path), {"x": x, "y": y})[0], expected)


def test_reading_what_was_written_is_warned_of_in_a_run_on_real_tensors(tmp_path: Any) -> None:
    with pytest.warns(opbridge.TraceWarning, match="read into Python"):
        opbridge.export(
            Held(as_list, True),
            (torch.ones(3), torch.ones(2)),
            tmp_path / "m.onnx",
            capture="trace",
            mutations_as_outputs=True,
        )


class Sizes(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("three", torch.tensor(3))
        self.two = torch.tensor(2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        zeros = torch.zeros((x.shape[0], self.three)) + x
        return zeros, x.new_ones(self.two, self.three) * x.sum(), x.repeat(1, self.two) + torch.ones(self.two * 3)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_sizes_that_a_model_holds_as_tensors(capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(Sizes(), [[(4, 3)], [(1, 3)], [(2, 3)]], ({0: "n"},), capture, tmp_path)
