"""torch.jit.is_tracing() in a model with dynamic sizes: it turns off shortcuts in its own line alone."""

from __future__ import annotations

import pathlib
import threading
import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees
from seen import Seen
from torch import nn

import opbridge
from opbridge import TraceWarning

DYNAMIC = torch.export.Dim.DYNAMIC
IMAGE = (torch.rand(1, 3, 4, 4),)
IMAGES = ({0: DYNAMIC, 2: DYNAMIC, 3: DYNAMIC},)


class Positions(nn.Module):
    """Adds positions, which are resized unless the image has their size."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.positions = nn.Parameter(torch.rand(1, 3, 4, 4))

    def resized(self, height: int, width: int) -> torch.Tensor:
        if not torch.jit.is_tracing() and height * width == 16 and height == width:
            return self.positions
        return F.interpolate(self.positions, size=(height, width), mode="bicubic", align_corners=False)

    def forward(self, x: torch.Tensor) -> Any:
        return x + self.resized(*x.shape[2:])


@CAPTURES
def test_the_general_way_is_exported(capture: Any, tmp_path: pathlib.Path) -> None:
    shapes = [[(1, 3, 4, 4)], [(2, 3, 4, 4)], [(1, 3, 5, 7)], [(3, 3, 2, 8)]]
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        agrees(Positions(), shapes, IMAGES, capture, tmp_path)


class WithFlag(Positions):
    def forward(self, x: torch.Tensor) -> Any:
        y = super().forward(x)
        if torch.jit.is_tracing():
            return y
        return y, x.sum()


@CAPTURES
def test_other_lines_are_not_told(capture: Any, tmp_path: pathlib.Path) -> None:
    program = opbridge.export(WithFlag(), IMAGE, tmp_path / "m.onnx", dynamic_shapes=IMAGES, capture=capture)
    assert len(program.model_proto.graph.output) == 2
    assert not torch.jit.is_tracing()


@CAPTURES
def test_a_shortcut_stays_if_the_general_way_is_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    class Refused(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.jit.is_tracing() and x.shape[0] * 2 + 1 > 5:
                return x * 2
            return torch.stack([x[i] * 2 for i in {*range(x.shape[0])}])

    with pytest.warns(TraceWarning, match="a branch by a dynamic size"):
        opbridge.export(
            Refused(), (torch.rand(3, 4),), tmp_path / "m.onnx", dynamic_shapes=({0: DYNAMIC},), capture=capture
        )


def test_other_threads_are_not_told(tmp_path: pathlib.Path) -> None:
    told = Seen()

    class Asking(Positions):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            thread = threading.Thread(target=lambda: told.put(torch.jit.is_tracing()))
            thread.start()
            thread.join()
            return super().forward(x)

    opbridge.export(Asking(), IMAGE, tmp_path / "m.onnx", dynamic_shapes=IMAGES)
    assert set(told.taken()) == {False}


def test_torch_traces_a_model_meanwhile(tmp_path: pathlib.Path) -> None:
    """The flag is true for what torch.jit itself traces."""
    seen = []

    def traced(x: torch.Tensor) -> torch.Tensor:
        seen.append(torch.jit.is_tracing())
        return x * 2

    torch.jit.trace(traced, torch.rand(2), check_trace=False)
    opbridge.export(Positions(), IMAGE, tmp_path / "m.onnx", dynamic_shapes=IMAGES)
    torch.jit.trace(traced, torch.rand(2), check_trace=False)
    assert all(seen)
