"""How the tensors of a program are passed to ``forward``, and how its results are returned.

The class of a model with another form than ``forward(x0, x1, …)`` has a static method ``arranged``, which makes the
arguments of the call out of the tensors.
"""

from __future__ import annotations

import dataclasses
import inspect
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Output:
    value: Any
    rest: Any = None


torch.export.register_dataclass(Output)


@dataclasses.dataclass(frozen=True)
class Form:
    """``parameters`` of forward, the lines that unpack them, and the ``arguments`` of a call, as source."""

    parameters: str
    unpacking: tuple[str, ...]
    arguments: str
    constants: str = ""  # the values of parameters that are not tensors

    @property
    def changes(self) -> tuple[str, ...]:
        """Lines that do to the tensors what ``forward`` does to them before the first statement."""
        return (self.constants, *self.unpacking) if self.constants else ()

    def lines(self, count: int) -> list[str]:
        """The method ``arranged``, for so many tensors."""
        tensors = ", ".join(f"x{i}" for i in range(count))
        return [
            "    @staticmethod",
            f"    def arranged({tensors}):",
            f"        return (lambda *args, **kwargs: (args, kwargs))({self.arguments})",
            "",
        ]


def draw_form(rng: random.Random, count: int) -> Form | None:
    """None for ``forward(x0, x1, …)``."""
    if rng.random() < 0.65:
        return None
    names = [f"x{i}" for i in range(count)]
    head, last = ", ".join(names[:-1]), names[-1]
    before = f"{head}, " if head else ""
    every = ", ".join(names)
    forms = [
        Form("batch", (f"{every}, = batch",), f"({every},)"),
        Form("batch", (f"{every}, = batch",), f"[{every}]"),
        Form(
            "batch",
            tuple(f'{name} = batch["{name}"]' for name in names),
            f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}",
        ),
        Form(
            f"{before}rest",
            (f'{last} = rest["inner"][0]',),
            f'{before}{{"inner": [{last}], "none": None}}',
        ),
        Form(f"{before}*, {last}", (), f"{before}{last}={last}"),
        Form(f"{before}{last}, mask=None, scale=1.0", (f"{last} = {last} if mask is None else mask",), every),
        Form(
            f"{before}{last}, mask=None, scale=1.0",
            (f"{last} = {last} * scale",),
            f"{every}, None, scale=2.0",
            "scale = 2.0",
        ),
        Form(
            f"{before}flag, times, {last}",
            (f"{last} = {last} * times if flag else {last}",),
            f"{before}True, 2, {last}",
            "flag, times = True, 2",
        ),
        Form(f"{before}pair", (f"{last} = pair.second",), f"{before}Pair(1, {last})"),
        Form(f"{before}*args", (f"{last}, = args",), every),
    ]
    return rng.choice(forms)


def draw_return(rng: random.Random, names: Sequence[str]) -> str:
    """The expression that ``forward`` returns."""
    every = ", ".join(names)
    if rng.random() < 0.7:
        return every
    head, last = ", ".join(names[:-1]), names[-1]
    return rng.choice(
        (
            f"[{every}]",
            f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}",
            f'{{"all": ({every},), "none": None}}',
            f"Output({last}, ({head},))" if head else f"Output({last})",
            f"Pair({last}, [{head}])",
            f"({every}, None)",
        )
    )


def arguments_of(module: torch.nn.Module, tensors: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a call."""
    arranged = getattr(module, "arranged", None)
    return (tuple(tensors), {}) if arranged is None else arranged(*tensors)


def options_of(module: torch.nn.Module, count: int, by_tensor: dict[str, Any] | None) -> dict[str, Any]:
    """The options of opbridge.export that follow from the form; ``by_tensor`` has the dynamic dims of ``x0``, ….

    The inputs of the ONNX model are called ``x0``, … too.
    """
    if not hasattr(module, "arranged"):
        return {"dynamic_shapes": by_tensor}
    args, kwargs = arguments_of(module, [_Place(i) for i in range(count)])
    bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    names = [f"x{leaf.index}" for leaf in pytree.tree_leaves(dict(bound)) if isinstance(leaf, _Place)]
    if by_tensor is None:
        return {"input_names": names}

    def dims(leaf: Any) -> Any:
        return by_tensor.get(f"x{leaf.index}") if isinstance(leaf, _Place) else None

    return {
        "input_names": names,
        "dynamic_shapes": {name: pytree.tree_map(dims, value) for name, value in bound.items()},
    }


@dataclasses.dataclass(frozen=True)
class _Place:
    """Stands for a tensor."""

    index: int
