"""The loss of connectionist temporal classification, in both hosts and as the export of PyTorch's operator."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from lowering_check import Function, check
from operator_models import in_both_hosts, refused_by_both_hosts, scratch_in_torch

import opbridge
from opbridge.runtime import run, session

ctc_loss = torch.nn.functional.ctc_loss


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    opbridge.load_operators()


def inputs(dtype: type = np.float64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = torch.tensor(rng.normal(size=(12, 3, 6)).astype(dtype))
    return {
        "log_probs": scores.log_softmax(-1).numpy(),
        "targets": rng.integers(1, 6, (3, 5)),
        "input_lengths": np.array([12, 11, 7]),
        "target_lengths": np.array([5, 3, 4]),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_padded_targets(dtype: type) -> None:
    given = inputs(dtype)
    given["targets"][0, :4] = 2  # equal neighbours need a blank between them
    expected = ctc_loss(*map(torch.tensor, given.values()), reduction="none")
    np.testing.assert_allclose(in_both_hosts("ctc_loss", given)[0], expected, rtol=1e-5)


def test_targets_in_a_row_and_another_blank() -> None:
    given = inputs() | {"targets": np.array([1, 2, 0, 5, 4, 1, 1, 2, 0, 4, 5, 1])}
    expected = ctc_loss(*map(torch.tensor, given.values()), blank=3, reduction="none")
    np.testing.assert_allclose(in_both_hosts("ctc_loss", given, blank=3)[0], expected)


def test_against_all_alignments() -> None:
    log_probs = torch.randn(4, 1, 3, dtype=torch.float64).log_softmax(-1).numpy()
    total = 0.0
    for path in itertools.product(range(3), repeat=4):
        merged = [label for label, _ in itertools.groupby(path) if label != 0]
        if merged == [1, 2]:
            total += np.exp(sum(log_probs[t, 0, label] for t, label in enumerate(path)))
    given = {
        "log_probs": log_probs,
        "targets": np.array([[1, 2]]),
        "input_lengths": np.array([4]),
        "target_lengths": np.array([2]),
    }
    np.testing.assert_allclose(in_both_hosts("ctc_loss", given)[0], [-np.log(total)])


def test_no_labels_no_time_and_no_alignment() -> None:
    given = inputs() | {"input_lengths": np.array([12, 0, 3]), "target_lengths": np.array([0, 2, 5])}
    losses = in_both_hosts("ctc_loss", given)[0]
    np.testing.assert_allclose(losses[0], -given["log_probs"][:, 0, 0].sum())
    np.testing.assert_array_equal(losses[1:], np.inf)
    empty = {name: array[:, :0] if name == "log_probs" else array[:0] for name, array in inputs().items()}
    assert in_both_hosts("ctc_loss", empty)[0].shape == (0,)


@pytest.mark.parametrize(("times", "at"), [(1, 0), (4, 0), (4, 2), (4, 3)])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_nan_is_not_lost(times: int, at: int, label: int) -> None:
    log_probs = torch.randn(times, 1, 3, dtype=torch.float64).log_softmax(-1)
    log_probs[at, 0, label] = np.nan
    given = [log_probs, torch.tensor([[1]]), torch.tensor([times]), torch.tensor([1])]
    names = ("log_probs", "targets", "input_lengths", "target_lengths")
    (out,) = in_both_hosts("ctc_loss", {name: x.numpy() for name, x in zip(names, given, strict=True)})
    np.testing.assert_allclose(out, ctc_loss(*given, reduction="none"))


def test_scratch_does_not_grow_with_the_batch() -> None:
    def scratch(batch: int) -> int:
        log_probs, targets = torch.zeros(50, batch, 2), torch.ones(batch, 500, dtype=torch.int64)
        lengths = torch.full((2, batch), 50)
        return scratch_in_torch(lambda: torch.ops.opbridge.ctc_loss(log_probs, targets, *lengths))

    assert scratch(40) < 4 * scratch(1)


def exported(function: Function, *args: torch.Tensor, path: Any) -> None:
    class Model(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
            return function(*tensors)

    opbridge.export(Model(), args, path, capture="trace")
    running = session(path)
    names = [value.name for value in running.get_inputs()]
    (actual,) = run(running, dict(zip(names, args, strict=True)))
    torch.testing.assert_close(actual, function(*args))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_what_an_export_makes_of_it(tmp_path: Any, reduction: str, zero_infinity: bool) -> None:
    given = [torch.tensor(array) for array in inputs(np.float32).values()]
    given[2][2] = 3  # too short for its labels
    options = {"reduction": reduction, "zero_infinity": zero_infinity}
    path = tmp_path / "model.onnx"
    exported(lambda *tensors: ctc_loss(*tensors, **options), *given, path=path)
    exported(lambda x, t: ctc_loss(x, t, (12, 12, 7), (5, 5, 1), **options), *given[:2], path=path)
    exported(lambda x, t: ctc_loss(x[:, 0], t[0], (12,), (5,), **options), *given[:2], path=path)


HOSTILE: dict[str, tuple[dict[str, np.ndarray], int]] = {
    "blank must be one of the classes": ({}, 6),
    "input_lengths must be from 0 to 12": ({"input_lengths": np.array([13, 1, 1])}, 0),
    "input_lengths must be": ({"input_lengths": np.array([-1, 1, 1])}, 0),
    "target_lengths must be": ({"target_lengths": np.array([6, 1, 1])}, 0),
    "target_lengths must be from 0": ({"targets": np.ones(11, np.int64)}, 0),
    "targets must be from 0": ({"targets": np.full((3, 5), 6)}, 0),
    "targets must be": ({"targets": np.full((3, 5), -1)}, 0),
    "a row for each sequence": ({"targets": np.ones((2, 5), np.int64)}, 0),
    "input_lengths must have the shape": ({"input_lengths": np.array([1, 1])}, 0),
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_arguments(message: str) -> None:
    changed, blank = HOSTILE[message]
    refused_by_both_hosts(message, "ctc_loss", inputs() | changed, blank=blank)


@pytest.mark.parametrize("zero_infinity", [False, True])
def test_gradient_of_infinite_losses(zero_infinity: bool) -> None:
    """Also where the gradient of the loss is 0."""
    log_probs = torch.randn(4, 3, 4).log_softmax(-1)
    targets, lengths, counts = torch.tensor([[1, 1], [1, 2], [2, 2]]), torch.tensor([2, 3, 2]), torch.tensor([2, 2, 2])
    losses, alpha = torch.ops.aten._ctc_loss.Tensor(log_probs, targets, lengths, counts, 0, zero_infinity)

    def model(grad: torch.Tensor, losses: torch.Tensor) -> Any:
        return torch.ops.aten._ctc_loss_backward.Tensor(
            grad, log_probs, targets, lengths, counts, losses, alpha, 0, zero_infinity
        )

    check(model, torch.tensor([0.0, 1.0, 2.0]), losses)
