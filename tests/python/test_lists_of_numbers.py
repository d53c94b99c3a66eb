"""Lists with as many items as a dynamic size says that a function makes without a loop of its own, or of numbers."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees_without_warnings
from loops_check import DYNAMIC, SHAPES, Model, refuses
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


def lengths(self: Any, x: torch.Tensor) -> Any:
    n, rows = x.shape[1], x.shape[0]
    return torch.tensor([n] * rows), torch.LongTensor(rows * [n]), torch.tensor([len(row) for row in x])


def element_types(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1]
    return (
        torch.tensor([0.1] * n),
        torch.tensor([0.1] * n, dtype=torch.float64),
        torch.tensor([True] * n),
        torch.Tensor([2] * n),
        torch.as_tensor([1, 0.5] * n),
        x.new_tensor([2] * n),
        torch.tensor([i / 2 for i in range(n)]),
        torch.tensor([(i, 2 * i) for i in range(n)], dtype=torch.int32),
    )


def joined(self: Any, x: torch.Tensor) -> Any:
    ones = [1]
    ones += [3] * x.shape[1]
    return torch.tensor([0] * x.shape[0] + [1] * x.shape[1] + [0.5]), torch.tensor(ones)


def numbers_of_steps(self: Any, x: torch.Tensor) -> Any:
    offsets, places = [0], []
    for i, row in enumerate(x):
        offsets.append(offsets[-1] + row.shape[0])
        places.append(i // 2 if i > 1 else 7)
    return torch.tensor(offsets), torch.tensor(places)


def assigned(self: Any, x: torch.Tensor) -> Any:
    made = [0] * x.shape[1]
    for i in range(x.shape[1]):
        made[i] = i * 3
    return torch.tensor(made)


def read_where_all_are_the_same(self: Any, x: torch.Tensor) -> Any:
    ends = [x.shape[1] - 1] * x.shape[0]
    parts = [row[:end].sum(0) for row, end in zip(x, ends, strict=True)]
    return torch.stack(parts) * max(ends) + sum(ends) + len(ends) + ends[0]


def fewer_than_none(self: Any, x: torch.Tensor) -> Any:
    return torch.tensor([1] * (x.shape[1] - 5), dtype=torch.int64)


def of_tensors(self: Any, x: torch.Tensor) -> Any:
    return torch.stack([x.sum(1)] * x.shape[1], 1), torch.cat([x] * x.shape[0])


def packed(self: Any, x: torch.Tensor) -> Any:
    sequence = pack_padded_sequence(x, [x.shape[1]] * x.shape[0], batch_first=True)
    return pad_packed_sequence(sequence, batch_first=True)[0] * 2


def padded(self: Any, x: torch.Tensor) -> Any:
    return pad_sequence([row * 2 for row in x], batch_first=True), pad_sequence(list(x))


def sums(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1]
    halves = sum((x[:, i] * 0.5 for i in range(n)), torch.zeros(6))
    return sum(x[:, i] * i for i in range(n)), sum([(x[:, i] > 0.5) for i in range(n)]), halves


def sums_of_packed(self: Any, x: torch.Tensor) -> Any:
    sequence = pack_padded_sequence(x, [x.shape[1]] * x.shape[0], batch_first=True)
    y = pad_packed_sequence(sequence, batch_first=True)[0]
    rows = []
    for i in range(y.shape[0]):
        rows.append(torch.softmax(y[i] @ y[i].t(), -1) @ y[i])
    attended = pad_sequence(rows, batch_first=True)
    return sum(attended[:, t] * (t + 1) for t in range(attended.shape[1]))


def sums_of_bytes(self: Any, x: torch.Tensor) -> Any:
    return sum((x[:, i] * 9).abs().to(torch.uint8) for i in range(x.shape[1]))


def listed(self: Any, x: torch.Tensor) -> Any:
    ones = ([0, 1],)
    columns = tuple(x[:, i] * i for i in range(x.shape[1]))
    return torch.stack(columns, 1), torch.stack(list(x.unbind(1))), torch.tensor(list(range(len(x)))) + len(list(*ones))


def ranges(self: Any, x: torch.Tensor) -> Any:
    rows, steps = range(x.shape[0]), range(x.shape[1] - 1, -1, -1)
    sums = []
    for row in rows:
        sums.append(x[row].sum() * row)
    return (
        torch.stack(sums),
        torch.tensor(rows),
        torch.LongTensor(steps),
        torch.as_tensor(range(2, x.shape[1] + 2), dtype=torch.float32),
        x * sum(rows),
        x * len(rows),
    )


def indices(self: Any, x: torch.Tensor) -> Any:
    last = (x[:, 0, 0].abs() * 100).long() % x.shape[1]
    written = x.clone()
    written[range(0, len(x), 2)] = 0
    written[range(len(x)), last] += 1
    return (
        x[range(len(x)), last],
        x[list(range(x.shape[0])), -1],
        x[:, range(x.shape[1] - 1)],
        x[list(reversed(range(len(x))))][:, [0] + list(range(1, x.shape[1]))],  # noqa: RUF005
        x[tuple(range(len(x))), 0],
        x[[0] * len(x)],
        x[[[i] for i in range(len(x))], [[0, -1]]],
        written,
    )


def of_lists(self: Any, x: torch.Tensor) -> Any:
    rows = []
    for i in range(x.shape[0]):
        row = [i, i]
        row[1] = i * i
        rows.append(row)
    pairs = [[i, i + 1] for i in range(x.shape[1])]
    return torch.tensor(pairs), torch.tensor(rows), torch.tensor([[1, 2]] * x.shape[0])


def from_data(self: Any, x: torch.Tensor) -> Any:
    return torch.tensor([row.sum().item() for row in x])


RIGHT = (
    lengths,
    element_types,
    joined,
    numbers_of_steps,
    assigned,
    read_where_all_are_the_same,
    fewer_than_none,
    of_tensors,
    packed,
    padded,
    sums,
    sums_of_packed,
    sums_of_bytes,
    listed,
    ranges,
    indices,
    of_lists,
    from_data,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(Model(run), SHAPES, DYNAMIC, capture, tmp_path)


def of_one_list(self: Any, x: torch.Tensor) -> Any:
    row = [0, 0]
    rows = [row] * x.shape[0]
    row[1] = 5
    return torch.tensor(rows)


def of_a_list_that_changes(self: Any, x: torch.Tensor) -> Any:
    row, rows = [0], []
    for i in range(x.shape[0]):
        row[0] = i
        rows.append(row)
    return torch.tensor(rows)


def appended_to(self: Any, x: torch.Tensor) -> Any:
    made = [0] * x.shape[0]
    made.append(5)
    return torch.tensor(made)


def written_to(self: Any, x: torch.Tensor) -> Any:
    rows = [x[:, 0] * 1] * x.shape[1]
    rows[0].add_(1)
    return torch.stack(rows)


def compared(self: Any, x: torch.Tensor) -> Any:
    return x * 2 if [7] * x.shape[0] != [7, 7] else x


def repeated_again(self: Any, x: torch.Tensor) -> Any:
    return torch.tensor([1, 2] * x.shape[0] * 2)


def sizes(self: Any, x: torch.Tensor) -> Any:
    return torch.zeros([1] * x.shape[0])


def of_lists_held_twice(self: Any, x: torch.Tensor) -> Any:
    rows, row = [], [0, 0]
    for i in range(x.shape[0]):
        row = [i, i]
        rows.append(row)
    row[0] = 9
    return torch.tensor(rows)


def of_lists_of_another_list(self: Any, x: torch.Tensor) -> Any:
    first = [[0, 0]]
    rows = first + [[i, i] for i in range(x.shape[0])]
    first[0][0] = 9
    return torch.tensor(rows)


def number_for_each_axis(self: Any, x: torch.Tensor) -> Any:
    return x[tuple(range(x.shape[0]))]


def numbers_for_some_axes(self: Any, x: torch.Tensor) -> Any:
    return x[(0,) + tuple([0] * x.shape[0])]  # noqa: RUF005


def tuple_for_each_axis(self: Any, x: torch.Tensor) -> Any:
    return x[[(0, 1) for _ in range(x.shape[0])]]


REFUSED = (
    of_one_list,
    of_a_list_that_changes,
    appended_to,
    written_to,
    compared,
    repeated_again,
    sizes,
    of_lists_held_twice,
    of_lists_of_another_list,
    number_for_each_axis,
    numbers_for_some_axes,
    tuple_for_each_axis,
)


@CAPTURES
@pytest.mark.parametrize("run", REFUSED, ids=lambda run: run.__name__)
def test_refuses_other_lists(run: Callable[..., Any], capture: Any, tmp_path: pathlib.Path) -> None:
    why = "a list with as many items|a list that a loop fills|outside of the loop|the model fixes it"
    refuses(run, why, capture, tmp_path)
