"""A model that asks for the type of a tensor or a number gets the one that eager PyTorch has."""

from __future__ import annotations

import functools
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import opbridge
from checking.models import export_and_verify

Function = Callable[..., Any]


class OfTypes(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.scale = 7
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.function(self, x)


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if type(x) is torch.Tensor else x * 3


def number_of(value: object) -> int:
    return {int: 2, float: 3, torch.Tensor: 5, nn.Parameter: 7}.get(type(value), 11)


def of_converted(m: OfTypes, x: torch.Tensor) -> int:
    half, size = int(x.shape[0] * 0.5 + 1), float(x.shape[0])  # int and float are replaced, too
    kinds = [type(half) is int, type(size) is float, type(m.scale) is int, type(half) in (int,)]
    return sum(2**i * kind for i, kind in enumerate(kinds)) + 16 * number_of(half)


def of_classes(_: OfTypes, x: torch.Tensor) -> int:
    class Meta(type):
        def __call__(cls, *args: Any) -> Any:
            return 4

    class Made(metaclass=Meta):
        pass

    def annotated(kind: type[int], other: type | None = None) -> bool:
        return issubclass(Meta, type) and isinstance(kind, type)

    other = type("Other", (), {"number": 2})
    kinds = [
        type(other) is type,
        type(Made) is Meta,
        isinstance(Meta, type),
        annotated(int),
        type(x.shape) is torch.Size,
    ]
    return Made() + other.number + sum(2**i * kind for i, kind in enumerate(kinds))  # type: ignore[attr-defined,operator]


def of_dispatch(_: OfTypes, x: torch.Tensor) -> int:
    number = functools.singledispatch(lambda value: 2)
    number.register(int, lambda value: 3)
    number.register(torch.Tensor, lambda value: 5)
    return number(x) + 7 * number(x.shape[0])


class Image(torch.Tensor):
    pass


def of_subclasses(_: OfTypes, x: torch.Tensor) -> int:
    image = x.as_subclass(Image)
    kinds = [type(image) is Image, type(image + 1) is Image, image.__class__ is Image, type(x) is torch.Tensor]
    return sum(2**i * kind for i, kind in enumerate(kinds))


FUNCTIONS: dict[str, Function] = {
    "tensor": lambda m, x: 2 if type(x) is torch.Tensor else 3,
    "result": lambda m, x: 2 if type(x + 1) is type(x) else 3,
    "parameter": lambda m, x: 2 if type(m.weight) is nn.Parameter else 3,
    "result of a parameter": lambda m, x: 2 if type(m.weight.detach()) is torch.Tensor else 3,
    "buffer": lambda m, x: 2 if type(m.offset) is type(x) else 3,
    "name": lambda m, x: 2 if type(x).__name__ == "Tensor" else 3,
    "size": lambda m, x: 2 if type(x.shape[0]) is int else 3,
    "half a size": lambda m, x: 2 if type(x.shape[0] / 2) is float else 3,
    "comparison": lambda m, x: 2 if type(x.shape[0] > 2) is bool else 3,
    "number of elements": lambda m, x: 2 if type(x.numel()) in (int, float) else 3,
    "subclass": lambda m, x: 2 if issubclass(type(x.shape[0]), int) else 3,
    "item": lambda m, x: 2 if type(x.sum().item()) is float else 3,
    "table": lambda m, x: number_of(x) + 13 * number_of(x.shape[0]) + 169 * number_of(m.weight),
    "class": lambda m, x: 2 if x.__class__ is torch.Tensor else 3,
    "class of a parameter": lambda m, x: 2 if m.weight.__class__ is nn.Parameter else 3,
    "class of a size": lambda m, x: 2 if x.shape[0].__class__.__name__ == "int" else 3,
    "converted": of_converted,
    "classes": of_classes,
    "subclasses": of_subclasses,
    "dispatch": of_dispatch,
    "branch": lambda m, x: torch.cond(x.shape[0] > 2, twice, lambda y: y - 1, (x,)),
    "vmap": lambda m, x: torch.vmap(twice)(x),
    "gradient": lambda m, x: torch.func.grad(lambda y: twice(y).sum())(x),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:Pred is a Python constant")
def test_types_are_those_of_eager_mode(name: str, capture: Any, tmp_path: pathlib.Path) -> None:
    inputs = [torch.arange(12.0).reshape(4, 3), torch.randn(3, 3), torch.randn(1, 3)]
    for axes in ({}, {0: "n"}):
        examples = inputs if axes else inputs[:1]
        export_and_verify(OfTypes(FUNCTIONS[name]), tmp_path / "model.onnx", examples, axes, capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_only_a_capture_replaces_types(capture: Any, tmp_path: pathlib.Path) -> None:
    runs, ends = threading.Event(), threading.Event()
    seen: list[bool] = []

    def elsewhere() -> None:
        runs.wait()
        x = torch.ones(1)
        seen.append(type(x) is torch.Tensor and x.__class__ is torch.Tensor and type(x.shape[0]) is int)
        ends.set()

    def function(model: OfTypes, x: torch.Tensor) -> int:
        runs.set()
        ends.wait()
        return 2 if type(x) is torch.Tensor and x.__class__ is torch.Tensor else 3

    other = threading.Thread(target=elsewhere)
    other.start()
    opbridge.export(OfTypes(function), (torch.ones(4, 3),), tmp_path / "model.onnx", capture=capture)
    other.join()
    assert seen == [True]
    assert "type" not in globals()
    assert torch._subclasses.FakeTensor.__bases__ == (torch.Tensor,)
