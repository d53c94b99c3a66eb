"""Checks whether a model that changes its attributes computes something else in its next call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from opbridge.capture.inputs import Inputs
from opbridge.capture.state.attributes import Attributes, restore_attributes
from opbridge.capture.state.isolated_call import restore_written
from opbridge.capture.structures import leaves_of
from opbridge.errors import UnsupportedError

_LATER_CALLS = 3


def refuse_kept_changes(model: torch.nn.Module, inputs: Inputs, changed: Sequence[str]) -> None:
    """Refuses a model if the attributes ``changed`` carry an effect of one call to the next.

    A captured program always does what the first call does. So the model is called with other inputs twice: alone, and
    after a call with the example. Both results must agree."""
    with restore_attributes(model, *inputs.others) as attributes:
        other = _varied(inputs)
        alone = called(model, other)
        if alone is None:
            other = inputs
            alone = called(model, other)
        attributes.put_back()
        called(model, inputs, seed=1)
        has_effect = False
        for _ in range(_LATER_CALLS):
            attributes.put_back_written(changed)
            kept = Attributes(model, *inputs.others)
            has_effect = not agree(alone, called(model, other))
            if has_effect or not kept.changes():
                break
        attributes.put_back()
        # A model with a random generator of its own returns other results at every call.
        if not has_effect or not agree(alone, called(model, other)):
            return
    names = ", ".join(f"'{name}'" for name in changed[:5]) + (", …" if len(changed) > 5 else "")
    raise UnsupportedError(
        f"the model keeps {names} from one call to the next and computes with it, which an exported model cannot: "
        "register it as a buffer and ask for mutations as outputs, or make it an input and an output"
    )


def called(model: torch.nn.Module, inputs: Inputs, seed: int = 0) -> list[Any] | None:
    """The leaves that the model returns; None if it fails. Restores what it overwrites."""
    copies = inputs.copied()
    with torch.random.fork_rng(devices=[]), restore_written(model):
        torch.manual_seed(seed)
        try:
            leaves = leaves_of(model(*copies.args, **copies.kwargs))
        except Exception:
            return None
        return [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def _varied(inputs: Inputs) -> Inputs:
    """The inputs with their elements reversed. Floating-point numbers also change; integers do not, since they may be
    indices."""

    def other(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        turned = leaf.flip(tuple(range(leaf.dim())))
        return turned * 0.5 + 0.25 if leaf.is_floating_point() else turned

    return inputs.map_leaves(other)


def agree(a: list[Any] | None, b: list[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(map(_equal, a, b))


def _equal(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) == isinstance(b, torch.Tensor) and bool(a == b)
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
