"""Lists whose length data decide, as tensors of their items."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from test_loops_of_data import DYNAMIC, agrees, inputs
from torch import nn

import opbridge


def in_one_way(x: Any, k: Any) -> Any:
    outputs = []
    if x.sum() > 0:
        outputs.append(x)
    outputs.append(x * 2)
    return torch.stack(outputs)


def of_several_lengths(x: Any, k: Any) -> Any:
    outputs = [x]
    if x.sum() > 0:
        outputs.append(x * 3)
    else:
        outputs = [x, x, x + 1]
    return torch.cat(outputs)


def of_items(x: Any, k: Any) -> Any:
    found = []
    for each in k:
        if each > 2:
            found.append(each)
    if len(found) == 0:
        return torch.zeros(0, dtype=torch.long)
    return torch.stack(found)


def two_lists(x: Any, k: Any) -> Any:
    a, b = [x.mean()], [x.sum()]
    for i in range(k.shape[0]):
        if k[i] > 2:
            a.append(x.sum() * i)
        else:
            b.append(x.mean() * k[i])
    return torch.stack(a), torch.stack(b)


def of_numbers(x: Any, k: Any) -> Any:
    kept = [0]
    for i in range(k.shape[0]):
        if k[i] > 2:
            kept.append(i)
    return torch.tensor(kept), x[kept[:1]]


def of_pairs(x: Any, k: Any) -> Any:
    pairs = [(0, 0)]
    for i in range(k.shape[0]):
        if k[i] > 2:
            pairs.append((i, i + 1))
    return torch.tensor(pairs)


def indexes(x: Any, k: Any) -> Any:
    kept = []
    for i in range(x.shape[0]):
        if x[i] > -9:
            kept.append(i)
    return x[kept]


def collapses(x: Any, k: Any) -> Any:
    """Decodes by connectionist temporal classification: no blanks, and no repetitions."""
    labels, before = [], -1
    for i in range(k.shape[0]):
        if k[i] != before and k[i] != 0:
            labels.append(k[i])
        before = k[i]
    if not labels:
        return k[:0]
    return torch.stack(labels)


def suppresses(x: Any, k: Any) -> Any:
    order, kept = x.argsort(), []
    while order.numel() > 0:
        first = order[0]
        kept.append(first)
        if order.numel() == 1:
            break
        rest = order[1:]
        order = rest[(x[rest] - x[first]).abs() > 0.5]
    return torch.stack(kept)


def reads_numbers(x: Any, k: Any) -> Any:
    order, kept = x.argsort(), []
    while len(order) > 0:
        kept.append(order[0].item())
        order = order[1:][(x[order[1:]] - x[order[0]]).abs() > 0.5]
    return torch.tensor(kept)


def of_while(x: Any, k: Any) -> Any:
    history = [x]
    while x.norm() > 1:
        x = x * 0.5
        history.append(x)
    return torch.stack(history), len(history)


def generates(x: Any, k: Any) -> Any:
    tokens = [k[0]]
    for _ in range(10):
        new = (tokens[-1] * 7 + 3) % 11
        tokens.append(new)
        if new == 0:
            break
    return torch.stack(tokens)


def generates_while(x: Any, k: Any) -> Any:
    tokens = [k[0]]
    while tokens[-1] != 0 and len(tokens) < 9:
        tokens.append((tokens[-1] * 7 + 3) % 11)
    return torch.stack(tokens)


def segments(x: Any, k: Any) -> Any:
    means, start = [], 0
    for i in range(1, x.shape[0]):
        if x[i] * x[i - 1] < 0:
            means.append(x[start:i].mean())
            start = i
    means.append(x[start:].mean())
    return torch.stack(means)


def runs(x: Any, k: Any) -> Any:
    lengths, length = [], 1
    for i in range(1, k.shape[0]):
        if k[i] == k[i - 1]:
            length = length + 1
        else:
            lengths.append(length)
            length = 1
    lengths.append(length)
    return torch.tensor(lengths)


def unpacks(x: Any, k: Any) -> Any:
    rows = [x]
    for each in k:
        if each > 2:
            rows = [*rows, x * each, -x]
    return torch.stack(rows)


def filters(x: Any, k: Any) -> Any:
    places = [i for i in range(k.shape[0]) if k[i] > 2 or i == 0]
    return k[places], torch.stack([x * each for each in k if each > 0 and each < 6] + [x])


def is_read_while_it_grows(x: Any, k: Any) -> Any:
    rows, total = [x[0]], torch.zeros(())
    for i in range(k.shape[0]):
        if k[i] > 2:
            rows.append(torch.stack(rows).sum() * len(rows))
        else:
            total = total + torch.stack(rows).mean()
            rows = [x[0]]
    return torch.stack(rows), total


def of_numbers_of_data(x: Any, k: Any) -> Any:
    found = [1.0]
    for i in range(k.shape[0]):
        if k[i] > 2:
            found.append(float(x[0]) * i)
    return torch.tensor(found), sum(found)


def are_exchanged(x: Any, k: Any) -> Any:
    a, b = [x], [x * 2]
    for i in range(3):
        if k[0] > i:
            a, b = b, a
        a.append(x * i)
    return torch.stack(a), torch.stack(b)


def are_exchanged_by_steps(x: Any, k: Any) -> Any:
    a, b = [x], [x * 2]
    for i in range(k.shape[0]):
        if k[i] > 2:
            a, b = b, a
        a.append(x * i)
    return torch.stack(a), torch.stack(b)


def adds(x: Any, k: Any) -> Any:
    rows: list[Any] = []
    for each in k:
        if each > 2:
            rows = rows + [x * each]  # noqa: RUF005
        rows += [x]
    return torch.cat(rows), torch.tensor([*range(k.shape[0]), 1])


def at_the_front(x: Any, k: Any) -> Any:
    rows = [x]
    for each in k:
        if each > 2:
            rows.insert(0, x * each)
    return torch.stack(rows)


def is_gone_through(x: Any, k: Any) -> Any:
    found = []
    for each in k:
        if each > 2:
            found.append(each)
    total = torch.zeros(())
    for each in found:
        total = total + each * x.sum()
    return total, sum(found, torch.tensor(0))


def in_a_constant_loop(x: Any, k: Any) -> Any:
    rows = []
    for i in range(4):
        if x.sum() > i:
            rows.append(x * i)
    rows.append(x)
    return torch.stack(rows), len(rows)


def of_constant_length(x: Any, k: Any) -> Any:
    cache = [x, x * 2]
    named = {"a": x, "b": x + 1}
    while cache[0].norm() > 1:
        cache[0] = cache[0] * 0.5
        cache[1] = cache[1] + 1
        named["a"] = named["b"] * 0.5
    return (*cache, *named.values())


def grows_in_loops_in_turn(x: Any, k: Any) -> Any:
    rows = [x]
    for each in k:
        rows.append(x * each)
    while x.norm() > 1:
        x = x * 0.5
        rows.append(x)
    for each in k:
        y = x * each
        while y.norm() > 1:
            y = y * 0.5
            rows.append(y)
    if k[0] > 2:
        rows.append(x)
    return torch.stack(rows)


@pytest.mark.parametrize(
    "function",
    [
        in_one_way,
        of_several_lengths,
        of_items,
        two_lists,
        of_numbers,
        of_pairs,
        indexes,
        collapses,
        suppresses,
        reads_numbers,
        of_while,
        generates,
        generates_while,
        segments,
        runs,
        unpacks,
        filters,
        is_read_while_it_grows,
        of_numbers_of_data,
        are_exchanged,
        are_exchanged_by_steps,
        adds,
        at_the_front,
        is_gone_through,
        in_a_constant_loop,
        of_constant_length,
        grows_in_loops_in_turn,
    ],
    ids=lambda function: function.__name__,
)
def test_lists(function: Any, tmp_path: pathlib.Path) -> None:
    agrees(function, tmp_path, inputs(), DYNAMIC)


class Exits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))

    def forward(self, x: Any) -> Any:
        outputs = []
        for layer, threshold in zip(self.layers, (0.1, 0.2, 0.3, 0.4), strict=True):
            x = layer(x)
            outputs.append(x)
            if x.std() < threshold:
                break
        return torch.stack(outputs).mean(0)


def test_outputs_of_the_layers_before_an_exit(tmp_path: pathlib.Path) -> None:
    generator = torch.Generator().manual_seed(0)
    of = [(torch.randn(n, 3, generator=generator) * scale,) for n, scale in ((5, 1), (5, 0.1), (9, 4), (2, 0.5))]
    agrees(Exits(), tmp_path, of, ({0: "n"},))


def is_held_twice(x: Any, k: Any) -> Any:
    rows = [x]
    same = rows
    if x.sum() > 0:
        rows.append(x * 2)
    return torch.stack(same)


def is_held_twice_in_a_step(x: Any, k: Any) -> Any:
    rows = [x]
    for each in k:
        same = rows
        if each > 2:
            same.append(x * 2)
    return torch.stack(rows)


def is_held_twice_in_a_loop(x: Any, k: Any) -> Any:
    rows = [x]
    same = rows
    while x.norm() > 1:
        x = x * 0.5
        rows.append(x)
    return torch.stack(same)


def is_held_twice_in_a_constant_loop(x: Any, k: Any) -> Any:
    rows = [x]
    same = rows
    for i in range(4):
        if k[0] > i:
            rows.append(x * i)
    return torch.stack(same)


def is_held_twice_in_a_constant_branch(x: Any, k: Any) -> Any:
    rows, has_rows = [x], True
    same = rows
    if has_rows and k[0] > 2:
        rows.append(x * 2)
    while has_rows:
        has_rows = False
        if k[0] > 2:
            rows.append(x * 2)
    return torch.stack(same)


def is_held_twice_from_a_step_on(x: Any, k: Any) -> Any:
    rows, kept = [x], [x]
    for i in range(4):
        if k[0] > i:
            rows.append(x * i)
        if i == 1:
            kept = rows
    return torch.stack(kept)


class Holder:
    rows: Any = None


def is_held_by_an_object(x: Any, k: Any) -> Any:
    rows, holder = [x], Holder()
    holder.rows = rows
    for i in range(4):
        if k[0] > i:
            rows.append(x * i)
    return torch.stack(holder.rows)


def may_be_another(x: Any, k: Any) -> Any:
    a, b = [x], [x * 2]
    if k[0] > 2:
        b = a
    b.append(x)
    return torch.stack(a)


def becomes_another_in_a_dict(x: Any, k: Any) -> Any:
    a, lists = [x], {"b": [x * 2]}
    for _ in range(k.shape[0]):
        lists["b"] = a
    lists["b"].append(x)
    return torch.stack(a)


class MayBeOfTheModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kept = [torch.ones(()), torch.ones(())]

    def forward(self, x: Any, k: Any) -> Any:
        items = [x[0], x[0]]
        if k[0] > 2:
            items = self.kept
        items[0] = x[0] * 3
        return torch.stack(self.kept)


def has_last_item_that_changes(x: Any, k: Any) -> Any:
    y = x * 1
    rows = [y]
    while x.norm() > 1:
        x = x * 0.5
        rows.append(x)
    rows[0].mul_(0)
    return torch.stack(rows), y


def has_items_that_change(x: Any, k: Any) -> Any:
    y, rows = x.clone(), []
    for i in range(y.shape[0]):
        if y[i] > -9:
            rows.append(y[i])
    y.mul_(2)
    return torch.stack(rows)


def of_several_shapes(x: Any, k: Any) -> Any:
    rows = [x]
    for i in range(k.shape[0]):
        if k[i] > 2:
            rows.append(x[i:])
    return torch.cat(rows)


def of_several_types(x: Any, k: Any) -> Any:
    rows = [x[0]]
    for i in range(k.shape[0]):
        if k[i] > 2:
            rows.append(k[i])
    return torch.cat([each[None].double() for each in rows])


@pytest.mark.parametrize(
    "function",
    [
        is_held_twice,
        is_held_twice_in_a_step,
        is_held_twice_in_a_loop,
        is_held_twice_in_a_constant_loop,
        is_held_twice_in_a_constant_branch,
        is_held_twice_from_a_step_on,
        is_held_by_an_object,
        may_be_another,
        becomes_another_in_a_dict,
        MayBeOfTheModel(),
        has_last_item_that_changes,
        has_items_that_change,
        of_several_shapes,
        of_several_types,
    ],
    ids=lambda function: getattr(function, "__name__", type(function).__name__),
)
def test_refuses(function: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError):
        opbridge.export(function, inputs()[0], tmp_path / "model.onnx", dynamic_shapes=DYNAMIC)
