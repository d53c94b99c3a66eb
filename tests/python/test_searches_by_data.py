"""``any``, ``all``, ``next`` and ``match`` by data, and the bools that data decide, as nodes of the graph."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from dynamic_check import agrees_on

import opbridge

ROWS = ({0: "n"},)


def inputs() -> list[torch.Tensor]:
    """Tensors [n, 4]; the first is the example."""
    generator = torch.Generator().manual_seed(0)
    scales = [(2, 1.0), (2, 0.0), (2, 0.2), (2, 0.6), (2, 1.4), (2, 3.0), (2, 7.0), (1, 1.0), (5, 1.2), (7, 0.8)]
    return [torch.rand(rows, 4, generator=generator) * scale for rows, scale in scales]


def agrees(function: Callable[..., Any], folder: pathlib.Path, dynamic: Any = None) -> None:
    agrees_on(function, inputs(), folder, dynamic)


def any_of_two(x: Any) -> Any:
    if any(row.sum() > 2 for row in (x[0], x[1])):
        return x * 2
    return x


def all_columns(x: Any) -> Any:
    return x * 2 if all((column > 0.1).all() for column in x.unbind(1)) else x


def any_of_list(x: Any) -> Any:
    hits = [row.sum() > 2 for row in (x[0], x[1])]
    if any(hits):
        return x * 2
    return x


def any_and_all(x: Any) -> Any:
    if any((row > 1).any() for row in x.unbind(0)) and all(column.min() >= 0.3 for column in x.unbind(1)):
        x = x * 2
    elif not any(value > 0.3 for value in x[0]):
        x = x - 1
    else:
        x = x + 1
    return x


def behind_another_condition(x: Any) -> Any:
    if x.sum() < 1 or all(row.sum() > 2 for row in (x[0], x[1])):
        return x * 2
    return x


def with_its_name_used_elsewhere(x: Any) -> Any:
    row = x * 2
    hit = any(row.sum() > 3 for row in (x[0], x[1]))
    return row if hit else row * 3


def one_in_the_other(x: Any) -> Any:
    hit = any(all(value > 0.2 for value in row) for row in (x[0], x[1]))
    return x if hit else x * 3


def of_a_comprehension(x: Any) -> Any:
    hit = any(sum(value for value in row) > 3 for row in (x[0], x[1]))
    return x if hit else x * 3


def while_all(x: Any) -> Any:
    steps = 0
    while any(value > 0.2 for value in x[0]) and steps < 20:
        x = x * 0.7
        steps += 1
        if x.sum() < 0.5:
            continue
        x = x * 0.9
    return x, steps


def in_a_constant_loop(x: Any) -> Any:
    for _ in range(3):
        if any(value > 1 for value in x[0]):
            break
        x = x * 1.5
    return x


def named(x: Any) -> Any:
    if hit := any(value > 1 for value in x[0]):
        x = x * 2
    return x if hit else x + 1


def first_row(x: Any) -> Any:
    return x * next((i for i, row in enumerate((x[0], x[1])) if row.sum() > 2), -1)


def of_constants_beside_a_branch(x: Any) -> Any:
    if any(i > 2 for i in range(4)) and all(isinstance(each, torch.Tensor) for each in (x, x[0])):
        x = x * 2
    if x.sum() > 2:
        x = x + 1
    return x


def checked(x: Any) -> Any:
    assert all(row.min() >= -9 for row in (x[0], x[1]))
    if any(column.max() > 99 for column in x.unbind(1)):
        raise ValueError("too large")
    return x * 2


CONSTANT = (
    any_of_two,
    all_columns,
    any_of_list,
    any_and_all,
    behind_another_condition,
    with_its_name_used_elsewhere,
    one_in_the_other,
    of_a_comprehension,
    while_all,
    in_a_constant_loop,
    named,
    first_row,
    of_constants_beside_a_branch,
    checked,
)


@pytest.mark.parametrize("run", CONSTANT, ids=lambda run: run.__name__)
def test_of_items(run: Any, tmp_path: pathlib.Path) -> None:
    agrees(run, tmp_path)


def any_row(x: Any) -> Any:
    if any(row.sum() > 2 for row in x):
        return x * 2
    return x


def any_row_of_some(x: Any) -> Any:
    if any(row.max() > 0.9 for row in x if row.sum() > 2):
        return x * 2
    return x


def any_index(x: Any) -> Any:
    if any(x[i].sum() > i for i in range(x.shape[0])):
        return x * 2
    return x


def next_row(x: Any) -> Any:
    return next((row * 2 for row in x if row.sum() > 2), x[0])


def next_index(x: Any) -> Any:
    return x * next((i for i, row in enumerate(x) if row.sum() > 2), -1)


def any_in_each_step(x: Any) -> Any:
    state = x[0]
    for t in range(x.shape[0]):
        state = state * 2 if any(value > 1 for value in x[t]) else state + x[t]
    return state


def a_loop_with_break_in_each_step(x: Any) -> Any:
    state = x[0]
    for t in range(x.shape[0]):
        hit = False
        for k in range(4):
            if x[t, k] > 1:
                hit = True
                break
        state = state * 2 if hit else state + x[t]
    return state


DYNAMIC = (
    any_row,
    any_row_of_some,
    any_index,
    next_row,
    next_index,
    any_in_each_step,
    a_loop_with_break_in_each_step,
)


@pytest.mark.parametrize("run", DYNAMIC, ids=lambda run: run.__name__)
def test_over_a_dynamic_axis(run: Any, tmp_path: pathlib.Path) -> None:
    agrees(run, tmp_path, ROWS)


def matched_number(x: Any) -> Any:
    count = int((x > 0.5).sum())
    match count:
        case 0:
            y = x
        case 1 | 2:
            y = x * 2
        case many if many > 5:
            y = x * many
        case some:
            y = x + some
    return y


def matched_bools(x: Any) -> Any:
    total = x.sum()
    match bool(total > 2), bool(total > 6):
        case (True, True):
            return x
        case (True, _):
            return x * 2
        case _:
            return x * 3


def matched_constants(x: Any) -> Any:
    match "wide" if x.shape[1] > 2 else "narrow":
        case "wide":
            y = x * 2
        case "narrow":
            y = x
    match x.shape:
        case (rows, columns):
            y = y * rows * columns
        case _:
            y = y - 1
    return y + 1 if y.sum() > 3 else y


@pytest.mark.parametrize("run", [matched_number, matched_bools, matched_constants], ids=lambda run: run.__name__)
def test_match(run: Any, tmp_path: pathlib.Path) -> None:
    agrees(run, tmp_path)


def test_patterns_of_bools_that_data_decide_are_refused(tmp_path: pathlib.Path) -> None:
    """Python compares these by identity."""

    def run(x: Any) -> Any:
        flags = [bool(x.sum() > 2), 3]
        match flags:
            case [True, number]:
                return x * number
            case _:
                return x

    with pytest.raises(opbridge.UnsupportedError, match="matches a bool that data decide"):
        opbridge.export(run, (torch.rand(2, 4),), tmp_path / "model.onnx")


def returned(x: Any) -> Any:
    found = False
    for value in x[0]:
        if value > 0.5:
            found = True
    return x, found, bool(x.sum() > 2), any(row.sum() > 2 for row in (x[0], x[1]))


def multiplied(x: Any) -> Any:
    flag = bool(x.sum() > 2)
    integers = torch.arange(4) * flag
    return x * flag, flag * x, integers, (x > 0.5) * flag, x**flag, x + flag


def counted(x: Any) -> Any:
    count = 0
    for value in x[0]:
        count += bool(value > 0.5)
    return x * count, count, sum(bool(value > 0.2) for value in x[1]), 3 - bool(x.sum() > 2), bool(x.sum() > 2) + 0.5


def converted(x: Any) -> Any:
    return x * int(bool(x.sum() > 2)), x + float(any(value > 1 for value in x[0]))


def as_tensors(x: Any) -> Any:
    flag = bool(x.sum() > 2)
    flags = torch.tensor([flag, True])
    return torch.tensor(flag), flags, torch.tensor([flag, 3]), torch.tensor(flag, dtype=torch.float32), x[:, :2][flags]


def compared(x: Any) -> Any:
    first, second = bool(x[0].sum() > 2), bool(x[1].sum() > 2)
    if first == second:
        x = x * 2
    if first > second:
        x = x + 1
    return x * (first != second)


@pytest.mark.parametrize(
    "run", [returned, multiplied, counted, converted, as_tensors, compared], ids=lambda run: run.__name__
)
def test_bools(run: Any, tmp_path: pathlib.Path) -> None:
    agrees(run, tmp_path)


def written_in_place(x: Any) -> Any:
    y = x.clone()
    same = y
    y += bool(x.sum() > 2)
    mask = x > 0.5
    mask[0, 0] = bool(x.sum() > 2)
    return same, mask


def compared_with_tensors(x: Any) -> Any:
    flag = bool(x.sum() > 2)
    return (x > 0.5) == flag, flag == (x > 0.5), (x > 0.5) != flag, x < flag, flag < x, torch.mul(x, flag)


def or_of_numbers(x: Any) -> Any:
    three = 3
    return x * (three and any(value > 0.7 for value in x[0])), x * (three or any(value > 0.7 for value in x[0]))


def in_order(x: Any) -> Any:
    first = 1
    values = (first, (first := 2), any(value > 0.7 for value in x[0]), first)
    y = x.clone()
    return x * values[0], x * values[2], x * values[3], y.sum(), any(y.mul_(2)[0, i] > 1.2 for i in range(3)), y


def of_flags(x: Any) -> Any:
    first, second = bool(x[0].sum() > 2), bool(x[1].sum() > 2)
    every, one = True, False
    for row in (x[0], x[1]):
        every = every and (row.sum() > 1)
        one = one or bool(row.sum() > 2)
    logic = [first and not second, first or second, (first and second) or (not first and not second)]
    return torch.tensor(logic), x * (2 if every else 3), one, x * (first is True and x.max() > 0.5)


def of_tensors(x: Any) -> Any:
    first, second = x[0].sum() > 2, x[1].sum() > 2
    return first and second, first or second, x * (2 if first and second else 3)


def _times(flag: bool, x: Any) -> Any:
    return x * 2 if flag is True else x * 3


def _unless(flag: bool, x: Any) -> Any:
    match flag:
        case False:
            return x * 2
        case _:
            return x * 3


def _found(x: Any) -> bool:
    return any(value > 0.7 for value in x[0])


def asked_by_identity(x: Any) -> Any:
    flag = bool(x.sum() > 2)
    return _times(flag, x), _unless(flag, x), x * (flag is False), x * (2 if type(flag) is bool else 3)


def returned_and_asked_by_identity(x: Any) -> Any:
    flag = _found(x)
    return x * 2 if flag is not True else x * 3


@pytest.mark.parametrize(
    "run",
    [
        written_in_place,
        compared_with_tensors,
        or_of_numbers,
        of_flags,
        of_tensors,
        in_order,
        asked_by_identity,
        returned_and_asked_by_identity,
    ],
    ids=lambda run: run.__name__,
)
def test_bools_in_python(run: Any, tmp_path: pathlib.Path) -> None:
    agrees(run, tmp_path)


def test_a_function_within_that_asks_by_identity(tmp_path: pathlib.Path) -> None:
    def run(x: Any) -> Any:
        flag = bool(x.sum() > 2)

        def factor() -> int:
            return 2 if flag is True else 3

        return x * factor()

    agrees(run, tmp_path)


def sizes_asked_by_identity(x: Any) -> Any:
    always, never = True, False
    few, none = always and x.shape[0] < 4, never or x.shape[0] < 2
    if x.sum() > 2:
        x = x + 1
    match x.shape[0] < 6:
        case True:
            x = x - 3
        case False:
            x = x + 3
    return x * 2 if few is True else x * 3, x + 1 if none is not False else x, _times(few, x)


def sizes_and_data(x: Any) -> Any:
    few = x.sum() > 1 and x.shape[0] < 4
    many = x.shape[0] >= 4 or x.sum() > 1
    small = any(size < 3 for size in x.shape)
    return x * 2 if few else x * 3, x * many, x * 2 if small is True else x


@pytest.mark.parametrize("run", [sizes_asked_by_identity, sizes_and_data], ids=lambda run: run.__name__)
def test_sizes_beside_data(run: Any, tmp_path: pathlib.Path) -> None:
    agrees(run, tmp_path, ROWS)
