"""Modules that are edited after their import: a capture reads the source of what it runs, not of what was there before
or is there now."""

from __future__ import annotations

import contextlib
import importlib
import pathlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import opbridge

DYNAMIC = torch.export.Dim.DYNAMIC
CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
IMPORTS = "import torch\nimport torch.nn.functional as F\n\n"

PADS = """
def run(x):
    missing = -x.shape[1] % 4
    if missing > 0:
        x = F.pad(x, (0, missing))
    return x
"""
ADDS = """
def run(x):
    missing = -x.shape[1] % 4
    if missing > 0:
        x = x + 12.5
    return x
"""
CHECKS = """
def run(x):
    if x.shape[1] > 5:
        raise ValueError("too long")
    return x * 2
"""
CHOOSES = """
def run(x):
    if x.shape[1] > 5:
        return x * 3 + 1
    return x * 2
"""
SUMS = """
def run(x):
    total = x[:, 0]
    for i in range(1, x.shape[1]):
        total = total * .5 + x[:, i]
    return total
"""
MULTIPLIES = """
def run(x):
    total = x[:, 0]
    for i in range(1, x.shape[1]):
        total = total * .3 - x[:, i]
    return total
"""
EDITS = {"pads": (PADS, ADDS), "checks": (CHECKS, CHOOSES), "loops": (SUMS, MULTIPLIES)}
EDITED = pytest.mark.parametrize(
    ("before", "after"),
    [*EDITS.values(), *((after, before) for before, after in EDITS.values())],
    ids=[*EDITS, *(f"{name}-back" for name in EDITS)],
)


class Model(nn.Module):
    def __init__(self, module: ModuleType) -> None:
        super().__init__()
        self.run = module.run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x)


@pytest.fixture
def source(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pathlib.Path]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path / "edited_module.py"
    sys.modules.pop("edited_module", None)


def loaded(source: pathlib.Path, text: str) -> ModuleType:
    source.write_text(IMPORTS + text)
    importlib.invalidate_caches()
    known = sys.modules.get("edited_module")
    return importlib.reload(known) if known is not None else importlib.import_module("edited_module")


def agrees_or_is_refused(module: ModuleType, capture: Any, tmp_path: pathlib.Path) -> bool:
    """Whether a model is exported, which then agrees at every size at which PyTorch's runs."""
    model = Model(module)
    try:
        opbridge.export(
            model, (torch.rand(2, 5),), tmp_path / "m.onnx", dynamic_shapes=({1: DYNAMIC},), capture=capture
        )
    except opbridge.UnsupportedError:
        return False
    for length in (1, 3, 4, 6, 8):
        x = torch.rand(2, length)
        with contextlib.suppress(ValueError):
            model(x)
            assert opbridge.verify(tmp_path / "m.onnx", model, (x,)).ok
    return True


@CAPTURES
@EDITED
def test_reloaded(before: str, after: str, source: pathlib.Path, capture: Any, tmp_path: pathlib.Path) -> None:
    for text in (before, after):
        exported = agrees_or_is_refused(loaded(source, text), capture, tmp_path)
        assert exported or text is CHOOSES


@CAPTURES
@EDITED
def test_not_reloaded(before: str, after: str, source: pathlib.Path, capture: Any, tmp_path: pathlib.Path) -> None:
    module = loaded(source, before)
    source.write_text(IMPORTS + after)
    agrees_or_is_refused(module, capture, tmp_path)


@CAPTURES
@EDITED
def test_edited_after_a_capture(
    before: str, after: str, source: pathlib.Path, capture: Any, tmp_path: pathlib.Path
) -> None:
    module = loaded(source, before)
    exported = agrees_or_is_refused(module, capture, tmp_path)
    source.write_text(IMPORTS + after)
    assert agrees_or_is_refused(module, capture, tmp_path) == exported
