"""Python loops whose number of steps data decide, and loops that change the sizes of tensors."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import opbridge

DYNAMIC = ({0: "n"}, {0: "m"})


def inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Numbers [n] and integers [m]; the first are the example."""
    generator = torch.Generator().manual_seed(0)
    integers = [[3, 5, 1, 2, 9], [3, 5], [1], [9, 9, 1], [2, 2, 2, 0, 6, 6], [1, 1]]
    sizes = [6, 2, 3, 1, 5, 9]
    return [(torch.randn(n, generator=generator), torch.tensor(each)) for n, each in zip(sizes, integers, strict=True)]


def agrees(model: Callable[..., Any], folder: pathlib.Path, of: list[Any], dynamic: Any) -> None:
    opbridge.export(model, of[0], folder / "model.onnx", dynamic_shapes=dynamic, capture="export")
    for args in of:
        report = opbridge.verify(folder / "model.onnx", model, args)
        assert report.ok, str(report)


def counts_by_item(x: Any, k: Any) -> Any:
    for i in range(k[0].item()):
        x = x * 2 + i
    return x


def counts_from_and_by(x: Any, k: Any) -> Any:
    for i in range(1, int(k[0]) + 2, 2):
        x = torch.sin(x) + i
    return x


def counts_down(x: Any, k: Any) -> Any:
    i = -1
    for i in range(int(k[-1]), 0, -1):
        x = x * 0.5 + i
    return x, torch.zeros(2) + i


def counts_to_the_greatest(x: Any, k: Any) -> Any:
    return torch.stack([(k == i).float().sum() for i in range(int(k.max()) + 1)])


def counts_with_a_branch(x: Any, k: Any) -> Any:
    for _ in range(int(k[0])):
        if x.sum() > 0:
            x = x - 1
            continue
        x = x + 2
    return x


def counts_until_break(x: Any, k: Any) -> Any:
    for _ in range(int(k[0])):
        x = x * 2
        if x.abs().max() > 8:
            break
    else:
        x = x - 100
    return x


def counts_until_return(x: Any, k: Any) -> Any:
    for _ in range(int(k[0])):
        x = x * 2
        if x.abs().max() > 8:
            return x - 1
    return x


def counts_in_counts(x: Any, k: Any) -> Any:
    for i in range(int(k[0])):
        for j in range(i):
            x = x + i * j
    return x


def counts_beside_a_dynamic_axis(x: Any, k: Any) -> Any:
    for _ in range(int(k[0])):
        for j in range(x.shape[0]):
            x = x + j
    return x


def appends(x: Any, k: Any) -> Any:
    outputs = []
    for _ in range(int(k[0]) + 1):
        x = torch.cos(x)
        outputs.append(x)
    return torch.stack(outputs)


def writes(x: Any, k: Any) -> Any:
    y = torch.zeros_like(x)
    for i in (x > 0).nonzero().squeeze(1):
        y[i] = x[i] * 2
    return y


def has_no_value_before(x: Any, k: Any) -> Any:
    for i in range(int(k[0]) + 1):
        h = x * i
    return h


def goes_through_found(x: Any, k: Any) -> Any:
    s = torch.zeros(())
    for i, each in enumerate(k[k > 2]):
        s = s + each * i * x.mean()
    return s


def goes_through_unique(x: Any, k: Any) -> Any:
    outputs = []
    for each in torch.unique(k):
        outputs.append((k == each).sum() * x.sum())
    return torch.stack(outputs)


def goes_through_a_list(x: Any, k: Any) -> Any:
    s = torch.zeros(())
    for each in k[k > 2].tolist():
        s = s + each * x.mean()
    return s


def goes_through_pairs(x: Any, k: Any) -> Any:
    s = torch.zeros(())
    found = k[k > 2]
    for a, b in zip(found, found.flip(0), strict=True):
        s = s + a * b
    return s


def goes_through_both(x: Any, k: Any) -> Any:
    s = torch.zeros(())
    for a in x[x > 0]:
        for b in k[k > 2]:
            s = s + a * b
    return s


def returns_what_it_finds(x: Any, k: Any) -> Any:
    for each in k[k > 2]:
        if each > 4:
            return each * x
    return x - 1


def keeps_the_best(x: Any, k: Any) -> Any:
    best, where = -9.0, -1
    for i, each in enumerate(x[x > -1]):
        if each > best:
            best, where = each, i
    return torch.zeros(2) + best, torch.zeros(2) + where


def while_below_a_tensor(x: Any, k: Any) -> Any:
    i = 0
    while i < k[0]:
        i += 1
        if i % 2 == 0:
            continue
        x = x * 2 + i
    return x, i


def while_a_tensor_counts(x: Any, k: Any) -> Any:
    i = torch.tensor(0)
    while i < k[0]:
        x = x + i
        i = i + 1
        if x.sum() > 20:
            break
    return x, i


def generates(x: Any, k: Any) -> Any:
    while k.shape[0] < 8 and k[-1] != 0:
        k = torch.cat([k, ((k.sum() * 7 + 3) % 5)[None]])
    return k


def removes(x: Any, k: Any) -> Any:
    n = torch.tensor(0)
    while k.numel() > 0:
        k = k[k != k[0]]
        n = n + 1
    return n


def collects(x: Any, k: Any) -> Any:
    found = torch.zeros(0)
    for i in range(k.shape[0]):
        found = torch.cat([found, x[x > i - 2]])
    return found


def collects_some(x: Any, k: Any) -> Any:
    found = k[:0]
    for i in range(k.shape[0]):
        if k[i] > 2:
            found = torch.cat([found, k[i : i + 1]])
    return found


def suppresses(x: Any, k: Any) -> Any:
    order, kept = x.argsort(), k[:0]
    while order.numel() > 0:
        kept = torch.cat([kept, order[:1]])
        order = order[1:][(x[order[1:]] - x[order[0]]).abs() > 0.5]
    return kept


def queues(x: Any, k: Any) -> Any:
    n = torch.tensor(0)
    while k.numel() > 0 and n < 20:
        first, k = k[0], k[1:]
        n = n + 1
        if first > 1:
            k = torch.cat([k, (first // 2)[None]])
    return n


def broadcasts_at_first(x: Any, k: Any) -> Any:
    h, s = torch.zeros(1), 0
    while s < 20:
        size = h.shape[0]
        h = h * 2 + x
        s = s + size + 1
    return h, s


def shortens(x: Any, k: Any) -> Any:
    for i in range(int((k > 4).sum())):
        x = x[1:] if i % 2 == 0 else x
    return x


def loops_in_a_function_of_its_own(x: Any, k: Any) -> Any:
    def run(y: Any) -> Any:
        for each in k[k > 2]:
            y = y + each
        return y

    return run(x) * 2


@pytest.mark.parametrize(
    "function",
    [
        counts_by_item,
        counts_from_and_by,
        counts_down,
        counts_to_the_greatest,
        counts_with_a_branch,
        counts_until_break,
        counts_until_return,
        counts_in_counts,
        counts_beside_a_dynamic_axis,
        appends,
        writes,
        has_no_value_before,
        goes_through_found,
        goes_through_unique,
        goes_through_a_list,
        goes_through_pairs,
        goes_through_both,
        returns_what_it_finds,
        keeps_the_best,
        while_below_a_tensor,
        while_a_tensor_counts,
        generates,
        removes,
        collects,
        collects_some,
        suppresses,
        queues,
        broadcasts_at_first,
        shortens,
        loops_in_a_function_of_its_own,
    ],
    ids=lambda function: function.__name__,
)
def test_loops(function: Any, tmp_path: pathlib.Path) -> None:
    agrees(function, tmp_path, inputs(), DYNAMIC)


def test_constant_sizes(tmp_path: pathlib.Path) -> None:
    generator = torch.Generator().manual_seed(0)
    of = [(torch.randn(6, generator=generator), torch.tensor([k, 3])) for k in (2, 0, 7)]
    agrees(counts_by_item, tmp_path, of, None)


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = nn.Embedding(7, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 7)

    def forward(self, tokens: Any) -> Any:
        for _ in range(6):
            hidden = self.layer(self.embedding(tokens))
            new = self.head(hidden[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], 1)
            if (new == 2).all():
                break
        return tokens


def test_tokens_are_generated_until_the_end(tmp_path: pathlib.Path) -> None:
    texts = [[[1, 4]], [[1, 4, 3]], [[1], [0], [5]], [[6], [6], [5]]]
    agrees(Generator().eval(), tmp_path, [(torch.tensor(text),) for text in texts], ({0: "batch", 1: "length"},))


@pytest.mark.parametrize("function", [counts_by_item, returns_what_it_finds, counts_beside_a_dynamic_axis])
def test_torch_export_runs_twice(function: Any, tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    """At a loop or a branch that can be a node, opbridge's own capture takes over from torch.export."""
    export, runs = torch.export.export, []

    def counted(*args: Any, **kwargs: Any) -> Any:
        runs.append(args)
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", counted)
    agrees(function, tmp_path, inputs()[:2], DYNAMIC)
    assert len(runs) <= 2
