"""Exports programs by one exporter and compares them with PyTorch: a process of checking.pool."""

from __future__ import annotations

import functools
import pathlib
import tempfile
from typing import Any

import numpy as np
import onnxruntime
import torch

import opbridge
from checking.errors import first_line, reason
from checking.tensors import real
from checking.worker import Answer, serve
from peers.suites import Call, Program, programs


def main() -> None:
    serve(_run)


def _run(task: dict[str, Any], answer: Answer) -> None:
    known = _programs(task["suite"], task["root"])
    for index, name in enumerate(task["names"]):
        if index >= task.get("from", 0):
            answer({"start": index})
            result, detail = _result(known[name], task["exporter"])
            answer({"name": name, "result": result, "detail": detail})


@functools.cache
def _programs(suite: str, root: str) -> dict[str, Program]:
    return {program.name: program for program in programs(suite, pathlib.Path(root))}


def _result(program: Program, exporter: str) -> tuple[str, str]:
    torch.manual_seed(0)
    try:
        calls = program.calls()
    except Exception as error:
        return "not run", first_line(error)  # it needs another version of torch, or a package
    if not calls:
        return "not run", "the test calls no model"
    with tempfile.TemporaryDirectory() as folder:
        for call in calls:
            result = _result_of(call, pathlib.Path(folder) / "model.onnx", exporter)
            if result[0] != "right":
                return result
    return "right", ""


def _result_of(call: Call, path: pathlib.Path, exporter: str) -> tuple[str, str]:
    call.model.eval()
    first, second = (_eager(call, seed) for seed in (1, 2))
    if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(first, second, strict=True)):
        return "random", ""
    if exporter == "torch.onnx":
        return _by_torch(call, path, first)
    try:
        opbridge.export(call.model, call.args, path, capture=exporter, mutations_as_outputs=True, verify=True)
    except opbridge.UnsupportedError as error:
        return "refused", reason(error)
    except opbridge.VerificationError as error:
        return "wrong", first_line(error)
    except Exception as error:
        return "error", first_line(error)
    return "right", ""


def _by_torch(call: Call, path: pathlib.Path, expected: list[torch.Tensor]) -> tuple[str, str]:
    try:
        torch.onnx.export(call.model, _copied(call.args), path, dynamo=True, verbose=False)
    except Exception as error:
        return "refused", first_line(error)
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(call.args) if isinstance(leaf, torch.Tensor)]
        names = [value.name for value in session.get_inputs()]
        actual = session.run(None, {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=False)})
    except Exception as error:
        return "error", first_line(error)
    for value, wanted in zip(actual, expected, strict=False):
        if value.shape != tuple(wanted.shape) or not _is_close(value, wanted):
            return "wrong", "an output differs"
    return "right", ""


def _is_close(value: Any, wanted: torch.Tensor) -> bool:
    exact = wanted.double().numpy() if wanted.dtype == torch.bfloat16 else wanted.numpy()
    return bool(np.allclose(np.asarray(value, exact.dtype), exact, 1e-3, 1e-4, equal_nan=True))


def _eager(call: Call, seed: int) -> list[torch.Tensor]:
    torch.manual_seed(seed)
    with torch.no_grad():
        returned = call.model(*_copied(call.args))
    return [real(leaf) for leaf in torch.utils._pytree.tree_leaves(returned) if leaf is not None]


def _copied(args: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, args)


if __name__ == "__main__":
    main()
