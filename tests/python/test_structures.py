"""Inputs and outputs other than tensors: scalars, None, and tensors inside of lists, dicts and dataclasses."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import nn

import opbridge


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor | None = None


torch.export.register_dataclass(Pair)


@dataclasses.dataclass
class Result:  # not known to torch
    sum: torch.Tensor
    parts: list[Part]


@dataclasses.dataclass
class Part:
    value: torch.Tensor
    scale: float = 1.5


class Attributes(dict[str, Any]):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__dict__ = self


class Detection(collections.OrderedDict[str, Any]):
    def __init__(self, boxes: torch.Tensor, scores: torch.Tensor) -> None:
        super().__init__(boxes=boxes, scores=scores)


Named = collections.namedtuple("Named", "left right")

X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int, int]] = {  # function, arguments, ONNX inputs, outputs
    "dict": (lambda d: {"sum": d["a"] + d["b"], "more": [d["a"] * 2, (d["b"] - 1,)]}, ({"a": X, "b": Y},), 2, 3),
    "list": (lambda tensors: torch.cat(tensors), ([X, Y, X],), 3, 1),
    "nested": (lambda t: t[0][0] + t[1]["k"], (((X,), {"k": Y}),), 2, 1),
    "dataclass": (lambda pair: Pair(pair.first + pair.second), (Pair(X, Y),), 2, 1),
    "dataclass unknown to torch": (lambda a: Result(a + 1, [Part(a * 2), Part(a * 3)]), (X,), 1, 5),
    "classes derived from dict": (lambda a: Attributes(a=a + 1, found=[Detection(a * 2, a[0])]), (X,), 1, 3),
    "namedtuple": (lambda n: Named(n.left + n.right, n.left * n.right), (Named(X, Y),), 2, 2),
    "none": (lambda a, b, c: (a + c if b is None else a, None), (X, None, Y), 2, 1),
    "number": (lambda a, n: a * n, (X, 3), 1, 1),
    "flags": (lambda a, f, on, how: a * f if on and how == "mul" else a, (X, 2.5, True, "mul"), 1, 1),
    "numbers out": (lambda a: (a, a.shape[0], 1.5, True), (X,), 1, 4),
    "nothing in": (lambda: torch.arange(3) * 2, (), 0, 1),
    "constant out": (lambda a: torch.ones(3), (X,), 1, 1),
    "input returned": (lambda a: a, (X,), 1, 1),
    "returned twice": (lambda a: (a + 1,) * 2, (X,), 1, 2),
}


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("case", CASES)
def test_structure(case: str, capture: Any, tmp_path: pathlib.Path) -> None:
    function, args, inputs, outputs = CASES[case]

    class Model(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    path = tmp_path / "model.onnx"
    opbridge.export(Model(), args, path, capture=capture, verify=True)
    graph = onnx.load(path).graph
    assert (len(graph.input), len(graph.output)) == (inputs, outputs)


def test_a_class_derived_from_dict_keeps_its_attributes() -> None:
    opbridge.export(lambda x: (Attributes(a=x), Detection(x, x)), (X,))
    held = torch.utils._pytree.tree_map(lambda x: x * 2, Attributes(a=X, found=Detection(X, Y)))
    assert torch.equal(held.a, X * 2)
    assert isinstance(held.found, Detection)
    assert torch.equal(held.found["scores"], Y * 2)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_keyword_arguments(capture: Any, tmp_path: pathlib.Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, scale: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
            return x * scale if bias is None else x * scale + bias

    path = tmp_path / "model.onnx"
    opbridge.export(Model(), (X,), path, kwargs={"scale": Y, "bias": X}, capture=capture, verify=True)
    assert [value.name for value in onnx.load(path).graph.input] == ["x", "scale", "bias"]


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_text_cannot_be_returned(capture: Any, tmp_path: pathlib.Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return x, "text"

    with pytest.raises(opbridge.UnsupportedError, match="returns 'text', which is neither a tensor"):
        opbridge.export(Model(), (X,), tmp_path / "model.onnx", capture=capture)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_tied_weights_and_constants(capture: Any, tmp_path: pathlib.Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("shift", torch.rand(3))
            self.plain = torch.rand(3)
            self.first, self.second = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.first(x)) + self.shift + self.plain + torch.tensor([1.0, 2.0, 3.0])

    path = tmp_path / "model.onnx"
    opbridge.export(Model(), (X,), path, capture=capture, verify=True)
    sizes = [tuple(weight.dims) for weight in onnx.load(path).graph.initializer]
    assert sizes.count((3, 3)) == 1


class KeepsFeatures(nn.Module):
    """Returns the dict that a hook fills."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.features = nn.Linear(3, 3), {}
        self.layer.register_forward_hook(self.keep)

    def keep(self, module: nn.Module, args: object, output: torch.Tensor) -> None:
        self.features["layer"] = output

    def forward(self, x: torch.Tensor) -> object:
        self.layer(x)
        return self.features


class KeepsList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.results = []

    def forward(self, x: torch.Tensor) -> object:
        self.results.clear()
        self.results.append(x + 1)
        return self.results


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dynamic", [None, ({0: "n"},)])
@pytest.mark.parametrize("kind", [KeepsFeatures, KeepsList])
@pytest.mark.parametrize("has_run", [False, True])
def test_a_container_that_the_model_keeps_is_returned(has_run, kind, dynamic, capture, tmp_path):
    model = kind()
    if has_run:
        model(torch.zeros(2, 3))
    opbridge.export(model, (torch.ones(2, 3),), tmp_path / "m.onnx", capture=capture, dynamic_shapes=dynamic)
    opbridge.verify(tmp_path / "m.onnx", model, (torch.rand(2, 3),))
