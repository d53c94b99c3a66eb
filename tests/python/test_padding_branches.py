"""Branches that only pad or crop a tensor: the model has only the way that pads, where that is the way of all sizes."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F
from dynamic_check import CAPTURES, agrees

import opbridge

SIZES = [(2, 6, 9, 3), (1, 4, 4, 3), (3, 5, 8, 3), (1, 8, 5, 3), (2, 1, 1, 3), (1, 7, 13, 3), (2, 12, 8, 3)]
EVEN = [(2, 8, 12, 3), *SIZES]
DYNAMIC = ({0: "n", 1: "h", 2: "w"},)
WINDOW = 4
Function = Callable[[torch.Tensor], Any]


def branches_in(graph: onnx.GraphProto) -> int:
    return sum(node.op_type == "If" for node in graph.node)


def windows(x: torch.Tensor) -> torch.Tensor:
    size, height, width, channels = x.shape
    pad_h, pad_w = (WINDOW - height % WINDOW) % WINDOW, (WINDOW - width % WINDOW) % WINDOW
    shortcut = x
    if pad_h > 0 or pad_w > 0:
        x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
    rows, columns = height + pad_h, width + pad_w
    x = x.view(size, rows // WINDOW, WINDOW, columns // WINDOW, WINDOW, channels).transpose(2, 3).cumsum(3)
    x = x.transpose(2, 3).reshape(size, rows, columns, -1)
    if rows > height or columns > width:
        x = x[:, :height, :width, :].contiguous()
    return x + shortcut


def kept(x: torch.Tensor) -> torch.Tensor:
    _, height, width, _ = x.shape
    pad_h, pad_w = -height % WINDOW, -width % WINDOW
    padding = pad_h > 0 or pad_w > 0
    if padding:
        x = F.pad(x, pad=(0, 0, 0, pad_w, 0, pad_h))
    x = x.flip(1, 2).cumsum(2)
    if padding:
        x = x[:, :height, :width]
    return x


def quotients(x: torch.Tensor) -> torch.Tensor:
    x = x[:, ::2, ::2]
    height = x.shape[1]
    pad = (7 - height % 7) % 7
    x = F.pad(x, (0, 0, 0, 0, 0, pad))
    count = x.shape[1] // 7
    x = x.unflatten(1, (count, 7)).cumsum(2).reshape(x.shape[0], count * 7, -1, x.shape[-1])
    if pad > 0:
        x = x[:, :height].contiguous()
    return x


def multiples(x: torch.Tensor) -> torch.Tensor:
    x = x.permute(0, 3, 1, 2)
    if x.shape[3] % WINDOW != 0:
        pads = (0, WINDOW - x.shape[3] % WINDOW)
        x = F.pad(x, pads)
    if x.shape[2] % WINDOW != 0:
        pads = (0, 0, 0, WINDOW - x.shape[2] % WINDOW)
        x = F.pad(x, pads)
    return F.avg_pool2d(x, WINDOW)


def even(x: torch.Tensor) -> torch.Tensor:
    _, height, width, _ = x.shape
    if (height % 2 == 1) or (width % 2 == 1):
        x = F.pad(x, (0, 0, 0, width % 2, 0, height % 2))
    return torch.cat([x[:, i::2, j::2] for i in range(2) for j in range(2)], -1)


def with_mask(x: torch.Tensor) -> torch.Tensor:
    pad = -x.shape[2] % WINDOW
    mask = x.new_ones(x.shape[2])
    if not (pad <= 0):
        x = F.pad(x, (0, 0, 0, pad))
        mask = F.pad(mask, (0, pad), value=-1.0)
    return x.cumsum(2) * mask[:, None]


def padded(x: torch.Tensor, pad: int) -> torch.Tensor:
    if pad == 0:
        return x
    return F.pad(x, (0, 0, 0, pad))


def early(x: torch.Tensor) -> torch.Tensor:
    return padded(x, -x.shape[2] % WINDOW).cumsum(2)


def ternary(x: torch.Tensor) -> torch.Tensor:
    pad = -x.shape[2] % WINDOW
    x = F.pad(x, (0, 0, 0, pad)) if pad else x
    return x[:, :, :5] if x.shape[2] > 5 else x


@CAPTURES
@pytest.mark.parametrize("sizes", [SIZES, EVEN], ids=["padded", "whole"])
@pytest.mark.parametrize("model", [windows, kept, quotients, multiples, even, with_mask, early, ternary])
def test_the_way_that_pads_is_that_of_all_sizes(
    model: Function, sizes: Any, capture: Any, tmp_path: pathlib.Path
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", opbridge.TraceWarning)
        made = agrees(model, [[size] for size in sizes], DYNAMIC, capture, tmp_path)
    assert branches_in(made.graph) == 0


def writes(x: torch.Tensor) -> Any:
    x = shortcut = x * 1
    pad = -x.shape[2] % WINDOW
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad))
    x += 1
    return x, shortcut


def writes_under_a_kept_test(x: torch.Tensor) -> Any:
    x = shortcut = x * 1
    pad_h, pad_w = -x.shape[1] % WINDOW, -x.shape[2] % WINDOW
    padding = pad_h > 0 or pad_w > 0
    if padding:
        x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
    x += 1
    return x, shortcut


def writes_earlier_view(x: torch.Tensor) -> Any:
    x = x * 1
    view, pad = x[:, 0], -x.shape[2] % WINDOW
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad))
    view += 1
    return x


def changes_the_shape_in_place(x: torch.Tensor) -> Any:
    x = whole = x * 1
    if x.shape[1] > WINDOW:
        x = x[:, :WINDOW]
    x.transpose_(1, 2)
    return x.sum((1, 2)), whole.sum(1)


def changes_the_shape_of_the_whole(x: torch.Tensor) -> Any:
    x = whole = x * 1
    if x.shape[1] > WINDOW:
        x = x[:, :WINDOW]
    whole.transpose_(1, 2)
    return x.sum((1, 2)), whole.sum(1)


def of_one_where_the_other_is_even(x: torch.Tensor) -> Any:
    _, height, width, _ = x.shape
    if height % WINDOW != 0 or width % WINDOW != 0:
        x = F.pad(x, (0, 0, 0, WINDOW - width % WINDOW, 0, WINDOW - height % WINDOW))
    return x


def both(x: torch.Tensor) -> Any:
    pad_h, pad_w = -x.shape[1] % WINDOW, -x.shape[2] % WINDOW
    if pad_h > 0 and pad_w > 0:
        x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
    return x


def less(x: torch.Tensor) -> Any:
    pad = 8 - x.shape[2]
    if pad > 0:
        x = F.pad(x, (0, 0, 0, pad))
    return x


def kept_for_more(x: torch.Tensor) -> Any:
    pad_h, pad_w = -x.shape[1] % WINDOW, -x.shape[2] % WINDOW
    padding = pad_h > 0 or pad_w > 0
    if padding:
        x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
    x = x.flip(1)
    if padding:
        x = x[:, 1:]
    return x


def kept_beside_its_condition(x: torch.Tensor) -> Any:
    pad_h, pad_w = -x.shape[1] % WINDOW, -x.shape[2] % WINDOW
    padding, count = pad_h > 0 or pad_w > 0, 0
    if pad_h > 0:
        count = 1
    if padding:
        x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
    return x + count


def kept_beside_a_handler(x: torch.Tensor) -> Any:
    pad_h, pad_w = -x.shape[1] % WINDOW, -x.shape[2] % WINDOW
    padding = pad_h > 0 or pad_w > 0
    try:
        if padding:
            x = F.pad(x, (0, 0, 0, pad_w, 0, 1))
    except BaseException:
        x = x * 2
    return x


def kept_for_a_function(x: torch.Tensor) -> Any:
    pad_h, pad_w = -x.shape[1] % WINDOW, -x.shape[2] % WINDOW
    padding = pad_h > 0 or pad_w > 0

    def padded() -> torch.Tensor:
        y = x
        if padding:
            y = F.pad(y, (0, 0, 0, pad_w, 0, pad_h))
        return y

    return padded()


def with_numbers_of_before(x: torch.Tensor) -> Any:
    pads = (0, 0)
    if x.shape[2] % WINDOW != 0:
        pads = (0, 0, 0, WINDOW - x.shape[2] % WINDOW)
        x = F.pad(x, pads)
    if x.shape[1] > 5:
        x = F.pad(x, pads)
    return x


def without_the_tail(x: torch.Tensor) -> Any:
    pad = -x.shape[2] % WINDOW
    x = F.pad(x, (0, 0, 0, pad)).flip(2)
    if pad > 0:
        x = x[:, :, :-pad]
    return x


def beside_another_call(x: torch.Tensor) -> Any:
    rest = x.shape[2] % WINDOW
    y, x = F.pad(x, (0, 0, 0, WINDOW)), (F.pad(x, (0, 0, 0, WINDOW - rest)) if rest != 0 else x)
    return y, x


def kept_in_a_loop(x: torch.Tensor) -> Any:
    for size in (2, 3, 1):
        pad_h, pad_w = -x.shape[1] % size, -x.shape[2] % size
        padding = pad_h > 0 or pad_w > 0
        if padding:
            x = F.pad(x, (0, 0, 0, pad_w, 0, pad_h))
    if x.shape[2] > 8:
        x = x[:, :, 1:]
    return x.flip(2)


@CAPTURES
@pytest.mark.parametrize("sizes", [SIZES, EVEN], ids=["padded", "whole"])
@pytest.mark.parametrize(
    "model",
    [
        beside_another_call,
        kept_in_a_loop,
        writes,
        writes_under_a_kept_test,
        writes_earlier_view,
        changes_the_shape_in_place,
        changes_the_shape_of_the_whole,
        of_one_where_the_other_is_even,
        both,
        less,
        kept_for_more,
        kept_beside_its_condition,
        kept_beside_a_handler,
        kept_for_a_function,
        with_numbers_of_before,
        without_the_tail,
    ],
)
def test_ways_that_differ_stay_two(model: Function, sizes: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    made = agrees(model, [[size] for size in sizes], DYNAMIC, capture, tmp_path)
    assert branches_in(made.graph) > 0


@CAPTURES
def test_torch_is_as_before(capture: Any, tmp_path: pathlib.Path) -> None:
    """Where torch.Tensor had been given a ``__getitem__``, torch.tensor would take numbers for sequences."""
    agrees(changes_the_shape_in_place, [[size] for size in SIZES], DYNAMIC, capture, tmp_path)
    numbers = torch.arange(3.0)
    assert torch.equal(torch.tensor([numbers[1], numbers[2]]), numbers[1:])


@CAPTURES
def test_ways_that_differ_on_a_device(capture: Any, tmp_path: pathlib.Path) -> None:
    """The device is one more mode between a slice and the function that makes it."""

    def on_a_device(x: torch.Tensor) -> Any:
        with torch.device("cpu"), torch.device("cpu"):
            return changes_the_shape_in_place(x)

    made = agrees(on_a_device, [[size] for size in SIZES], DYNAMIC, capture, tmp_path)
    assert branches_in(made.graph) > 0


def reflected(x: torch.Tensor) -> Any:
    pad = -x.shape[2] % 2
    if pad > 0:
        x = F.pad(x, (0, pad), mode="reflect")  # which PyTorch does not do for these axes
    return x.flip(2)


@CAPTURES
def test_a_way_that_pads_but_cannot(capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(opbridge.TraceWarning, match="was read as False"):
        agrees(reflected, [[(2, 8, 12, 3)], [(1, 3, 6, 3)]], DYNAMIC, capture, tmp_path)


@CAPTURES
@pytest.mark.parametrize("model", [windows, kept])
def test_in_inference_mode(model: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    with torch.inference_mode():
        agrees(model, [[size] for size in SIZES], DYNAMIC, capture, tmp_path)
