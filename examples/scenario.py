"""Shared by all examples: export, run in ONNX Runtime, compare with PyTorch, one row for the table of the demo."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

import opbridge
from opbridge.runtime import run

# The modules of the scenarios, in the order of the tutorial.
SCENARIOS = (
    "aten_operator",
    "torchscript_operator",
    "cpp_extension_operator",
    "operator_once",
    "onnx_function",
    "exercises",
    "language_model",
    "training_step",
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table."""

    scenario: str
    link: str  # the missing link that the scenario supplies
    nodes: str
    max_absolute: float
    max_relative: float
    seconds: float


def check(scenario: str, link: str, model: torch.nn.Module, args: tuple[Any, ...], **options: Any) -> Row:
    """Exports, runs and compares with numpy.allclose; raises AssertionError on a difference."""
    rtol, atol = options.pop("rtol", 1e-4), options.pop("atol", 1e-5)
    kwargs = options.pop("kwargs", None) or {}
    other = options.pop("verify_on", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        start = time.perf_counter()
        opbridge.export(model, args, path, kwargs=kwargs, **options)
        seconds = time.perf_counter() - start
        graph = onnx.load(path, load_external_data=False).graph
        differences = [compare(path, model, *call, rtol=rtol, atol=atol) for call in [(args, kwargs), other] if call]
    return Row(
        scenario,
        link,
        summary([node.op_type for node in graph.node]),
        max(absolute for absolute, _ in differences),
        max(relative for _, relative in differences),
        seconds,
    )


def compare(
    path: Path, model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, rtol: float, atol: float
) -> tuple[float, float]:
    """The greatest absolute and relative difference between PyTorch and ONNX Runtime."""
    session = opbridge.session(path)
    tensors = [value for value in [*args, *kwargs.values()] if isinstance(value, torch.Tensor)]
    names = [value.name for value in session.get_inputs()]
    actual = run(session, dict(zip(names, tensors, strict=True)))
    with torch.no_grad():
        expected = [leaf for leaf in torch.utils._pytree.tree_leaves(model(*args, **kwargs)) if leaf is not None]
    assert len(actual) == len(expected), f"{len(actual)} outputs in ONNX Runtime, {len(expected)} in PyTorch"
    absolute = relative = 0.0
    for a, e in zip(actual, expected, strict=True):
        ours, theirs = a.numpy(), e.numpy()
        assert ours.dtype == theirs.dtype, f"{ours.dtype} instead of {theirs.dtype}"
        assert ours.shape == theirs.shape, f"{ours.shape} instead of {theirs.shape}"
        assert np.allclose(ours, theirs, rtol=rtol, atol=atol), f"differs by {np.abs(ours - theirs).max()}"
        difference = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
        absolute = max(absolute, float(difference.max(initial=0.0)))
        # Relative to the magnitude of the whole output, because single elements may be zero.
        scale = float(np.abs(theirs.astype(np.float64)).max(initial=0.0))
        relative = max(relative, absolute / scale if scale else 0.0)
    return absolute, relative


def summary(operators: list[str]) -> str:
    """``Mul Add`` for a few nodes, a count for many."""
    return " ".join(operators) if len(operators) <= 4 else f"{len(operators)} nodes"


def table(rows: list[Row]) -> str:
    head = ("scenario", "link supplied", "ONNX nodes", "max abs", "max rel", "time")
    cells = [
        (
            row.scenario,
            row.link,
            row.nodes,
            f"{row.max_absolute:.1e}",
            f"{row.max_relative:.1e}",
            f"{row.seconds:.2f} s",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [head, *cells]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [head, *cells]]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)
