"""What modules keep in their attributes, as it was before a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch


@contextlib.contextmanager
def attributes_kept(model: torch.nn.Module) -> Iterator[None]:
    """Takes back the tensors, real or fake, that the modules assign to their attributes in the run, and what they put
    into dicts and lists that are attributes: parameters, buffers, caches."""
    before = [(vars(module), dict(vars(module))) for module in model.modules()]
    containers: dict[int, tuple[Any, Any]] = {}
    for _, values in before:
        _copy_containers(values.values(), containers)
    try:
        yield
    finally:
        for place, values in before:
            for name in [name for name, value in place.items() if isinstance(value, torch.Tensor)]:
                if name not in values:
                    del place[name]
                elif place[name] is not values[name]:
                    place[name] = values[name]
        for container, copy in containers.values():
            _restore(container, copy)


def _copy_containers(values: Iterable[Any], found: dict[int, tuple[Any, Any]]) -> None:
    """Of the dicts and lists among the values, and of those inside them."""
    for value in values:
        if isinstance(value, (dict, list)) and id(value) not in found:
            found[id(value)] = value, value.copy()
            _copy_containers(value.values() if isinstance(value, dict) else value, found)


def _restore(container: Any, copy: Any) -> None:
    if isinstance(container, dict):
        if container.keys() != copy.keys() or any(container[key] is not copy[key] for key in copy):
            container.clear()
            container.update(copy)
    elif len(container) != len(copy) or any(a is not b for a, b in zip(container, copy, strict=True)):
        container[:] = copy


@contextlib.contextmanager
def buffers_kept(model: torch.nn.Module) -> Iterator[None]:
    """Takes back what the run writes into the model's buffers."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, values in before:
            buffer.copy_(values)
