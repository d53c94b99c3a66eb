"""Sizes and elements that a model uses as Python numbers stay symbolic, or cause a warning or a refusal."""

from __future__ import annotations

import contextlib
import enum
import logging
import math
import numbers
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import opbridge
from checking.models import export_and_verify
from opbridge import TraceWarning
from opbridge.runtime import run, session

CAPTURES = pytest.mark.parametrize("capture", ["export", "trace"])
Function = Callable[..., Any]


def export(function: Function, folder: pathlib.Path, capture: Any, rows: int = 3) -> pathlib.Path:
    path = folder / "model.onnx"
    example = (torch.arange(4.0 * rows).reshape(rows, 4),)
    opbridge.export(function, example, path, capture=capture, dynamic_shapes=({0: "n"},))
    return path


def check(function: Function, folder: pathlib.Path, capture: Any) -> None:
    inputs = [torch.arange(12.0).reshape(3, 4), *(torch.randn(rows, 4) for rows in (3, 1, 6))]
    export_and_verify(function, folder / "model.onnx", inputs, {0: "n"}, capture)


def caught(x: torch.Tensor) -> torch.Tensor:
    try:
        return x * math.exp(x.mean())
    except OverflowError:
        return x


def suppressed(x: torch.Tensor) -> torch.Tensor:
    factor = 1.0
    with contextlib.suppress(ValueError):
        factor = math.sqrt(x.sum().item())
    return x * factor


READ: dict[str, Function] = {
    "complex": lambda x: x * complex(x.sum()).real,
    "math": lambda x: x * math.sinh(x.mean()),
    "math of item": lambda x: x * math.gamma(x.sum().item() + 1),
    "floor": lambda x: x * math.floor(x.sum()),
    "range": lambda x: torch.stack([x.sum() for _ in range(int(x.abs().sum()))]),
    "index of a list": lambda x: [x, -x][int(x.sum() > 0)],
    "NumPy": lambda x: x * float(np.asarray(x).sum()),
    "caught": caught,
    "suppressed": suppressed,
}
READ_BY_CALLS: dict[str, Function] = {
    "float": lambda x: x * float(x.sum()),
    "int": lambda x: x * int(x.sum()),
    "item": lambda x: x * float(x.sum().item()),
    "int of a bool": lambda x: x * int(x.sum() > 0),
    "exp": lambda x: x * math.exp(x.mean()),
    "sqrt of item": lambda x: x * math.sqrt(abs(x.sum().item()) + 1),
    "float of a bool": lambda x: x * float((x > 1).any()),
    "slice": lambda x: x[:, : int(x.abs().sum()) % 4],
    "argument": lambda x: torch.full((2,), float(x.sum())),
    "tensor": lambda x: x * torch.tensor(float(x[0, 0])),
    "index": lambda x: x.t()[int(x[0].argmax())],
    "size": lambda x: x.new_zeros(int(x.argmax(1).max()) + 1).scatter_add(0, x.argmax(1), x[:, 0]),
    "arange": lambda x: torch.arange(int(x.abs().sum()) + 1),
}


@pytest.mark.parametrize("name", READ)
def test_numbers_read_from_data_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"depends on data|converts a tensor to a NumPy array"):
        export(READ[name], tmp_path, "trace")


@pytest.mark.parametrize("name", READ_BY_CALLS)
@CAPTURES
def test_int_and_float_of_tensors(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    check(READ_BY_CALLS[name], tmp_path, capture)


class Limit(enum.IntEnum):
    LOW = 1
    EXAMPLE = 3


FOLLOWED: dict[str, Function] = {
    "item": lambda x: x * x.sum().item() + torch.full((1,), x.mean().item()),
    "tolist": lambda x: x * sum(x[0].tolist()),
    "item of an operator of sizes": lambda x: x * torch.ops.aten.mul(x.shape[0], 0.5).item(),
    "item of an operator of elements": lambda x: x * float(torch.ops.aten.sub(x[0, 0].item(), 2)),
    "item of NaN": lambda x: x * torch.tensor(float("nan")).item(),
    "is an int": lambda x: x * 2 if isinstance(x.shape[0], int) else x,
    "is a number": lambda x: x * 2 if isinstance(x.shape[0], numbers.Integral) else x,
    "is of one of the types": lambda x: x * 2 if isinstance(x.shape[0] / 2, (str, float)) else x,
    "text of a constant size": lambda x: x * int(f"{x.shape[1]}"),
    "equal to a member of an IntEnum": lambda x: x * 2 if x.shape[0] == Limit.EXAMPLE else x,
    "unequal to it": lambda x: x * 2 if x.shape[0] != Limit.EXAMPLE else x,
    "one of the members": lambda x: x * 2 if x.shape[0] in list(Limit) else x,
    "between members": lambda x: x * 2 if Limit.LOW < x.shape[0] <= Limit.EXAMPLE else x,
    "arithmetic with members": lambda x: x * (x.shape[0] * Limit.EXAMPLE - max(Limit.EXAMPLE, x.shape[0])),
    "equal to NumPy's float64": lambda x: x * 2 if x.shape[0] / 2 == np.float64(1.5) else x,
    "a comparison is 1": lambda x: x * 2 if (x.shape[0] > 2) == 1 else x,
    "a comparison is not True": lambda x: x * 2 if (x.shape[0] > 2) != True else x,  # noqa: E712
    "a comparison is 2": lambda x: x if (x.shape[0] > 2) == 2 else x * 2,
    "equal comparisons": lambda x: x * 2 if (x.shape[0] > 2) == (x.shape[0] < 5) else x,
    "a size is True": lambda x: x * 2 if x.shape[0] == True else x,  # noqa: E712
}


@CAPTURES
@pytest.mark.parametrize("name", FOLLOWED)
def test_numbers_that_are_followed(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        check(FOLLOWED[name], tmp_path, capture)


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * ((x.shape[0] > 2) & x.shape[0]),
        lambda x: x * (x.shape[0] | (x.shape[0] > 2)),
        lambda x: x * (1 & (x.shape[0] > 2)),
        lambda x: x * ((x.shape[0] > 2) == x.shape[0] // 3),
        lambda x: x * (x.shape[0] // 3 != (x.shape[0] > 2)),
    ],
)
def test_comparisons_beside_numbers_are_refused(function: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    message = r"(?s)a comparison that depends on a dynamic size is combined with a number.*test_python_numbers\.py"
    with pytest.raises(opbridge.UnsupportedError, match=message):
        export(function, tmp_path, capture)


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * int(str(x.shape[0])),
        lambda x: x * len(f"{x.shape}"),
        lambda x: x * {"3": 5.0}.get(repr(x.shape[0]), 2.0),
    ],
)
def test_texts_made_of_sizes_are_told(function: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match=r"was converted to the text '3'.*test_python_numbers\.py"):
        path = export(function, tmp_path, capture)
    opbridge.verify(path, function, (torch.randn(3, 4),))


def squeezes(x: torch.Tensor) -> torch.Tensor:
    return (x * 1).squeeze_(0)


SQUEEZES = pytest.mark.parametrize(
    "function",
    [
        squeezes,
        lambda x: x.squeeze(0).sum(0),
        lambda x: x.squeeze(dim=-2),
        lambda x: torch.squeeze(x, (0, 1)),
        lambda x: torch.squeeze(x),
        lambda x: torch.ops.aten.squeeze(x),
        lambda x: torch.ops.aten.squeeze.dim(x, 0),
        lambda x: torch.ops.aten.squeeze_copy.dims(x, dim=[-1, -2]),
        lambda x: torch.ops.aten.squeeze_.dim(self=x * 1, dim=0),
    ],
)


@CAPTURES
@SQUEEZES
def test_squeezed_sizes_are_told(function: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match=r"squeeze\(\) keeps the axis"):
        path = export(function, tmp_path, capture)
    opbridge.verify(path, function, (torch.randn(5, 4),))


def test_sizes_squeezed_in_a_branch_are_told(tmp_path: pathlib.Path) -> None:
    def branches(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y.squeeze(0) * 2, lambda y: y.sin(), (x,))

    with pytest.warns(TraceWarning, match=r"squeeze\(\) keeps the axis"):
        export(branches, tmp_path, "export")


@CAPTURES
def test_other_axes_are_squeezed(capture: Any, tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        check(lambda x: x[:, None].squeeze(1) + torch.cat([x, x, x])[:1].squeeze(0), tmp_path, capture)


def tall(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0) if x.shape[0] > 1 else x * 2


@CAPTURES
@pytest.mark.parametrize(
    "function",
    [
        squeezes,
        lambda x: x.squeeze(0).sum(0),
        lambda x: torch.ops.aten.squeeze.dim(x, 0),
        lambda x: torch.ops.aten.squeeze_copy.dims(x, [0, 1]),
        lambda x: x.chunk(3),
        lambda x: torch.ops.aten.unsafe_chunk(x, 2),
        tall,
    ],
)
def test_what_only_the_size_1_of_the_example_does_is_refused(
    function: Function, capture: Any, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="not so in the example, where a dynamic size is 1"):
        export(function, tmp_path, capture, rows=1)


@CAPTURES
def test_what_broadcasts_in_the_example_alone_is_refused(capture: Any, tmp_path: pathlib.Path) -> None:
    sizes = {"dynamic_shapes": ({0: "n"}, {0: "m"}), "capture": capture}
    with pytest.raises(opbridge.UnsupportedError, match="not so in the example"):
        opbridge.export(lambda x, y: x + y, (torch.rand(2, 4), torch.rand(1, 4)), tmp_path / "m.onnx", **sizes)
    constant = torch.rand(3, 4)
    with pytest.raises(opbridge.UnsupportedError, match=r"model fails.*; make that size constant, or") as raised:
        export(lambda x: x + constant, tmp_path, capture, rows=1)
    assert raised.value.where.startswith("test_python_numbers.py:")


def test_control_flow_by_sizes(tmp_path: pathlib.Path) -> None:
    def branches(x: torch.Tensor) -> Any:
        return torch.cond(x.size(0) > 2, torch.sin, torch.cos, (x,))

    def loops(x: torch.Tensor) -> Any:
        return torch.while_loop(lambda i, y: i < x.size(0), lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), x))[1]

    for capture in ("export", "trace"):
        for function in (branches, loops):
            check(function, tmp_path, capture)


def views(x: torch.Tensor) -> torch.Tensor:
    try:
        return x.view(5, -1).sum(1)
    except RuntimeError:
        return x.sum(1)


def adds(x: torch.Tensor) -> torch.Tensor:
    try:
        return x[4]
    except IndexError:
        return x[0]


@CAPTURES
@pytest.mark.parametrize("function", [views, adds])
def test_errors_that_the_model_catches_are_told(function: Function, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match=r"the model caught an error.*test_python_numbers\.py"):
        path = export(function, tmp_path, capture)
    opbridge.verify(path, function, (torch.randn(3, 4),))


@CAPTURES
def test_errors_of_other_sizes_than_those_of_the_example(capture: Any, tmp_path: pathlib.Path) -> None:
    """A capture takes 2 for a dynamic size of 1, which does not broadcast."""

    def with_none(x: torch.Tensor) -> torch.Tensor:
        try:
            return x + x[1:1]
        except RuntimeError:
            return x * 2

    with pytest.raises(opbridge.UnsupportedError, match=r"the model caught an error.*give an example of another size"):
        opbridge.export(
            with_none, (torch.ones(1, 3),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture
        )


class Showing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        print(x.shape)
        print(
            "rows",
            n,
        )
        print(f"{n:>4d} rows of {n / 2:.2f}, " + "%d in all" % x.numel())  # noqa: UP031 - a way to write it
        logging.getLogger(__name__).warning("%d rows, %s", n, x.shape)
        return x * n


@CAPTURES
def test_sizes_that_are_only_shown(
    capture: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(
            Showing(), (torch.rand(3, 4),), tmp_path / "m.onnx", dynamic_shapes=({0: "n"},), capture=capture
        )
    assert "rows 3\n   3 rows of 1.50, 12 in all\n" in capsys.readouterr().out
    assert "3 rows, torch.Size([3, 4])" in caplog.text
    x = torch.rand(5, 4)
    assert torch.equal(run(session(tmp_path / "m.onnx"), {"x": x})[0], x * 5)


def told(x: torch.Tensor) -> torch.Tensor:
    message = f"{x.shape[0]} rows are too many"
    assert x.shape[0] < 512, message
    if x.shape[1] != 4:
        raise ValueError(message)
    return x * 2


@CAPTURES
def test_a_text_of_an_error(capture: Any, tmp_path: pathlib.Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        export(told, tmp_path, capture)


def told_and_used(x: torch.Tensor) -> torch.Tensor:
    message = f"{x.shape[0]} rows are too many"
    assert x.shape[0] < 512, message
    return x * len(message)


def told_and_looked_up(x: torch.Tensor) -> torch.Tensor:
    message = f"{x.shape[0]} rows are too many"
    assert x.shape[0] < 512, message
    return x * len(locals()["message"])


@CAPTURES
@pytest.mark.parametrize("function", [told_and_used, told_and_looked_up])
def test_a_text_that_is_used_too(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match="was converted to the text"):
        export(function, tmp_path, capture)


@CAPTURES
def test_a_text_with_a_format(capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match=r"was converted to the text '3'"):
        export(lambda x: x * float(f"{x.shape[0]:.1f}"), tmp_path, capture)
