"""Exported models beside eager PyTorch: both run on the same inputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

import opbridge
from opbridge.runtime import run, session

Model = Callable[..., Any]


def loaded(path: str | os.PathLike[str]) -> Callable[..., list[torch.Tensor]]:
    """The model in the file, called with its inputs in order."""
    running = session(path)
    names = [each.name for each in running.get_inputs()]
    return lambda *inputs: run(running, dict(zip(names, inputs, strict=True)))


def results(
    model: Model, exported: Callable[..., Sequence[torch.Tensor]], calls: Iterable[Sequence[torch.Tensor]]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs of a result of the exported model and PyTorch's result. PyTorch's model may write to its inputs."""
    for inputs in calls:
        copies = pytree.tree_map(lambda tensor: tensor.detach().clone(), inputs)
        returned = pytree.tree_leaves(model(*copies))
        expected = [torch.as_tensor(leaf).detach() for leaf in returned]
        yield from zip(exported(*inputs), expected, strict=True)


def compare(
    model: Model,
    exported: Callable[..., Sequence[torch.Tensor]],
    calls: Iterable[Sequence[torch.Tensor]],
    **tolerances: Any,
) -> None:
    for actual, expected in results(model, exported, calls):
        torch.testing.assert_close(actual, expected, **tolerances)


def export_and_verify(
    model: Model, path: str | os.PathLike[str], calls: Sequence[torch.Tensor], axes: Any, capture: Any
) -> None:
    """Exports a model of one input for the first call, with dynamic ``axes``, and compares all calls with PyTorch."""
    opbridge.export(model, (calls[0],), path, capture=capture, dynamic_shapes=(axes,))
    for each in calls:
        opbridge.verify(path, model, (each,))
