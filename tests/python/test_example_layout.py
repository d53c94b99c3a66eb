"""An example whose dynamic size is 1 keeps its layout in memory when the capture repeats it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES

import opbridge
from opbridge.capture.memory_layout import repeat_ones

ROWS = ({0: torch.export.Dim.DYNAMIC},)
SIZES = pytest.mark.parametrize("sizes", [None, ROWS], ids=["constant", "dynamic"])


@pytest.mark.parametrize(
    ("leaf", "axes", "strides"),
    [
        (torch.rand(3, 1, 2), (1,), (4, 2, 1)),
        (torch.rand(1, 1, 4), (0, 1), (8, 4, 1)),
        (torch.rand(1, 3, 2, 5).to(memory_format=torch.channels_last), (0,), (30, 1, 15, 3)),
        (torch.rand(8).as_strided((1, 2), (4, 2)), (0,), (4, 2)),
        (torch.rand(4, 1).t(), (0,), (4, 1)),
        (torch.rand(9).as_strided((1, 3), (1, 2), 4), (0,), (1, 4)),
        (torch.rand(1, 1).expand(1, 3), (0,), (3, 1)),
    ],
)
def test_repeating(leaf: torch.Tensor, axes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    repeated = repeat_ones(leaf, axes)
    assert repeated.stride() == strides
    assert torch.equal(repeated, leaf.repeat([2 if axis in axes else 1 for axis in range(leaf.dim())]))
    assert repeated.storage_offset() == (leaf.storage_offset() if leaf.stride() != (0, 0) else 0)
    assert not repeated._is_view()
    assert torch._debug_has_internal_overlap(repeated) != 1


def reads_memory(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x, (2, 1), (0, 3), 1)


@CAPTURES
def test_memory_of_unknown_layout_is_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    x = torch.arange(8.0).as_strided((1, 2), (4, 2))
    with pytest.raises(opbridge.UnsupportedError, match="layout in memory is not known"):
        opbridge.export(reads_memory, (x,), tmp_path / "m.onnx", dynamic_shapes=ROWS, capture=capture)


def by_layout(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x * 3


def joins_pixels(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 2, 3, 1).view(-1, 3)


@CAPTURES
@pytest.mark.parametrize("model", [by_layout, joins_pixels])
def test_channels_last(model: Callable[..., torch.Tensor], capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    one, three = (torch.rand(n, 3, 4, 5).to(memory_format=torch.channels_last) for n in (1, 3))
    opbridge.export(model, (one,), path, dynamic_shapes=ROWS, capture=capture)
    opbridge.verify(path, model, (three,))


ABOVE = {
    "before the view": lambda x: torch.as_strided(x[1:], (2, 2), (2, 1), 0) * 1,
    "in the view": lambda x: torch.as_strided(x[1:], (2, 2), (2, 1), 6) * 1,
    "from the view on": lambda x: torch.as_strided(x[x.shape[0] // 2 :], (2, 2), (2, 1)) * 1,
    "before a view that begins at a size": lambda x: torch.as_strided(x[x.shape[0] // 2 :], (2, 2), (2, 1), 3) * 1,
    "from columns on": lambda x: torch.as_strided(x[:, 1:3], (x.shape[0], 2), (4, 1)) * 1,
}


@CAPTURES
@SIZES
@pytest.mark.parametrize("name", ABOVE)
def test_the_memory_around_a_view(name: str, sizes: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(ABOVE[name], (torch.rand(6, 4),), path, dynamic_shapes=sizes, capture=capture)
    opbridge.verify(path, ABOVE[name], (torch.rand(10 if sizes else 6, 4),))


def by_memory(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return x * 2 if y.is_set_to(y) else x


@SIZES
def test_a_tensor_has_its_own_memory(sizes: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    opbridge.export(by_memory, (torch.rand(6, 4),), path, dynamic_shapes=sizes, capture="export")
    opbridge.verify(path, by_memory, (torch.rand(6, 4),))


@SIZES
def test_memory_of_two_tensors_is_not_compared(sizes: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="is_set_to compares the memory of two tensors"):
        opbridge.export(
            lambda x: x * 2 if x.is_set_to(x[:]) else x,
            (torch.rand(6, 4),),
            tmp_path / "m.onnx",
            dynamic_shapes=sizes,
            capture="export",
        )
