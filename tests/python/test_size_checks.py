"""Tests of sizes and data whose answer does not matter cause no warning: one way raises an error, as in PyTorch, a flag
decides, or only the layout in memory differs."""

from __future__ import annotations

import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES

import opbridge
from checking.models import export_and_verify
from opbridge import TraceWarning

ROWS = ({0: torch.export.Dim.DYNAMIC},)
SIZES = pytest.mark.parametrize("sizes", [None, ROWS], ids=["constant", "dynamic"])
X = torch.rand(6, 4)


def asserts(x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] <= 64, f"{x.shape[0]} rows"
    return x * 2


def raises(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64 or x.shape[0] % 2 != 0:
        message = f"{x.shape[0]} rows"
        raise ValueError(message)
    return x * 2


def raises_otherwise(x: torch.Tensor) -> torch.Tensor:
    if (
        x.shape[0]
        <= 64
    ):  # fmt: skip
        x = x * 2
    else:
        raise ValueError
    return x


def attends_causally(x: torch.Tensor, mask: torch.Tensor | None = None, is_causal: bool = False) -> torch.Tensor:
    is_causal = x.shape[0] > 1 and mask is None and is_causal
    return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=is_causal)


def raises_again(x: torch.Tensor, name: str = "") -> torch.Tensor:
    try:
        assert x.shape[0] <= 64
    except AssertionError as error:
        if name:
            raise ValueError(name) from error
        else:
            raise
    return x * 2


def takes_either(x: torch.Tensor, flag: bool = True) -> torch.Tensor:
    if x.shape[0] > 64 or flag:
        x = x * 2
    return x


def lays_out(x: torch.Tensor) -> torch.Tensor:
    x = x.t()
    if x.shape[1] > 64:
        x = x.contiguous()
    return x * 2


@CAPTURES
@pytest.mark.parametrize(
    "model", [asserts, raises, raises_otherwise, raises_again, attends_causally, takes_either, lays_out]
)
def test_checks(model: Callable[..., torch.Tensor], capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(model, (X,), path, dynamic_shapes=ROWS, capture=capture)
    opbridge.verify(path, model, (torch.rand(10, 4),))


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64:
        x = x + 1
    return x * 2


def returns_before(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 64:
        if x.sum() == 0:
            return x
        raise ValueError
    return x * 2


def keeps_the_answer(x: torch.Tensor) -> torch.Tensor:
    if not (few := x.shape[0] <= 64) and x.shape[1] > 4:
        raise ValueError
    return x * (2 if few else 3)


def catches(x: torch.Tensor) -> torch.Tensor:
    try:
        assert x.shape[0] <= 64
    except AssertionError:
        return x
    return x * 2


def takes_if_flagged(x: torch.Tensor, flag: bool = True) -> torch.Tensor:
    if x.shape[0] > 64 and flag:
        x = x + 1
    return x * 2


def takes_the_length_as_flag(x: torch.Tensor, factor: int = 0) -> torch.Tensor:
    chosen = x.shape[0] > 64 and factor
    return x * (2 if chosen is False else 3)


def lays_out_another(x: torch.Tensor) -> torch.Tensor:
    y = x.t() + 1
    if x.shape[0] > 64:
        x = y.contiguous()
    return x * 2


def convolves(x: torch.Tensor) -> torch.Tensor:
    """torch asks whether the batch is less than 16, to find the layout of the convolution's result."""
    y = torch.nn.functional.conv1d(x[:, None], torch.ones(1, 1, 3))
    return y if y.shape[0] > 64 else y * 2


@CAPTURES
@pytest.mark.parametrize(
    "model",
    [
        branches,
        convolves,
        lays_out_another,
        keeps_the_answer,
        catches,
        takes_if_flagged,
    ],
)
def test_other_branches(model: Callable[..., torch.Tensor], capture: Any, tmp_path: pathlib.Path) -> None:
    export_and_verify(model, tmp_path / "m.onnx", [X, torch.rand(64, 4), torch.rand(65, 4)], ROWS[0], capture)


@CAPTURES
@pytest.mark.parametrize("model", [returns_before, takes_the_length_as_flag])
def test_branches_of_one_way(model: Callable[..., torch.Tensor], capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.warns(TraceWarning, match="64' was read as"):
        opbridge.export(model, (X,), tmp_path / "m.onnx", dynamic_shapes=ROWS, capture=capture)


@CAPTURES
def test_a_branch_behind_the_same_question_of_torch(capture: Any, tmp_path: pathlib.Path) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.pixel_unshuffle(x[:, None, :4], 2)  # torch asks for the layout of the slice
        return y if x.shape[0] == 1 else y * 2

    inputs = [torch.rand(batch, 6, 4) for batch in (3, 1, 2)]
    export_and_verify(model, tmp_path / "m.onnx", inputs, {0: "batch", 1: "height"}, capture)


def asserts_of_data(x: torch.Tensor) -> torch.Tensor:
    assert (x > -1).all(), "negative"
    assert not torch.isnan(x).any()
    assert x.max().item() < 10
    return x / x.sum()


def raises_for_data(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any() or x.max() > 10:
        raise ValueError("out of range")
    if x.sum() > -1:
        x = x * 2
    else:
        raise ValueError
    return x


def raises_unless_one_of_two(x: torch.Tensor, first: bool = True) -> torch.Tensor:
    rows_fit, columns_fit = first and (x < 2).all(), not first and (x < 3).all()
    if not rows_fit and not columns_fit:
        raise ValueError
    return x * 2


def asserts_one_of_two(x: torch.Tensor) -> torch.Tensor:
    assert (x > 5).all() or (x < 5).all()
    return x + 1


def raises_unless_one_of_two_tensors(x: torch.Tensor) -> torch.Tensor:
    positive, few = (x > 0).all(), x.sum() < 99
    if not (positive or few):
        raise ValueError
    return x + 1


def calls_a_loss_that_raises(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gaussian_nll_loss(x, 2 * x, x + 1)


@CAPTURES
@SIZES
@pytest.mark.parametrize(
    "model",
    [
        asserts_of_data,
        raises_for_data,
        raises_unless_one_of_two,
        asserts_one_of_two,
        raises_unless_one_of_two_tensors,
        calls_a_loss_that_raises,
    ],
)
def test_checks_of_data(model: Callable[..., torch.Tensor], sizes: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        opbridge.export(model, (X,), path, dynamic_shapes=sizes, capture=capture)
    opbridge.verify(path, model, (torch.rand(6 if sizes is None else 10, 4),))


def catches_for_data(x: torch.Tensor) -> torch.Tensor:
    try:
        assert (x > 5).all()
    except AssertionError:
        x = x + 1
    return x


def catches_of_a_loss(x: torch.Tensor) -> torch.Tensor:
    try:
        return torch.nn.functional.gaussian_nll_loss(x, 2 * x, 0.5 - x)
    except ValueError:
        return x * 0


def catches_of_a_distribution(x: torch.Tensor) -> torch.Tensor:
    try:
        return torch.distributions.Normal(x, 0.5 - x).log_prob(x)
    except ValueError:
        return x * 0


def asserts_none_of(x: torch.Tensor) -> torch.Tensor:
    assert not any(part.sum() > 99 for part in (x, x + 1)) and x.sum() > 0  # noqa: PT018
    return x + 1


@CAPTURES
@SIZES
@pytest.mark.parametrize(
    "model",
    [
        catches_for_data,
        catches_of_a_loss,
        catches_of_a_distribution,
        asserts_none_of,
    ],
)
def test_other_branches_on_data(
    model: Callable[..., torch.Tensor], sizes: Any, capture: Any, tmp_path: pathlib.Path, monkeypatch: Any
) -> None:
    # Dynamo turns the checks off when it is imported.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    path = tmp_path / "m.onnx"
    if capture == "trace":
        with pytest.warns(TraceWarning):
            opbridge.export(model, (X,), path, dynamic_shapes=sizes, capture=capture)
        opbridge.verify(path, model, (X,))
    else:
        with pytest.raises(opbridge.UnsupportedError, match="branches on a tensor"):
            opbridge.export(model, (X,), path, dynamic_shapes=sizes, capture=capture)


def asserts_and_branches(x: torch.Tensor) -> torch.Tensor:
    assert (x > -1).all()
    return x * 2 if x.sum() > 0 else x


def test_a_check_is_not_read_for_one_size_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "m.onnx"
    with pytest.warns(TraceWarning):
        opbridge.export(asserts_and_branches, (X[:1],), path, dynamic_shapes=ROWS, capture="trace")
    opbridge.verify(path, asserts_and_branches, (X,))
