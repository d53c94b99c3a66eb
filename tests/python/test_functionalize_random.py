"""Functionalized random programs of views, in-place and pure operators, against PyTorch."""

import collections
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest
import torch
from functionalize_check import check
from hypothesis import strategies as st

from opbridge import UnsupportedError

# Each step of a program applies an operator to one of the tensors so far; `a` and `b` choose its arguments.


def shape_of(count: int, a: int, b: int) -> list[int]:
    """A shape with `count` elements."""
    shape = []
    for choice in (a, b):
        factors = [f for f in range(1, count + 1) if count % f == 0]
        shape.append(factors[choice % len(factors)])
        count //= shape[-1]
    return [*shape, count] if a % 2 else [count, *shape]


def axis_of(t, a):
    return a % t.dim()


def sliced(t, a, b):
    axis = axis_of(t, a)
    start = b % t.shape[axis]
    return t[(slice(None),) * axis + (slice(start, start + 1 + a % 3, 1 + b % 2),)]


def permuted(t, a, b):
    axes = list(range(t.dim()))
    axes.insert(a % len(axes), axes.pop(b % len(axes)))
    return t.permute(axes)


def narrowed(t, a, b):
    axis = axis_of(t, a)
    length = 1 + b % t.shape[axis]
    return t.narrow(axis, -length, length)


def unflattened(t, a, b):
    axis = axis_of(t, a)
    return t.unflatten(axis, (-1, 2)) if t.shape[axis] % 2 == 0 else t.unflatten(axis, (1, -1))


def assigned(t, a, b):
    t[a % t.shape[0]] = b


def added_to_last(t, a, b):
    t[..., b % t.shape[-1]] += a


def filled_where(t, a, b):
    t[t > a - 3] = b


def added(t, a, b, other):
    t.add_(other.to(t.dtype), alpha=a)


VIEWS = [
    lambda t, a, b: t.reshape(shape_of(t.numel(), a, b)),
    lambda t, a, b: t.flatten(axis_of(t, a)),
    lambda t, a, b: t.transpose(axis_of(t, a), axis_of(t, b)),
    lambda t, a, b: t.select(axis_of(t, a), b % t.shape[axis_of(t, a)]),
    lambda t, a, b: t.unsqueeze(a % (t.dim() + 1)),
    lambda t, a, b: t.squeeze(),
    lambda t, a, b: t.squeeze(axis_of(t, a)),
    lambda t, a, b: t.expand(1 + a % 2, *t.shape),
    lambda t, a, b: t.split(1 + b, axis_of(t, a))[0],
    lambda t, a, b: t.chunk(1 + b, axis_of(t, a))[-1],
    lambda t, a, b: t.unbind(axis_of(t, a))[-1],
    lambda t, a, b: t.diagonal(a % 2, 0, 1) if t.dim() > 1 else None,
    lambda t, a, b: t.movedim(axis_of(t, a), axis_of(t, b)),
    lambda t, a, b: t.mT if t.dim() > 1 else None,
    lambda t, a, b: t.detach(),
    lambda t, a, b: t.contiguous(),
    lambda t, a, b: t.to(t.dtype),
    lambda t, a, b: t.view(shape_of(t.numel(), a, b)) if t.is_contiguous() else None,
    sliced,
    permuted,
    narrowed,
    unflattened,
]
PURE = [
    lambda t, a, b: t + a,
    lambda t, a, b: -t,
    lambda t, a, b: t.clone(),
    lambda t, a, b: torch.cat([t, t], axis_of(t, a)),
    lambda t, a, b: torch.where(t > a, t, -t),
    lambda t, a, b: t.sum(axis_of(t, a)),
    lambda t, a, b: torch.zeros_like(t),
    lambda t, a, b: t.long(),
]
WRITES = [
    lambda t, a, b: t.add_(a),
    lambda t, a, b: t.mul_(a - 2),
    lambda t, a, b: t.relu_(),
    lambda t, a, b: t.fill_(a),
    lambda t, a, b: t.zero_(),
    lambda t, a, b: t.clamp_(-a, b),
    lambda t, a, b: t.masked_fill_(t > a, b),
    lambda t, a, b: t.remainder_(a + 1),
    lambda t, a, b: t.gt_(a),
    lambda t, a, b: t.index_add_(
        axis_of(t, a), torch.zeros(1, dtype=torch.int64), t.narrow(axis_of(t, a), 0, 1).clone()
    ),
    lambda t, a, b: t.transpose_(axis_of(t, a), axis_of(t, b)),
    lambda t, a, b: t.squeeze_(),
    lambda t, a, b: t.unsqueeze_(a % (t.dim() + 1)),
    assigned,
    added_to_last,
    filled_where,
]
WRITES_OF_OTHER = [lambda t, a, b, other: t.copy_(other), added]


def repeats_elements(t: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for stride, size in zip(t.stride(), t.shape, strict=True))


def program(steps: list[tuple[str, int, int, int, int]]) -> Callable[..., Any]:
    def forward(x, y):
        tensors = [x * 1, y + 0, torch.zeros(2, 6)]
        for kind, index, which, a, b in steps:
            t = tensors[which % len(tensors)]
            if t.dim() == 0 or t.numel() == 0 or t.numel() > 64 or (kind != "view" and repeats_elements(t)):
                continue
            if kind == "other":
                other = tensors[a % len(tensors)].clone()
                sizes = zip(reversed(other.shape), reversed(t.shape), strict=False)
                if other.dim() > t.dim() or any(m not in (1, n) for m, n in sizes):
                    continue
                WRITES_OF_OTHER[index % 2](t, a, b, other)
                continue
            table = {"view": VIEWS, "pure": PURE, "write": WRITES}[kind]
            result = table[index % len(table)](t, a, b)
            if result is not None:
                tensors.append(result)
        return tuple(tensors[-5:])

    return forward


small = st.integers(0, 5)
kinds = st.sampled_from(["view", "view", "view", "write", "write", "write", "other", "pure"])
steps = st.lists(st.tuples(kinds, st.integers(0, 21), st.integers(0, 30), small, small), min_size=8, max_size=25)


@pytest.mark.parametrize("how", ["trace", "export"])
def test_random_programs(how):
    @hypothesis.settings(max_examples={"trace": 150, "export": 25}[how], deadline=None, derandomize=True, database=None)
    @hypothesis.given(steps)
    def holds(steps):
        function = program(steps)
        x, y = torch.arange(-5.0, 7.0).reshape(3, 4), torch.tensor([2.0, -1.0, 0.0, 3.0])
        try:
            function(x.clone(), y.clone())
        except RuntimeError:
            hypothesis.assume(False)  # PyTorch refuses the program itself
        try:
            check(function, x, y, how=how)
            outcomes["equal"] += 1
        except UnsupportedError as error:
            if "call .clone() before writing" not in str(error):
                raise
            outcomes["refused"] += 1

    outcomes: collections.Counter[str] = collections.Counter()
    holds()
    assert outcomes["refused"] <= 0.05 * outcomes["equal"], outcomes
