"""Exports one model with one capture and compares it with PyTorch on two sets of inputs."""

from __future__ import annotations

import logging
import math
import os
import pathlib
import re
import tempfile
import time
import warnings
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

import opbridge
from opbridge.capture.inputs import read_inputs
from opbridge.errors import UnsupportedError
from opbridge.runtime import run, session
from opbridge.verification import feeds_for
from zoo.entry import Entry

LARGEST_SHIFT = 1e-3  # largest difference of the scores of two detections whose order may differ


def check(entry: Entry, capture: str) -> dict[str, Any]:
    """The row of the table: result ("agrees", "refused", "fails", "DIFFERS"), detail, nodes, relative, seconds."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    row: dict[str, Any] = {"name": entry.name, "capture": capture}
    try:
        model = entry.build().eval()
        inputs = [entry.inputs(variant) for variant in (0, 1)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.onnx"
            start = time.perf_counter()
            opbridge.export(
                model, (), path, kwargs=inputs[0], capture=capture, dynamic_shapes=_batch(inputs[0], entry.batched)
            )
            row["seconds"] = time.perf_counter() - start
            row["nodes"] = len(onnx.load(path, load_external_data=False).graph.node)
            row["relative"] = max(_relative(path, model, kwargs, entry.detections) for kwargs in inputs)
        if row["relative"] <= entry.tolerance:
            return row | {"result": "agrees", "detail": ""}
        rounding = max(_rounding(model, kwargs) for kwargs in inputs)
        return row | {"result": "DIFFERS", "detail": f"by {row['relative']:.1e}; eager from float64 by {rounding:.1e}"}
    except UnsupportedError as error:
        return row | {"result": "refused", "detail": _first_line(error)}
    except Exception as error:
        return row | {"result": "fails", "detail": f"{type(error).__name__}: {_first_line(error)}"}


def _batch(kwargs: dict[str, Any], batched: bool) -> dict[str, Any] | None:
    if not batched:
        return None
    return pytree.tree_map(
        lambda leaf: {0: torch.export.Dim("batch")} if isinstance(leaf, torch.Tensor) else None, kwargs
    )


def _relative(path: os.PathLike[str], model: torch.nn.Module, kwargs: dict[str, Any], detections: bool) -> float:
    running = session(path)
    names = [value.name for value in running.get_inputs()]
    actual = run(running, feeds_for(names, read_inputs(model, (), kwargs)))
    with torch.no_grad():
        expected = [leaf for leaf in pytree.tree_leaves(model(**kwargs)) if isinstance(leaf, torch.Tensor)]
    if not detections:
        return largest_relative(actual, expected)
    if not all(leaf.numel() for leaf in expected):
        raise ValueError("PyTorch detects nothing, so there is nothing to compare")
    actual = in_order_of(expected, actual)
    # torchvision rounds the box of a mask to whole pixels, so its border may differ by one pixel.
    masks = [i for i, leaf in enumerate(expected) if leaf.dim() == 4 and leaf.shape == actual[i].shape]
    others = [i for i in range(len(expected)) if i not in masks]
    differ = [float(((actual[i] - expected[i]).abs() > LARGEST_SHIFT).float().mean()) for i in masks]
    return max([largest_relative([actual[i] for i in others], [expected[i] for i in others]), *differ])


def _rounding(model: torch.nn.Module, kwargs: dict[str, Any]) -> float:
    """The difference of eager PyTorch from its results in float64; infinite if the model does not run in float64."""

    def outputs(to: torch.dtype) -> list[torch.Tensor]:
        converted = pytree.tree_map_only(
            torch.Tensor, lambda tensor: tensor.to(to) if tensor.is_floating_point() else tensor, kwargs
        )
        with torch.no_grad():
            leaves = pytree.tree_leaves(model.to(to)(**converted))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        return [tensor.double() if tensor.is_floating_point() else tensor for tensor in tensors]

    own = next((parameter.dtype for parameter in model.parameters()), torch.float32)
    try:
        narrow = outputs(own)
        return largest_relative(narrow, outputs(torch.float64))
    except RuntimeError:
        return math.inf
    finally:
        model.to(own)


def in_order_of(expected: list[torch.Tensor], actual: list[torch.Tensor]) -> list[torch.Tensor]:
    """The rows of ``actual`` in the order of ``expected``: for each expected detection the nearest remaining box of
    the same label, with a score that differs only by rounding."""
    kinds = [(a.dtype, a.shape) for a in actual] == [(e.dtype, e.shape) for e in expected]
    labels = next((i for i, e in enumerate(expected) if e.dim() == 1 and not e.is_floating_point()), None)
    scores = next((i for i, e in enumerate(expected) if e.dim() == 1 and e.is_floating_point()), None)
    if not kinds or labels is None or scores is None:
        return actual
    boxes = next(i for i, e in enumerate(expected) if e.dim() == 2 and e.shape[1] == 4)
    distances = torch.cdist(expected[boxes], actual[boxes])
    distances[expected[labels][:, None] != actual[labels][None]] = math.inf
    distances[(expected[scores][:, None] - actual[scores][None]).abs() > LARGEST_SHIFT] = math.inf
    order = []
    for row in distances:
        nearest = int(row.argmin())
        order.append(nearest)
        distances[:, nearest] = math.inf
    return [output[order] for output in actual]


def largest_relative(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference of an output, relative to its largest magnitude; infinite if type or shape differ."""
    if [(a.dtype, a.shape) for a in actual] != [(e.dtype, e.shape) for e in expected]:
        return math.inf
    return max(_difference(a, e) for a, e in zip(actual, expected, strict=True))


def _difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    if not expected.dtype.is_floating_point:
        return 0.0 if torch.equal(actual, expected) else math.inf
    a, e = actual.double(), expected.double()
    error = torch.where((a == e) | (a.isnan() & e.isnan()), 0.0, (a - e).abs())
    if not error.numel():
        return 0.0
    magnitude = float(e[e.isfinite()].abs().max()) if bool(e.isfinite().any()) else 0.0
    largest = float(error.max()) / max(magnitude, 1e-12)
    return largest if math.isfinite(largest) else math.inf


def _first_line(error: BaseException) -> str:
    """The first line of the error, or the names of the operators without a mapping."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    unmapped = [match[1] for line in lines if (match := re.fullmatch(r"(\w+::[\w.]+)  \(\d+ calls?\)", line))]
    return f"no mapping: {', '.join(unmapped)}" if unmapped else lines[0][:300]
