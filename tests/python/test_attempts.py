"""How often a model is captured: an attempt that cannot differ from the one before is left out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional as F

import opbridge
from checking.models import compare, loaded


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls of torch.export."""
    made: list[Any] = []
    export = torch.export.export

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(args)
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", counted)
    return made


class Skip(nn.Module):
    """A stage of a U-Net, which takes images of even sizes alone."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, F.interpolate(self.down(x), scale_factor=2.0)], 1)


class Way(nn.Module):
    """A branch by a size, in a model that needs other functions than ``int`` and ``math.sqrt``."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = x[: int(math.sqrt(x.shape[0]))]
        return part * 2 if x.shape[0] > 4 else part - 1


def images(*sizes: int) -> list[tuple[torch.Tensor]]:
    return [(torch.rand(2, 3, size, size + 2),) for size in sizes]


def test_sizes_of_which_a_model_takes_some_are_asked_for_once(attempts: list[Any], tmp_path: Path) -> None:
    model, path = Skip().eval(), tmp_path / "m.onnx"
    opbridge.export(model, images(8)[0], path, dynamic_shapes=({2: Dim("h"), 3: Dim("w")},), capture="export")
    assert len(attempts) == 2  # for all sizes of the ranges, and for some
    compare(model, loaded(path), images(8, 6, 2, 14))
    with pytest.raises(Exception, match="Concat"):
        loaded(path)(torch.rand(2, 3, 7, 8))


def test_what_one_way_replaces_the_next_one_replaces_at_once(attempts: list[Any], tmp_path: Path) -> None:
    model, path = Way(), tmp_path / "m.onnx"
    opbridge.export(model, (torch.rand(9, 2),), path, dynamic_shapes=({0: "n"},), capture="export")
    assert len(attempts) == 3  # without replacements, with them, and the other way
    compare(model, loaded(path), [(torch.rand(n, 2),) for n in (9, 4, 1, 25)])
