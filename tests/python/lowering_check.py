"""Exports functions, runs them in ONNX Runtime and compares with PyTorch: values, shapes, element types."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import torch

import opbridge
from opbridge.runtime import run, session

Function = Callable[..., Any]


class _All(torch.nn.Module):
    """Calls each of the functions with the same inputs."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *args: torch.Tensor) -> dict[str, Any]:
        return {name: function(*args) for name, function in self.functions.items()}


def named_tensors(results: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    leaves = ((name, leaf) for name, result in results.items() for leaf in torch.utils._pytree.tree_leaves(result))
    return [(name, torch.as_tensor(leaf)) for name, leaf in leaves]


def check(
    functions: Function | Mapping[str, Function],
    *args: torch.Tensor,
    opset: int = 21,
    simplify: bool = True,
    dynamic: Sequence[Mapping[int, Any]] | None = None,
    also: Sequence[tuple[torch.Tensor, ...]] = (),
    rtol: float | None = None,
    atol: float | None = None,
) -> onnx.ModelProto:
    """Exports ``functions`` of ``args`` as one model and compares it with PyTorch for ``args`` and for ``also``.

    ``dynamic`` has for each argument its dynamic dims. The default tolerances are torch.testing's.
    """
    named = functions if isinstance(functions, Mapping) else {"result": functions}
    model = _All(named)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        opbridge.export(
            model,
            args,
            path,
            opset_version=opset,
            simplify=simplify,
            dynamic_shapes=None if dynamic is None else (tuple(dynamic),),
        )
        exported = onnx.load(path)
        running = session(path)
    names = [value.name for value in running.get_inputs()]
    for inputs in [args, *also]:
        expected = named_tensors(model(*(tensor.clone() for tensor in inputs)))
        actual = run(running, dict(zip(names, inputs, strict=True)))
        kinds = [(tensor.dtype, tuple(tensor.shape)) for tensor in inputs]
        for (name, wanted), got in zip(expected, actual, strict=True):
            try:
                torch.testing.assert_close(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                raise AssertionError(f"{name} of {kinds}: {error}") from None
    return exported


def operators(model: onnx.ModelProto) -> list[str]:
    """The operators of the model's nodes, in order."""
    return [node.op_type for node in model.graph.node]
