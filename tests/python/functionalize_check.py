"""Captures functions, functionalizes their graphs, runs these line by line and compares with PyTorch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import opbridge.capture
import opbridge.dtypes
from opbridge import _core

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (torch.bool, torch.int64, torch.float32, torch.float64)}


def call(line: str, values: dict[str, Any]) -> None:
    """Runs one line of a graph's text: ``%y: float64[3] = aten::add.Tensor(self=%x, other=1)``."""
    results, name, overload, arguments = re.fullmatch(r"(.+?) = aten::(\w+)\.?(\w*)\((.*)\)(?:  #.*)?", line).groups()
    # The strides of a value do not matter, since no views are left.
    operator = getattr(torch.ops.aten, name if name != "view" else "_unsafe_view")
    operator = getattr(operator, overload or "default")
    assert not operator._schema.is_mutable, line
    python = re.sub(r"%([\w.~]+)", lambda match: f"values[{match[1]!r}]", arguments)
    python = re.sub(r"\w+='[^']*'(?:, )?", "", python)  # device, layout, memory_format
    named = eval(f"dict({python})", {"values": values, **DTYPES})
    assert list(named) == [a.name for a in operator._schema.arguments if a.name in named], line
    made = operator(**named)
    for result, value in zip(results.split(", %"), made if isinstance(made, (tuple, list)) else [made], strict=False):
        result_name, kind = result.lstrip("%").split(": ")
        assert kind.startswith(str(value.dtype).removeprefix("torch.")), line
        values[result_name] = value.contiguous().clone()


def run(graph: Any, *args: torch.Tensor) -> list[torch.Tensor]:
    header, *lines, returned, _ = str(graph).splitlines()
    names = re.findall(r"%([\w.]+): ", header)
    values: dict[str, Any] = {name: arg.clone() for name, arg in zip(names, args, strict=True)}
    for name, (element_type, dims, content) in graph.weights.items():
        values[name] = torch.frombuffer(bytearray(content), dtype=opbridge.dtypes.DTYPES[element_type]).reshape(dims)
    for line in lines:
        if not line.lstrip().startswith("weight "):
            call(line.strip(), values)
    return [values[name] for name in re.findall(r"%([\w.~]+)", returned)]


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def check(function: Callable[..., Any], *args: torch.Tensor, how: str) -> None:
    graph = opbridge.capture.capture(Model(function), args, how=how).graph
    _core.functionalize(graph)
    graph.verify()
    actual = run(graph, *args)
    expected = torch.utils._pytree.tree_leaves(function(*(arg.clone() for arg in args)))
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
