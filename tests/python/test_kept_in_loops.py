"""What objects keep from one step of a loop to the next, and what ways of a branch assign to them."""

from __future__ import annotations

import dataclasses
import pathlib
import queue
import types
from typing import Any

import numpy as np
import pytest
import torch
from dynamic_check import CAPTURES, agrees_without_warnings
from loops_check import DYNAMIC, SHAPES, Model, refuses

FOUND: dict[str, Any] = {}


class Kept:
    def __init__(self, h: torch.Tensor) -> None:
        self.h = h
        self.steps = 0

    def update(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        self.h = self.h * 0.5 + x
        return self.h


def kept_by_an_object(self: Any, x: torch.Tensor) -> Any:
    kept = Kept(torch.zeros(x.shape[0], 6))
    return torch.stack([kept.update(x[:, t]) for t in range(x.shape[1])], 1)


def counted_by_an_object(self: Any, x: torch.Tensor) -> Any:
    kept, h = Kept(x[:, 0]), x[:, 0]
    for t in range(x.shape[1]):
        kept.update(x[:, t])
        h = h + x[:, t] * kept.steps
    return h


def counted_and_read_afterwards(self: Any, x: torch.Tensor) -> Any:
    kept = Kept(x[:, 0])
    for _ in range(x.shape[1]):
        kept.steps += 1
    return x * kept.steps


def kept_in_a_dict(self: Any, x: torch.Tensor) -> Any:
    kept, h = {"steps": 0}, x[:, 0]

    def update() -> None:
        kept["steps"] += 1

    for t in range(x.shape[1]):
        update()
        h = h + x[:, t]
    return h * kept["steps"]


def exchanged_in_an_object(self: Any, x: torch.Tensor) -> Any:
    one, other, h = Kept(x[:, 0]), Kept(x[:, 0] * 2), x[:, 0]
    for t in range(x.shape[1]):
        one.h, other.h = other.h, one.h
        h = h + x[:, t]
    return h, one.h


def kept_by_the_module(self: Any, x: torch.Tensor) -> Any:
    self.h = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        self.h = self.h * 0.5 + x[:, t]
    return self.h


def aliases(self: Any, x: torch.Tensor) -> Any:
    self.one = self.other = torch.zeros(x.shape[0], 6)
    for t in range(x.shape[1]):
        self.one.add_(x[:, t])
        self.other.mul_(1.5)
    return self.one, self.other


def written_and_read_by_another_name(self: Any, x: torch.Tensor) -> Any:
    self.one, outputs = torch.zeros(x.shape[0], 6), []
    name = self.one
    for t in range(x.shape[1]):
        self.one.add_(x[:, t])
        outputs.append(name * 2)
    return torch.stack(outputs, 1), name, self.one


def reassigned_beside_another_name(self: Any, x: torch.Tensor) -> Any:
    self.one = torch.zeros(x.shape[0], 6)
    name = self.one
    for t in range(x.shape[1]):
        self.one = self.one + x[:, t]
    return name + 1, self.one


def numbers(self: Any, x: torch.Tensor) -> Any:
    self.count, self.scale, self.is_first, outputs = 0, 1.0, True, []
    for t in range(x.shape[1]):
        outputs.append(x[:, t] * self.scale * self.count + (1 if self.is_first else 2))
        self.count += 2
        self.scale *= 0.5
        self.is_first = False
    return torch.stack(outputs, 1) + self.count, self.scale * x


def none_at_first(self: Any, x: torch.Tensor) -> Any:
    self.h = None
    for t in range(x.shape[1]):
        if self.h is None:
            self.h = torch.zeros(x.shape[0], 6)
        self.h = self.cell(x[:, t], self.h)
    return self.h


def tuples_lists_and_dicts(self: Any, x: torch.Tensor) -> Any:
    self.state = torch.zeros(x.shape[0], 5), torch.zeros(x.shape[0], 5)
    self.both = [torch.zeros(x.shape[0], 6) for _ in self.layers]
    self.named = {"h": torch.ones(x.shape[0], 6)}
    for t in range(x.shape[1]):
        self.state = self.lstm(x[:, t], self.state)
        y = x[:, t]
        for i, layer in enumerate(self.layers):
            self.both[i] = layer(y, self.both[i])
            y = self.both[i]
        self.named["h"] = self.named["h"] * 0.5 + y
        self.named["last"] = y
    return *self.state, *self.both, self.named["h"], self.named["last"]


class Slots:
    __slots__ = ("h", "steps")


@dataclasses.dataclass
class Data:
    h: torch.Tensor
    steps: int = 0


def objects(self: Any, x: torch.Tensor) -> Any:
    slots, data = Slots(), Data(x[:, 0])
    slots.h, slots.steps = x[:, 0], 1
    for t in range(x.shape[1]):
        data.h, data.steps = self.cell(x[:, t], data.h), data.steps + 2
        slots.h, slots.steps = slots.h + data.h, slots.steps + 1
    return data.h * data.steps, slots.h * slots.steps


class Counter:
    count = 0

    def update_(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * 2


def of_a_variable(self: Any, x: torch.Tensor) -> Any:
    counter, outputs = Counter(), []
    for t in range(x.shape[1]):
        outputs.append(counter.update_(x[:, t]))
    return torch.stack(outputs, 1) * counter.count


def of_an_item(self: Any, x: torch.Tensor) -> Any:
    counters, y = {"a": Counter()}, x[:, 0]
    for _ in range(x.shape[1]):
        counters["a"] = counters["a"]
        y = counters["a"].update_(y) * 0.25
    return y * counters["a"].count


def of_a_class(self: Any, x: torch.Tensor) -> Any:
    Counter.count = 0
    h = x[:, 0]
    for t in range(x.shape[1]):
        Counter.count += 1
        h = h + x[:, t] * Counter.count
    return h * Counter.count


def of_a_global_variable(self: Any, x: torch.Tensor) -> Any:
    FOUND["n"], FOUND["h"] = 0, x[:, 0]
    for t in range(x.shape[1]):
        FOUND["n"] += 1
        FOUND["h"] = FOUND["h"] * 0.5 + x[:, t] * FOUND["n"]
    return FOUND["h"]


def of_a_namespace(self: Any, x: torch.Tensor) -> Any:
    kept = types.SimpleNamespace(h=x[:, 0], steps=0)
    for t in range(x.shape[1]):
        kept.h, kept.steps = kept.h * 0.5 + x[:, t], kept.steps + 1
    return kept.h * kept.steps


def of_a_function(self: Any, x: torch.Tensor) -> Any:
    def double(y: torch.Tensor) -> torch.Tensor:
        double.count += 1
        return y * 2

    double.count = 0
    return torch.stack([double(x[:, t]) for t in range(x.shape[1])], 1) * double.count


def lists_of_the_first_step(self: Any, x: torch.Tensor) -> Any:
    state, named = None, None
    for t in range(x.shape[1]):
        if state is None:
            state, named = [None, torch.zeros(x.shape[0], 6)], {"h": x[:, t]}
        state[0] = x[:, t]
        state[1] = self.cell(x[:, t], state[1])
        named["h"] = named["h"] * 0.5 + state[1]
    return state[0], state[1], named["h"]


class Rows:
    def __init__(self) -> None:
        self.rows: list[torch.Tensor] = []
        self.append: Any = None

    def add(self, row: torch.Tensor) -> None:
        self.rows.append(row)


def lists_that_grow(self: Any, x: torch.Tensor) -> Any:
    self.rows, self.named, kept = [], {"rows": [x[:, 0]]}, Rows()
    for t in range(x.shape[1]):
        self.rows.append(x[:, t] * 2)
        self.named["rows"].append(self.named["rows"][-1] * 0.5 + x[:, t])
        kept.add(self.rows[-1] + len(self.rows))
    self.rows.insert(0, x[:, 0] * 3)
    return torch.stack(self.rows), torch.stack(self.named["rows"]), torch.stack(kept.rows), len(kept.rows) * x


def lists_that_grow_in_some_steps(self: Any, x: torch.Tensor) -> Any:
    kept = Rows()
    for t in range(x.shape[1]):
        if t % 2 == 0:
            kept.add(x[:, t] * 2)
    return torch.stack(kept.rows)


def in_inner_loops(self: Any, x: torch.Tensor) -> Any:
    self.h, self.count = torch.zeros(x.shape[0], 6), 0
    for t in range(x.shape[1]):
        for i in range(x.shape[0]):
            self.h = self.h * 0.75 + x[:, t] * x[i, t]
            self.count += 1
        self.h = self.h + self.count
    return self.h


def in_branches_of_steps(self: Any, x: torch.Tensor) -> Any:
    self.h, self.count = torch.zeros(x.shape[0], 6), 0
    for t in range(x.shape[1]):
        if x[0, t].sum() > 0:
            self.h = self.h + x[:, t]
            self.count += 1
        else:
            self.h = self.h * 0.5
    return self.h * self.count


def in_ways(self: Any, x: torch.Tensor) -> Any:
    self.h, self.count, data = x[:, 0] + 0, 1, Data(x[:, 0])
    if x.sum() > 0:
        self.h.add_(1)
        self.count += 1
        data.h, data.steps = data.h * 2, 3
    return self.h * self.count, data.h + data.steps


def list_that_is_named_before_a_branch(self: Any, x: torch.Tensor) -> Any:
    self.rows, i = [x.mean()], 0
    while x.mean() * i < 2 and i < 4:
        i += 1
        self.rows.append(self.rows[-1] * 0.5 + i if self.rows else x.mean())
    return x * len(self.rows), torch.stack(self.rows)


def in_both_ways(self: Any, x: torch.Tensor) -> Any:
    if x.sum() > 0:
        self.kept = x * 2
    else:
        self.kept = x
    return self.kept + 1


def of_a_closure(self: Any, x: torch.Tensor) -> Any:
    scale = 1.0

    def increase() -> None:
        nonlocal scale
        scale += 1

    if x.sum() > 0:
        increase()
    return x * scale


def while_data_say(self: Any, x: torch.Tensor) -> Any:
    self.h, self.count = x[:, 0].abs() + 1, 0
    while self.h.sum() < 500:
        self.h = self.h * 1.5
        self.count += 1
    return self.h, x * self.count


def as_often_as_data_say(self: Any, x: torch.Tensor) -> Any:
    self.h, self.count = torch.zeros(x.shape[0], 6), 0
    for t in range(int((x[0, :, 0] > 0).sum())):
        self.h = self.h + x[:, t]
        self.count += 1
    return self.h + self.count


def until_data_say(self: Any, x: torch.Tensor) -> Any:
    self.h, self.count = torch.zeros(6), 0
    for t in range(x.shape[1]):
        self.h = self.h + x[0, t]
        self.count += 1
        if self.h.sum() > 1:
            break
    return self.h + self.count


RIGHT = (
    kept_by_an_object,
    counted_by_an_object,
    counted_and_read_afterwards,
    kept_in_a_dict,
    exchanged_in_an_object,
    kept_by_the_module,
    aliases,
    written_and_read_by_another_name,
    reassigned_beside_another_name,
    numbers,
    none_at_first,
    tuples_lists_and_dicts,
    objects,
    of_a_variable,
    of_an_item,
    of_a_class,
    of_a_global_variable,
    of_a_namespace,
    of_a_function,
    lists_of_the_first_step,
    lists_that_grow,
    lists_that_grow_in_some_steps,
    in_inner_loops,
)
BY_DATA = (
    in_branches_of_steps,
    in_ways,
    list_that_is_named_before_a_branch,
    in_both_ways,
    of_a_closure,
    while_data_say,
    as_often_as_data_say,
    until_data_say,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_a_loop_carries_what_objects_keep(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(Model(run), SHAPES, DYNAMIC, capture, tmp_path, torch.randn)


@pytest.mark.parametrize("run", BY_DATA, ids=lambda run: run.__name__)
def test_what_data_decide_of_objects(run: Any, tmp_path: pathlib.Path) -> None:
    agrees_without_warnings(Model(run), SHAPES, DYNAMIC, "export", tmp_path, torch.randn)


def through_a_view_that_is_kept(self: Any, x: torch.Tensor) -> Any:
    self.table, outputs = torch.zeros(2, 6), []
    self.row = self.table[0]
    for t in range(x.shape[1]):
        self.table.add_(x[0, t])
        outputs.append(self.row * 2)
    return torch.stack(outputs)


def texts(self: Any, x: torch.Tensor) -> Any:
    self.mode, h = "a", x[:, 0]
    for t in range(x.shape[1]):
        h = h + x[:, t] * (1 if self.mode == "a" else 2)
        self.mode = "b" if self.mode == "a" else "a"
    return h


def list_of_the_first_step_by_another_name(self: Any, x: torch.Tensor) -> Any:
    state, other = None, None
    for t in range(x.shape[1]):
        if state is None:
            state = other = [torch.zeros(x.shape[0], 6)]
        state[0] = state[0] + x[:, t]
    return state[0], other[0]


def counted_in_an_array(self: Any, x: torch.Tensor) -> Any:
    counts, h = np.zeros(1), x[:, 0]
    for t in range(x.shape[1]):
        counts[0] += 1
        h = h + x[:, t]
    return h * float(counts[0])


def counted_in_bytes(self: Any, x: torch.Tensor) -> Any:
    counts, h = bytearray(1), x[:, 0]
    for t in range(x.shape[1]):
        counts[0] += 1
        h = h + x[:, t]
    return h * counts[0]


def put_into_a_queue(self: Any, x: torch.Tensor) -> Any:
    waiting: queue.Queue[int] = queue.Queue()
    h = x[:, 0]
    for t in range(x.shape[1]):
        waiting.put(1)
        h = h + x[:, t]
    return h * waiting.qsize()


def list_that_a_variable_holds(self: Any, x: torch.Tensor) -> Any:
    kept = Rows()
    rows = kept.rows
    for t in range(x.shape[1]):
        kept.add(x[:, t] * 2)
    return torch.stack(rows, 1)


def list_that_another_object_holds(self: Any, x: torch.Tensor) -> Any:
    kept, other = Rows(), Rows()
    other.rows = kept.rows
    for t in range(x.shape[1]):
        kept.add(x[:, t] * 2)
    return torch.stack(other.rows, 1)


def appends_by_a_bound_method(self: Any, x: torch.Tensor) -> Any:
    kept = Rows()
    kept.append = kept.rows.append
    for t in range(x.shape[1]):
        kept.append(x[:, t] * 2)
    return torch.stack(kept.rows, 1)


REFUSED = (
    through_a_view_that_is_kept,
    texts,
    list_of_the_first_step_by_another_name,
    counted_in_an_array,
    counted_in_bytes,
    put_into_a_queue,
    list_that_a_variable_holds,
    list_that_another_object_holds,
    appends_by_a_bound_method,
)


@CAPTURES
@pytest.mark.parametrize("run", REFUSED, ids=lambda run: run.__name__)
def test_refuses_what_a_loop_cannot_carry(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, "outside of the loop", capture, tmp_path)


def an_array(self: Any, x: torch.Tensor) -> Any:
    counts = np.zeros(1)
    if x.sum() > 0:
        counts[0] += 1
    return x * float(counts[0])


def a_key(self: Any, x: torch.Tensor) -> Any:
    self.named = {"a": x}
    if x.sum() > 0:
        self.named["b"] = x * 2
    return self.named["a"] + 1 if "b" in self.named else x


def an_attribute(self: Any, x: torch.Tensor) -> Any:
    data = Data(x)
    if x.sum() > 0:
        data.other = x * 2
    return data.other if hasattr(data, "other") else x


@pytest.mark.parametrize("run", [an_array, a_key, an_attribute], ids=lambda run: run.__name__)
def test_refuses_what_one_way_alone_has(run: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, "change something besides variables", "export", tmp_path)
