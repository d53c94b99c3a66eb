"""Called by the file of a fault: exports, prints both results side by side, and fails if they differ."""

from __future__ import annotations

import copy
import pathlib
import tempfile
from typing import Any

import torch
from torch.utils import _pytree as pytree

import opbridge
from checking.tensors import real
from hunt.eager import kept_by
from hunt.forms import arguments_of, options_of
from opbridge.runtime import run, session


def rerun(make: Any, runs: list[list[torch.Tensor]], settings: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        args, kwargs = arguments_of(make(), _copy(runs[0]))
        options = settings | options_of(make(), len(runs[0]), settings.get("dynamic_shapes"))
        opbridge.export(make(), args, path, kwargs=kwargs, **options)
        running = session(path)
    for inputs in runs:
        names = [value.name for value in running.get_inputs()]
        feeds = {f"x{i}": tensor for i, tensor in enumerate(_copy(inputs))}
        model, given = make().eval(), _copy(inputs)
        args, kwargs = arguments_of(model, given)
        with torch.no_grad():
            expected = [real(leaf) for leaf in pytree.tree_leaves(model(*args, **kwargs)) if leaf is not None]
        after = {f"x{i}_out": tensor for i, tensor in enumerate(given)} | {
            f"{name}_out": kept for name, kept in kept_by(model).items()
        }
        actual = run(running, {name: feeds[name] for name in names})
        outputs = [value.name for value in running.get_outputs()]
        expected += [real(after[name]) for name in outputs[len(expected) :]]
        for name, ours, theirs in zip(outputs, actual, expected, strict=True):
            print(f"{name}\n  ONNX Runtime: {ours}, {ours.dtype}\n  PyTorch:      {theirs}, {theirs.dtype}")
            torch.testing.assert_close(ours, theirs, equal_nan=True)


def _copy(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [copy.deepcopy(tensor) for tensor in tensors]
