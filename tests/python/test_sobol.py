"""Sobol sequences."""

from __future__ import annotations

import pathlib

import pytest
import torch
from functionalize_check import Model

import opbridge


@pytest.mark.parametrize("dtype", [None, torch.float64])
@pytest.mark.parametrize(("count", "generated"), [(1, 0), (5, 0), (7, 6), (40, 1000), (0, 3)])
def test_points(count: int, generated: int, dtype: torch.dtype | None, tmp_path: pathlib.Path) -> None:
    engine = torch.quasirandom.SobolEngine(4, scramble=True, seed=1)

    def draw(quasi: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch._sobol_engine_draw(quasi, count, state, 4, generated, dtype)

    args = (engine.quasi, engine.sobolstate)
    opbridge.export(Model(draw), args, tmp_path / "model.onnx", capture="trace", verify=True)
    other = torch.quasirandom.SobolEngine(4, scramble=True, seed=2)
    opbridge.verify(tmp_path / "model.onnx", Model(draw), (other.quasi, other.sobolstate))
    with pytest.raises(opbridge.UnsupportedError, match="from opset 18 on"):
        opbridge.export(Model(draw), args, tmp_path / "model.onnx", capture="trace", opset_version=17)
