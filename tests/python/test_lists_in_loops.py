"""Lists that a Python loop over an axis of dynamic size fills, and reads."""

from __future__ import annotations

import collections
import pathlib
from typing import Any

import pytest
import torch
from dynamic_check import CAPTURES, agrees
from loops_check import DYNAMIC, SHAPES, Model, refuses


def last(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(1, x.shape[1]):
        outputs.append(0.9 * outputs[-1] + 0.1 * x[:, t])
    return torch.stack(outputs, 1)


def last_two(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0], x[:, 0] * 0.5]
    for t in range(x.shape[1]):
        outputs.append(torch.tanh(outputs[-1] + outputs[-2] * x[:, t]))
    return torch.stack(outputs, 1)


def two_lists(self: Any, x: torch.Tensor) -> Any:
    h, c = [torch.zeros(x.size(0), 5)], [torch.zeros(x.size(0), 5)]
    for step in x.unbind(1):
        one, other = self.lstm(step, (h[-1], c[-1]))
        h.append(one)
        c.append(other)
    return torch.stack(h, 1), c[-1]


def empty_at_first(self: Any, x: torch.Tensor) -> Any:
    outputs: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        before = outputs[-1] if outputs else torch.zeros(x.size(0), 6)
        outputs.append(self.cell(x[:, t], before))
    return torch.stack(outputs, 1)


def by_its_length(self: Any, x: torch.Tensor) -> Any:
    outputs: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        before = outputs[-1] if len(outputs) > 0 else torch.zeros(x.size(0), 6)
        outputs.append(self.cell(x[:, t], before) * 0.5 ** len(outputs))
    return torch.stack(outputs, 1) / len(outputs)


def by_the_number_of_the_step(self: Any, x: torch.Tensor) -> Any:
    states = [torch.zeros(x.size(0), 6)]
    for t in range(x.shape[1]):
        states.append(self.cell(x[:, t], states[t]) + states[0])
    return torch.stack(states[1:], 1), states[-1]


def by_the_number_of_the_step_before(self: Any, x: torch.Tensor) -> Any:
    outputs: list[torch.Tensor] = []
    for t in range(x.shape[1]):
        before = outputs[t - 1] if t > 0 else torch.zeros(x.size(0), 6)
        outputs.append(self.cell(x[:, t], before))
    return torch.stack(outputs, 1)


def appended_before(self: Any, x: torch.Tensor) -> Any:
    outputs, total = [], torch.zeros(x.size(0), 6)
    for t in range(x.shape[1]):
        outputs.append(torch.tanh(x[:, t]))
        total = total + outputs[-1] * t
    return torch.stack(outputs, 1), total


def grown_twice(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs.append(outputs[-1] * 0.5 + x[:, t])
    for t in range(x.shape[1]):
        outputs.append(outputs[-1] * 0.5 - x[:, t] * len(outputs))
    return torch.stack(outputs, 1)


def in_a_branch(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        if t % 2 == 0:
            outputs.append(outputs[-1] * 0.5 + x[:, t])
        else:
            outputs.append(x[:, t] - 1)
    return torch.stack(outputs, 1)


def none_of_one_step(self: Any, x: torch.Tensor) -> Any:
    differences: list[torch.Tensor] = []
    for t in range(1, x.shape[1]):
        differences.append(x[:, t] - x[:, t - 1])
    return torch.stack(differences, 1).sum(1) if differences else x[:, 0] * 100


def in_a_dict(self: Any, x: torch.Tensor) -> Any:
    kept: Any = collections.defaultdict(list)
    h = torch.zeros(x.size(0), 6)
    for t in range(x.shape[1]):
        h = self.cell(x[:, t], h)
        kept["h"].append(h)
        kept["sums"].append(h.sum(-1))
    return torch.stack(kept["h"], 1), torch.stack(kept["sums"], 1)


def read_in_a_dict(self: Any, x: torch.Tensor) -> Any:
    kept = {"h": [x[:, 0]], "inner": {"c": [x[:, 0] * 2]}}
    for t in range(1, x.shape[1]):
        kept["h"].append(torch.tanh(kept["h"][-1] + kept["inner"]["c"][-1] * x[:, t]))
        kept["inner"]["c"].append(kept["h"][-1] * 0.5)
    return torch.stack(kept["h"], 1) + torch.stack(kept["inner"]["c"], 1)


def one_for_each_layer(self: Any, x: torch.Tensor) -> Any:
    outputs: list[list[torch.Tensor]] = [[] for _ in self.layers]
    states = [torch.zeros(x.size(0), 6) for _ in self.layers]
    for value in x.unbind(1):
        for i, layer in enumerate(self.layers):
            states[i] = value = layer(value, states[i])
            outputs[i].append(value)
    return torch.stack([torch.stack(each, 1) for each in outputs])


def assigned(self: Any, x: torch.Tensor) -> Any:
    outputs, h = [None] * x.shape[1], torch.zeros(x.size(0), 6)
    for t, step in enumerate(x.unbind(1)):
        outputs[t] = h = self.cell(step, h) / len(outputs)
    return torch.stack(outputs, 1), outputs[-1]


def assigned_backwards(self: Any, x: torch.Tensor) -> Any:
    n, h = x.shape[1], torch.zeros(x.size(0), 6)
    outputs = n * [0]
    for t in range(n - 1, -1, -1):
        outputs[t] = h = self.cell(x[:, t], h)
    return torch.cat(outputs, 1)


def assigned_one_before(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1]
    outputs = [None] * n
    outputs[0] = x[:, 0]
    for t in range(1, n):
        outputs[t] = outputs[t - 1] * 0.5 + x[:, t]
    return torch.stack(outputs, 1) * len(outputs)


def stacks_written_to(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for step in x.unbind(1):
        outputs.append(step * 2)
    one, other = torch.stack(outputs, 1), torch.stack([2 * row for row in x])
    one[0] = 7
    one.view(-1).add_(1)
    other.mul_(3)
    return one, torch.stack(outputs, 1), other, x * 1


def items_written_to(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        outputs.append(x[:, t] * 2)
    before = torch.stack(outputs)
    outputs[0].mul_(2)
    outputs[-1].sub_(3)
    return before, torch.stack(outputs), outputs[-1]


def stacked_in_each_step(self: Any, x: torch.Tensor) -> Any:
    outputs, means = [], []
    for t in range(x.shape[1]):
        outputs.append(torch.tanh(x[:, t]))
        means.append(torch.stack(outputs, 1).mean(1))
    return torch.stack(means, 1)


def front_first(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs.insert(0, outputs[0] * 0.5 + x[:, t])
    return torch.stack(outputs, 1)


def front_last(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs.insert(0, outputs[-1] * 0.5 + x[:, t])
    return torch.stack(outputs, 1)


def front_in_a_branch(self: Any, x: torch.Tensor) -> Any:
    outputs, h = [x[:, 0]], x[:, 0]
    for t in range(x.shape[1]):
        if t % 2:
            h = outputs[0] * 0.5
        outputs.insert(0, h + x[:, t])
    return torch.stack(outputs, 1)


def front_twice(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs.insert(0, outputs[0] + x[:, t])
        outputs.insert(0, outputs[1] * 0.5 - outputs[-1])
    return torch.stack(outputs, 1), outputs[0]


def front_or_zero(self: Any, x: torch.Tensor) -> Any:
    outputs: list[Any] = []
    for t in range(x.shape[1]):
        outputs.insert(0, (outputs[0] if outputs else x[:, t] * 0) + x[:, t])
    return torch.stack(outputs, 1)


def returns_of_rewards(self: Any, x: torch.Tensor) -> Any:
    values = [torch.zeros(())]
    for t in reversed(range(x.shape[1])):
        values.insert(0, x[:, t].sum() + 0.9 * values[0])
    return torch.stack(values[:-1]), values[0]


def another_list_in_each_step(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs = outputs + [outputs[-1] * 0.5 + x[:, t]]  # noqa: RUF005 (another form)
    return torch.stack(outputs, 1)


RIGHT = (
    front_first,
    front_last,
    front_in_a_branch,
    front_twice,
    front_or_zero,
    returns_of_rewards,
    another_list_in_each_step,
    last,
    last_two,
    two_lists,
    empty_at_first,
    by_its_length,
    by_the_number_of_the_step,
    by_the_number_of_the_step_before,
    appended_before,
    grown_twice,
    in_a_branch,
    none_of_one_step,
    in_a_dict,
    read_in_a_dict,
    one_for_each_layer,
    assigned,
    assigned_backwards,
    assigned_one_before,
    stacks_written_to,
    items_written_to,
    stacked_in_each_step,
)


@CAPTURES
@pytest.mark.parametrize("run", RIGHT, ids=lambda run: run.__name__)
def test_agrees_at_other_sizes(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    agrees(Model(run), SHAPES, DYNAMIC, capture, tmp_path)


def two_in_each_step(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs += [outputs[t] * 0.5, x[:, t]]
    return torch.stack(outputs, 1)


def only_read(self: Any, x: torch.Tensor) -> Any:
    weights, h = [layer.weight_hh for layer in self.layers] * 4, x[:, 0]
    for t in range(x.shape[1]):
        h = h @ weights[t][:6]
    return h


def written(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0].clone()]
    for t in range(1, x.shape[1]):
        outputs[-1].mul_(2)
        outputs.append(x[:, t] * 1)
    return torch.stack(outputs, 1)


def read_by_another_name(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    same = outputs
    for t in range(1, x.shape[1]):
        outputs.append(same[-1] * 0.5 + x[:, t])
    return torch.stack(outputs, 1)


def from_an_iterator(self: Any, x: torch.Tensor) -> Any:
    weights, h = iter([layer.weight_hh for layer in self.layers] * 8), x[:, 0]
    for t in range(x.shape[1]):
        h = h @ next(weights)[:6] + x[:, t]
    return h


def in_a_dict_and_elsewhere(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    kept = {"outputs": outputs}
    for t in range(x.shape[1]):
        kept["outputs"].append(x[:, t])
    return torch.stack(outputs, 1)


def in_two_dicts(self: Any, x: torch.Tensor) -> Any:
    kept = {"outputs": [x[:, 0]]}
    same = kept
    for t in range(x.shape[1]):
        kept["outputs"].append(x[:, t])
    return torch.stack(same["outputs"], 1)


def assigned_but_one(self: Any, x: torch.Tensor) -> Any:
    outputs = [None] * x.shape[1]
    for t in range(x.shape[1] - 1):
        outputs[t] = x[:, t]
    return torch.stack(outputs[:-1], 1)


def assigned_in_another_order(self: Any, x: torch.Tensor) -> Any:
    n = x.shape[1]
    outputs = [None] * n
    for t in range(n):
        outputs[(t + 1) % n] = x[:, t]
    return torch.stack(outputs, 1)


def assigned_and_read_at_its_end(self: Any, x: torch.Tensor) -> Any:
    outputs = [0] * x.shape[1]
    for t in range(x.shape[1]):
        outputs[t] = x[:, t] + outputs[-1]
    return torch.stack(outputs, 1)


def assigned_after_it_is_read(self: Any, x: torch.Tensor) -> Any:
    outputs = [0] * x.shape[1]
    outputs[0] = x[:, 0]
    for t in range(1, x.shape[1]):
        outputs[t] = x[:, t] + outputs[t]
    return torch.stack(outputs, 1)


def front_of_another_name(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    same = outputs
    for t in range(x.shape[1]):
        outputs.insert(0, outputs[0] * 0.5 + x[:, t])
    return torch.stack(same, 1)


def written_front(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0] * 1]
    for t in range(x.shape[1]):
        outputs.insert(0, outputs[0] * 0.5 + x[:, t])
        outputs[0].mul_(2)
    return torch.stack(outputs, 1)


def both_ends(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0]]
    for t in range(x.shape[1]):
        outputs.insert(0, x[:, t])
        outputs.append(x[:, t] * 2)
    return torch.stack(outputs, 1)


REFUSED = (
    assigned_and_read_at_its_end,
    assigned_after_it_is_read,
    front_of_another_name,
    written_front,
    both_ends,
    two_in_each_step,
    only_read,
    written,
    read_by_another_name,
    from_an_iterator,
    in_a_dict_and_elsewhere,
    in_two_dicts,
    assigned_but_one,
    assigned_in_another_order,
)


@CAPTURES
@pytest.mark.parametrize("run", REFUSED, ids=lambda run: run.__name__)
def test_refuses_other_reads(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, "outside of the loop|can only be extended|needed as a Python number", capture, tmp_path)


def writes_to_the_last_of_two_kinds(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0] * 3]
    for t in range(x.shape[1]):
        outputs.append(x[:, t] * 2)
    outputs[-1].add_(1)
    return torch.stack(outputs)


def writes_to_a_part_of_it(self: Any, x: torch.Tensor) -> Any:
    outputs = [x[:, 0] * 3]
    for t in range(x.shape[1]):
        outputs.append(x[:, t] * 2)
    outputs[1:][0].add_(1)
    return torch.stack(outputs)


def writes_to_the_state(self: Any, x: torch.Tensor) -> Any:
    outputs, h = [], x[:, 0] * 1
    for t in range(x.shape[1]):
        h = h * 0.5 + x[:, t]
        outputs.append(h)
    h.add_(1)
    return torch.stack(outputs)


def writes_to_a_state_that_steps_swap(self: Any, x: torch.Tensor) -> Any:
    h, c = x[:, 0] * 1, x[:, 0] * 2
    before = h
    for _ in range(x.shape[1]):
        h, c = c, h
    h.add_(1)
    return before, h, c


def writes_to_one_of_two_lists(self: Any, x: torch.Tensor) -> Any:
    outputs, parts = [], []
    for t in range(x.shape[1]):
        step = x[:, t] * 2
        outputs.append(step)
        parts.append(step[:, :2])
    outputs[0].add_(1)
    return torch.stack(parts)


def writes_to_what_is_listed_twice(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        step = x[:, t] * 2
        outputs.append(step)
        outputs.append(step)
    outputs[0].add_(1)
    return torch.stack(outputs)


def writes_to_the_first_after_reversing(self: Any, x: torch.Tensor) -> Any:
    outputs = []
    for t in range(x.shape[1]):
        outputs.append(x[:, t] * 2)
    turned = outputs[::-1]
    turned[0].add_(1)
    return torch.stack(outputs)


SHARED = (
    writes_to_the_last_of_two_kinds,
    writes_to_a_part_of_it,
    writes_to_the_state,
    writes_to_a_state_that_steps_swap,
    writes_to_one_of_two_lists,
    writes_to_what_is_listed_twice,
    writes_to_the_first_after_reversing,
)


@CAPTURES
@pytest.mark.parametrize("run", SHARED, ids=lambda run: run.__name__)
def test_refuses_writes_to_items_that_share_memory(run: Any, capture: Any, tmp_path: pathlib.Path) -> None:
    refuses(run, "the model writes to .* an item of a list that a loop fills", capture, tmp_path)
