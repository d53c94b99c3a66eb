"""Python branches and loops that data decide, as nodes with bodies."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from dynamic_check import agrees_on
from torch import nn

import opbridge

ROWS = ({0: "n"},)


def inputs() -> list[torch.Tensor]:
    """Tensors [n, 3] for which the functions below take each of their ways; the first is the example."""
    generator = torch.Generator().manual_seed(0)
    scales = [(5, 1.0), (5, -1.0), (4, 1.0), (9, 2.0), (2, 3.0), (6, 0.1), (1, 1.0), (3, 0.01)]
    drawn = [torch.randn(rows, 3, generator=generator) * scale for rows, scale in scales]
    return [*drawn, -drawn[0], drawn[0].abs(), -drawn[0].abs(), torch.full((3, 3), 0.4)]


def agrees(function: Callable[..., Any], folder: pathlib.Path, dynamic: Any = ROWS) -> onnx.ModelProto:
    return agrees_on(function, inputs(), folder, dynamic)


def returns_early(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return x - 1


def one_way(x: Any) -> Any:
    y = x
    if x.max() > 1.5:
        y = y / x.max()
    return y


def several_ways(x: Any) -> Any:
    total = x.sum()
    if total > 2:
        return x * 3
    elif total > 0:
        return x * 2
    elif total.item() > -1:
        return x
    return -x


def one_in_the_other(x: Any) -> Any:
    if x.sum() > 0:
        if x.max() > 1.5:
            return x * 2
        y = x + 1
    else:
        y = x - 1
    return y * 3


def chosen(x: Any) -> Any:
    rows = torch.stack([column if column.sum() > 0 else -column for column in x.unbind(1)])
    return (x.exp() if x.sum().item() > 0 else x), rows


def conjunctions(x: Any) -> Any:
    y = x
    if x.sum() > 0 and x.max() < 3:
        y = y + 1
    if x.min() < -1.5 or not x.mean() > 0.2:
        y = y * 5
    if x.shape[0] > 3 and x.sum() > 0:
        y = y - 1
    if bool((x > 0).all()):
        y = y * 2
    if -3 < x.sum() < 3:
        y = y - 2
    return y


def flags(x: Any) -> Any:
    flag = large = False
    if x.sum() > 0:
        flag = True
    both = bool(x.sum() > 0) and not x.max() > 1
    if bool(x.max() > 1) is True:
        large = True
    y = x * 2 if flag else x
    if both == True:  # noqa: E712
        y = y - 1
    return y + 1 if not large else y, x if isinstance(both, bool) else -x


def numbers(x: Any) -> Any:
    count, weight, limit = 1, 1.5, 1.0
    if x.sum() > 0:
        count, weight = 2, 2.5
    if (norm := torch.linalg.vector_norm(x)) > 1:
        limit = 1 / norm
    return x[:count], x * weight, x * limit


def found_sizes(x: Any) -> Any:
    found = (x[:, 0] > 0.3).nonzero().squeeze(1)
    if found.numel() == 0:
        return x.new_zeros(0, 3), torch.zeros(3)
    if len(found) > 2:
        found = found[x[found, 1].topk(2).indices]
    return x[found] * 2, x[found].max(0).values


def sizes_differ(x: Any) -> Any:
    y = x[:, :2] if x.sum() > 0 else x
    return y.sum(1), (x[:1] if x.mean() > 0 else x)


def found_with_a_number(x: Any) -> Any:
    """Each way knows a number of rows that the others do not."""
    found = x[x[:, 0] > 0]
    if found.shape[0] == 2:
        y = found.reshape(2, 3).sum(0)
    elif found.shape[0] > 2:
        torch._check(found.shape[0] > 2)
        y = found.max(0).values
    else:
        y = torch.zeros(3)
    if found.numel() == 0:
        y = y + 5
    return y, torch.ones(found.shape[0])


def found_with_a_number_in_loops(x: Any) -> Any:
    found, total = x[x[:, 0] > 0], torch.zeros(3)
    for row in x:
        total = total + (found.reshape(2, 3)[0] + row if found.shape[0] == 2 else row)
    while total.norm() > 1 and found.shape[0] == 2:
        total = total / 2 + 0.01 * found.reshape(2, 3)[0]
    return total, torch.ones(found.shape[0])


def found_again(x: Any) -> Any:
    positive = x[:, 0] > 0
    count = positive.sum()
    y = x[positive].sum(0) + x[: int(count)].sum(0) if count > 1 else x.sum(0)
    return y * int(count), x[positive], torch.zeros(x[positive].shape[0])


def written_in_a_way(x: Any) -> Any:
    y = x.clone()
    first = y[0]
    if y.sum() > 0:
        y.add_(1)
    else:
        y[0] = 5
    z = torch.zeros_like(x)
    if (x > 0).any():
        z[x > 0] = 1
    return y, first, z


def lists(x: Any) -> Any:
    items = [x, x * 2]
    kept, by_name = items, {"scale": 1.0}
    if x.sum() > 0:
        items[0] = x * 5
        items.append(x + 1)
        by_name["scale"] = 2.0
    else:
        items.append(x - 1)
    return torch.cat(kept) * by_name["scale"]


def errors_in_ways(x: Any, mode: str = "first") -> Any:
    if mode not in ("first", "second"):
        raise ValueError(mode)
    if x.isnan().any():
        raise ValueError("NaN")
    if x.sum() > 0:
        return x
    if mode == "second":
        raise ValueError(mode)
    return -x


def called(x: Any) -> Any:
    def halved(y: Any) -> Any:
        return y * 0.5

    return returns_early(x) + (halved(x) if x.max() > 1 else halved(-x)), one_way(-x)


class Routed(nn.Module):
    """A mixture of experts, of which each sees the rows that are routed to it."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(3, 4)
        self.experts = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.register_buffer("initialized", torch.tensor(True))

    def forward(self, x: torch.Tensor) -> Any:
        if self.initialized:
            x = x + 1
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        out, alike = torch.zeros_like(x), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, column = torch.where(chosen == i)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, column, None])
            mask = chosen[:, 0] == i
            if mask.any():
                alike[mask] = expert(x[mask])
        return out, alike


class Derived(Routed):
    def forward(self, x: torch.Tensor) -> Any:
        if x.max() > 1:
            return super().forward(x)[0]
        return self.gate(x)[:, :3]


class Exits(nn.Module):
    """Returns the first answer that is certain."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.heads = nn.ModuleList(nn.Linear(3, 2) for _ in range(3))

    def forward(self, x: torch.Tensor) -> Any:
        for i, (layer, head) in enumerate(zip(self.layers, self.heads, strict=True)):
            x = torch.tanh(layer(x))
            y = head(x)
            if y.softmax(-1).max(-1).values.mean() > 0.6:
                return y, i
        return y, len(self.layers)


class Decodes(nn.Module):
    """Writes tokens until the one that ends."""

    def __init__(self, with_while: bool) -> None:
        super().__init__()
        self.with_while = with_while
        self.embedding, self.cell, self.head = nn.Embedding(7, 4), nn.GRUCell(4, 4), nn.Linear(4, 7)

    def forward(self, x: torch.Tensor) -> Any:
        h, token = torch.zeros(1, 4) + x.sum(), torch.zeros(1, dtype=torch.long)
        out, n = torch.full((8,), 6), 0
        if self.with_while:
            while n < 8 and token != 3:
                h = self.cell(self.embedding(token), h)
                token = self.head(h).argmax(-1)
                out[n] = token[0]
                n += 1
            return out, n
        for t in range(8):
            h = self.cell(self.embedding(token), h)
            token = self.head(h).argmax(-1)
            out[t] = token[0]
            if token.item() == 3:
                break
        return out


def seeded(make: Callable[..., nn.Module], *args: Any) -> nn.Module:
    torch.manual_seed(0)
    return make(*args).eval()


BRANCHES = [
    returns_early,
    one_way,
    several_ways,
    one_in_the_other,
    chosen,
    conjunctions,
    flags,
    numbers,
    found_sizes,
    found_with_a_number,
    found_with_a_number_in_loops,
    found_again,
    sizes_differ,
    written_in_a_way,
    lists,
    errors_in_ways,
    called,
]
MODULES = [seeded(Routed), seeded(Derived), seeded(Exits), seeded(Decodes, True), seeded(Decodes, False)]


@pytest.mark.parametrize("function", BRANCHES)
def test_branches(function: Any, tmp_path: pathlib.Path) -> None:
    assert '"If"' in str(agrees(function, tmp_path))


@pytest.mark.parametrize("function", [returns_early, several_ways, lists])
def test_branches_of_constant_sizes(function: Any, tmp_path: pathlib.Path) -> None:
    assert '"If"' in str(agrees(function, tmp_path, dynamic=None))


@pytest.mark.parametrize("module", MODULES, ids=lambda each: type(each).__name__)
def test_modules(module: nn.Module, tmp_path: pathlib.Path) -> None:
    agrees(module, tmp_path)


def breaks(x: Any) -> Any:
    h = torch.zeros(3)
    for t in range(x.shape[0]):
        h = h + x[t]
        if h.norm() > 2:
            break
    return h


def breaks_before(x: Any) -> Any:
    h = torch.zeros(3)
    for row in x:
        if row.sum() > 2:
            break
        if row.sum() < 0:
            continue
        h = h + row
    else:
        h = h * 10
    return h, row


def returns(x: Any) -> Any:
    for i in range(x.shape[0]):
        if x[i].sum() > 1:
            return x[i] + i
    return torch.zeros(3)


def returns_from_two(x: Any) -> Any:
    for column in x.unbind(1):
        for _ in range(2):
            column = column * 0.7
            if column.norm() < 1:
                return column
    return x[:, 0]


def continues_in_a_way(x: Any) -> Any:
    h = g = torch.zeros(3)
    for t in range(x.shape[0]):
        if t > 1:
            if t % 2:
                continue
            h = h + 1
        h = h + x[t]
    for row in x:
        if row[0] > 0:
            if row[1] > 0:
                continue
            g = g + 1
        g = g + row
    return h, g


def flag_of_steps(x: Any) -> Any:
    found, first, h, last = False, True, torch.zeros(3), torch.zeros(3)
    for row in x:
        if not found and row.sum() > 1:
            h = row
            found = True
        if first:
            last, first = row, False
        else:
            last = last * 0.5 + row
    return (h if found else h - 1), last


def fixed_point(x: Any) -> Any:
    y = x.abs() + 1
    for _ in range(20):
        new = 0.5 * (y + (x.abs() + 1) / y)
        if (new - y).abs().max() < 1e-3:
            y = new
            break
        y = new
    return y


def halves(x: Any) -> Any:
    while x.norm() > 1:
        x = x / 2
    return x


def iterates(x: Any) -> Any:
    v, matrix = torch.ones(3), x.T @ x + torch.eye(3)
    error, steps = float("inf"), 0
    while error > 1e-3 and steps < 50:
        new = matrix @ v
        new = new / new.norm()
        error = (new - v).norm()
        v = new
        steps += 1
    return v, steps


def until(x: Any) -> Any:
    steps = 0
    while True:
        x = x / 2
        steps += 1
        if x.norm() < 1 or steps >= 3:
            return x * steps


def steps_that_write(x: Any) -> Any:
    y, z, rate = x.clone(), x.clone(), 1.0
    while y.max() > 0.5:
        y[y > 0.5] -= 0.25
    while z.norm() > 1:
        z.mul_(0.5)
    while (x * rate).norm() > 1:
        rate *= 0.5
    return y, z, x * rate


def flags_of_while(x: Any) -> Any:
    done, y = False, x
    while not done:
        y = y / 2
        done = bool(y.norm() < 1)
    while (norm := x.norm()) > 1:
        x = x / norm * 0.99
        if x.max() > 0.5:
            break
    return x, y


def branch_in_while(x: Any) -> Any:
    low, high = x.min() - 1, x.max() + 1
    while high - low > 1e-2:
        middle = (low + high) / 2
        if (x - middle).sum() > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def greatest_divisor(x: Any) -> Any:
    a, b = x.abs().sum().long() + 7, torch.tensor(6)
    while b != 0:
        a, b = b, a % b
    return a


def grows(x: Any) -> Any:
    y = x[:1]
    while y.norm() < 5:
        y = torch.cat([y, y])
    return y


LOOPS = [
    breaks,
    breaks_before,
    returns,
    returns_from_two,
    continues_in_a_way,
    flag_of_steps,
    fixed_point,
    halves,
    iterates,
    until,
    steps_that_write,
    flags_of_while,
    branch_in_while,
    greatest_divisor,
    grows,
]


@pytest.mark.parametrize("function", LOOPS)
def test_loops(function: Any, tmp_path: pathlib.Path) -> None:
    agrees(function, tmp_path)


def axes_differ(x: Any) -> Any:
    return x.sum() if x.sum() > 0 else x


def types_differ(x: Any) -> Any:
    return x.int() if x.sum() > 0 else x


def list_may_be_another(x: Any) -> Any:
    items = [x]
    kept = items
    if x.sum() > 0:
        items = [x * 2]
    items.append(x)
    return torch.cat(items), torch.cat(kept)


def takes_from_an_iterator(x: Any) -> Any:
    factors = iter([1.0, 2.0, 3.0])
    y = x * next(factors) if x.sum() > 0 else x + next(factors)
    return y * next(factors)


def takes_from_a_list(x: Any) -> Any:
    factors = [1.0, 2.0, 3.0]
    y = x * factors.pop() if x.sum() > 0 else x
    return y * len(factors)


def takes_in_the_test(x: Any) -> Any:
    factors = [1.0, 2.0, 3.0]
    return x * len(factors) if x.sum() > 0 and x.max() > factors.pop() else x


def fails_in_a_way(x: Any) -> Any:
    try:
        if x.sum() > 0:
            y = x * 2
            if x.shape[1] == 3:
                raise ValueError
        else:
            y = x
    except ValueError:
        y = x * 3
    return y


def fails_at_the_test(x: Any) -> Any:
    try:
        if x.sum() > 0:
            return x.view(-1, 7)
        y = x * 2
    except RuntimeError:
        y = x * 3
    return y


def writes_to_one_of_three(x: torch.Tensor) -> torch.Tensor:
    """A branch in a branch returns a tensor from outside of both."""
    y = x * 1
    if x.sum() > 1:
        z = y - 1
    elif y.mean() > 0:
        z = y * 2
    else:
        z = y
    z.mul_(3)
    return y


def writes_to_one_of_two(x: Any) -> Any:
    y, z = x.clone(), x * 2
    one = y if x.sum() > 0 else z
    one += 1
    return y, z


def text_of_a_truth(x: Any) -> Any:
    y = x if x.sum() > 0 else -x
    return y * len(str(bool(x.max() > 1)))


def endless(x: Any) -> Any:
    for _ in itertools.count():
        x = x + 1
        if x.sum() > 1000:
            break
    return x


class Writes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> Any:
        if x.sum() > 0:
            self.count.add_(1)
        return x + self.count


def pads(x: Any) -> Any:
    rows, columns = -x.size(0) % 3, -x.size(1) % 2
    if x.sum() > 0:
        x = x * 2
    if rows > 0 or columns > 0:
        x = nn.functional.pad(x, (0, columns, 0, rows))
    return x


def test_a_branch_by_sizes_beside_one_by_data(tmp_path: pathlib.Path) -> None:
    agrees(pads, tmp_path)


REFUSED: list[tuple[Any, str]] = [
    (axes_differ, "its ways give a variable values of several types or numbers of axes"),
    (types_differ, "its ways give a variable values of several types or numbers of axes"),
    (list_may_be_another, "its ways give a variable"),
    (takes_from_an_iterator, "change something besides variables"),
    (takes_from_a_list, "change something besides variables"),
    (takes_in_the_test, "change something besides variables"),
    (fails_in_a_way, r"one of its ways fails: ValueError\(\)"),
    (fails_at_the_test, "branches on a tensor"),
    (writes_to_one_of_two, "writes to a tensor that a branch or a loop returns unchanged"),
    (writes_to_one_of_three, "writes to a tensor that a branch or a loop returns unchanged"),
    (text_of_a_truth, "makes a text of a bool that data decide"),
    (Writes(), "writes to the buffer or parameter %count"),
]


@pytest.mark.parametrize(("model", "why"), REFUSED)
def test_refuses(model: Any, why: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match=why):
        opbridge.export(model, (inputs()[0],), tmp_path / "model.onnx", dynamic_shapes=ROWS)


def test_refuses_a_loop_of_data_without_an_end(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("opbridge.capture.loops.runtime._MOST_STEPS", 10)
    with pytest.raises(opbridge.UnsupportedError, match="a loop that data end has more than 10 steps"):
        opbridge.export(endless, (inputs()[0],), tmp_path / "model.onnx", dynamic_shapes=ROWS)


def derivative_of_a_branch(x: Any) -> Any:
    y = x.clone().requires_grad_()
    z = (y**2).sum() if x.sum() > 0 else (y**3).sum()
    return torch.autograd.grad(z, y)[0]


def derivative_of_a_loop(x: Any) -> Any:
    y = x.clone().requires_grad_()
    z = y * 2
    while z.norm() > 1:
        z = z / 2
    return torch.autograd.grad(z.sum(), y)[0]


@pytest.mark.parametrize("function", [derivative_of_a_branch, derivative_of_a_loop])
def test_refuses_derivatives(function: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(opbridge.UnsupportedError, match="has no gradients"):
        opbridge.export(function, (inputs()[0],), tmp_path / "model.onnx", dynamic_shapes=ROWS)


def test_a_trace_takes_the_way_of_the_example(tmp_path: pathlib.Path) -> None:
    with pytest.warns(opbridge.TraceWarning):
        opbridge.export(returns_early, (inputs()[0].abs(),), tmp_path / "model.onnx", capture="trace")
    assert '"If"' not in str(onnx.load(tmp_path / "model.onnx"))
