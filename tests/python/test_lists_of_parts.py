"""Lists of tensors that differ in size along one axis, which loops over a dynamic axis make."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees_without_warnings
from torch.nn.utils.rnn import pad_sequence

import opbridge

SHAPES = [[(7, 4)], [(1, 4)], [(3, 4)], [(6, 4)], [(13, 4)]]
ROWS = ({0: "n"},)


def lengths(x: torch.Tensor) -> Any:
    parts = [row[row > 0] for row in x]
    numbers = [len(part) for part in parts]
    return torch.tensor(numbers), max(part.shape[0] for part in parts) - min(numbers), len(parts)


def padded_rows(x: torch.Tensor) -> Any:
    parts = [row[row > 0] for row in x.abs() - 0.1]
    return pad_sequence(parts, batch_first=True), pad_sequence(parts, padding_value=-7.0)


def padded_indices(x: torch.Tensor) -> Any:
    return pad_sequence([torch.nonzero(row.abs() > 0)[:, 0] for row in x], True, -1)


def padded_with_others(x: torch.Tensor) -> Any:
    parts = [x[:2], x[1:2]]
    for part in x.split(3):
        parts.append(part * 2)
    parts += [x[: i + 1] for i in range(x.shape[0])]
    return pad_sequence(parts, batch_first=True), len(parts)


def loop_over_them(x: torch.Tensor) -> Any:
    parts = []
    for row in x:
        parts.append(row[row > 0])
    total = x.sum() * 0
    for i, part in enumerate(parts):
        total = total * 0.5 + part.sum() * i
    return total, sum(part.sum() for part in parts), torch.cat([part.flip(0) for part in reversed(parts)])


def two_at_once(x: torch.Tensor) -> Any:
    before = [x[: i + 1] for i in range(x.shape[0])]
    after = [x[i:] for i in range(x.shape[0])]
    return torch.stack([one.sum(0) * other.mean(0) for one, other in zip(before, after, strict=True)])


def some_of_them(x: torch.Tensor) -> Any:
    parts = [part * 2 for part in x.split(3)]
    middle, last = parts[len(parts) // 2], parts[x.shape[0] // 3 - 1 + (x.shape[0] % 3 + 2) // 3]
    return parts[0] + 1, parts[-1] * 2, middle, last, torch.cat([*parts[:-1], x]), len(parts[1:]), torch.cat(parts[-2:])


def chosen_by_data(x: torch.Tensor) -> Any:
    parts = []
    for row in x:
        if row.sum() > 0:
            parts.append(row[row > 0])
    parts.append(x[0])
    total = x.sum() * 0
    for part in parts:
        total = total * 0.5 + part.sum()
    return total, len(parts), pad_sequence(parts, True)


def chosen_length(x: torch.Tensor) -> Any:
    parts = [x[0]]
    for row in x:
        part = row[row > 0]
        if part.shape[0] > 1:
            parts.append(part)
        else:
            parts.append(row)
    return pad_sequence(parts, True)


def parts_of_parts(x: torch.Tensor) -> Any:
    joined = []
    for part in x.split(3):
        rows = []
        for row in part:
            rows.append(row[row > 0])
        joined.append(torch.cat(rows))
    return torch.cat(joined), len(joined)


def two_sizes(x: torch.Tensor) -> Any:
    parts = []
    for row in x:
        parts.append(row.cumsum(0))
        parts.append(row[:1])
    return torch.cat(parts), pad_sequence(parts, True), len(parts)


def columns(x: torch.Tensor) -> Any:
    parts = [x.T[:, i : i + 2] for i in range(0, x.shape[0], 2)]
    return torch.cat(parts, 1), parts[-1], torch.stack([part.sum(1) for part in parts])


PROGRAMS = [
    lengths,
    padded_rows,
    padded_indices,
    padded_with_others,
    loop_over_them,
    two_at_once,
    some_of_them,
    chosen_length,
    parts_of_parts,
    two_sizes,
    columns,
]


@CAPTURES
@pytest.mark.parametrize("function", PROGRAMS)
def test_items_of_several_sizes(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(function, SHAPES, ROWS, capture, tmp_path)


def test_data_choose_the_items(tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(chosen_by_data, SHAPES, ROWS, "export", tmp_path)


class LengthRegulator(torch.nn.Module):
    """As in FastSpeech (https://arxiv.org/abs/1905.09263): each phoneme lasts as many frames as its duration says."""

    def forward(self, x: torch.Tensor, durations: torch.Tensor) -> torch.Tensor:
        frames = [torch.repeat_interleave(phonemes, each, 0) for phonemes, each in zip(x, durations, strict=True)]
        return pad_sequence(frames, batch_first=True)


@CAPTURES
def test_a_length_regulator(capture: Any, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model, path = LengthRegulator(), tmp_path / "model.onnx"
    runs = [(torch.rand(b, n, 3), torch.randint(1, 4, (b, n))) for b, n in [(2, 5), (1, 3), (4, 2)]]
    opbridge.export(model, runs[0], path, dynamic_shapes=({0: "b", 1: "n"},) * 2, capture=capture)
    for args in runs:
        opbridge.verify(path, model, args)


def written_before(x: torch.Tensor) -> Any:
    parts = [part * 2 for part in x.split(3)]
    parts[0].add_(5)
    return torch.cat(parts)


def written_after(x: torch.Tensor) -> Any:
    y = x * 1
    parts = [part for part in y.split(3)]  # noqa: C416
    y += 1
    return torch.cat(parts)


def written_in_a_loop(x: torch.Tensor) -> Any:
    parts = [part * 2 for part in x.split(3)]
    for part in parts:
        part.mul_(3)
    return torch.cat(parts)


def ordered(x: torch.Tensor) -> Any:
    return torch.cat(sorted([row[row > 0] for row in x], key=len))


@CAPTURES
@pytest.mark.parametrize("function", [written_before, written_after, written_in_a_loop, ordered])
def test_what_a_copy_of_the_list_would_not_do_is_refused(function: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=r"writes to a tensor|can only be extended"):
        opbridge.export(function, (torch.rand(7, 4),), tmp_path / "m.onnx", dynamic_shapes=ROWS, capture=capture)


def if_there_are_any(x: torch.Tensor) -> Any:
    parts = []
    for row in x:
        if row.sum() > 0:
            parts.append(row[row > 0])
    chosen = torch.cat(parts) if parts else x[0]
    if not parts:
        x = -x
    return chosen, x * (2 if len(parts) > 1 else 3)


def test_whether_there_are_items(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.onnx"
    opbridge.export(if_there_are_any, (torch.rand(3, 4),), path, dynamic_shapes=ROWS, capture="export")
    for x in (-torch.rand(1, 4), torch.rand(1, 4), torch.rand(5, 4) - 0.5, -torch.rand(4, 4)):
        assert opbridge.verify(path, if_there_are_any, (x,)).ok
