"""A check of dynamic sizes whose error the model catches is a branch: it causes a warning or a refusal."""

from __future__ import annotations

import contextlib
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import opbridge
from opbridge import TraceWarning

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
Function = Callable[[torch.Tensor], torch.Tensor]


def caught(operator: Function) -> Function:
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            result = operator(x)
        except (RuntimeError, IndexError, ValueError):
            result = x * 2
        return result

    return function


def suppressed(x: torch.Tensor) -> torch.Tensor:
    with contextlib.suppress(RuntimeError):
        return x.view(2, -1)
    return x * 2


def passed_on(x: torch.Tensor) -> torch.Tensor:
    try:
        with torch.no_grad():
            result = x.view(2, -1)
    finally:
        x = x * 2
    return result


def caught_elsewhere(x: torch.Tensor) -> torch.Tensor:
    try:
        with contextlib.suppress(KeyError):
            return x.view(2, -1)
    except (TypeError, OSError):
        pass
    return x * 2


class OwnError(RuntimeError):
    pass


ERRORS = (KeyError, RuntimeError)


def in_a_tuple(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.view(2, -1)
    except ERRORS:
        return x * 2


def raised_again(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.view(2, -1)
    except RuntimeError as error:
        raise OwnError("not two rows") from error


def translated(x: torch.Tensor) -> torch.Tensor:
    try:
        return raised_again(x)
    except OwnError:
        return x * 2


def own_error(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.view(2, -1)
    except OwnError:
        return x * 2


# Each expression can be computed for 6 elements.
MAY_FAIL: dict[str, Function] = {
    "view": caught(lambda x: x.view(2, -1)),
    "reshape": caught(lambda x: x.reshape(-1, 3)),
    "index": caught(lambda x: x[4]),
    "narrow": caught(lambda x: x.narrow(0, 1, 3)),
    "broadcast": caught(lambda x: x[::2] + x[1::2]),
    "broadcast of 1": caught(lambda x: x[None] + x[:, None] * torch.arange(7.0)),
    "stack": caught(lambda x: torch.stack([x[::2], x[1::2]])),
    "matmul": caught(lambda x: torch.ones(2, 3) @ x.view(-1, 2)),
    "convolution": caught(lambda x: F.conv1d(x[None, None], torch.ones(1, 1, 5))),
    "unfold": caught(lambda x: x.unfold(0, 5, 1)),
    "topk": caught(lambda x: x.topk(5)[0]),
    "pad": caught(lambda x: F.pad(x[None], (5, 0), mode="reflect")),
    "maximum": caught(lambda x: x[5:].amax(0)),
    "found": caught(lambda x: x[x > -1].view(2, -1)),
    "suppressed": suppressed,
    "in a tuple": in_a_tuple,
    "translated": translated,
}


def export(function: Function, size: int, path: pathlib.Path, capture: Any) -> None:
    opbridge.export(function, (torch.arange(float(size)),), path, capture=capture, dynamic_shapes=({0: "n"},))


@CAPTURES
@pytest.mark.parametrize("name", MAY_FAIL)
def test_a_check_whose_error_is_caught_is_told(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match=r"an error that the model may catch: .*test_try_blocks\.py"):
        export(MAY_FAIL[name], 6, tmp_path / "model.onnx", capture)
    opbridge.verify(tmp_path / "model.onnx", MAY_FAIL[name], (torch.arange(6.0),))


@CAPTURES
@pytest.mark.parametrize("name", ["view", "stack", "suppressed", "broadcast of 1"])
def test_a_check_that_fails_only_in_the_example_is_refused(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="not so in the example"):
        export(MAY_FAIL[name], 1, tmp_path / "model.onnx", capture)


@CAPTURES
def test_an_error_that_is_not_caught_is_no_branch(capture: Any, tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        export(passed_on, 6, tmp_path / "model.onnx", capture)
        for function in (caught_elsewhere, raised_again, own_error):
            export(function, 6, tmp_path / "model.onnx", capture)
        with contextlib.suppress(KeyError):
            export(lambda x: x.view(2, -1), 6, tmp_path / "model.onnx", capture)
