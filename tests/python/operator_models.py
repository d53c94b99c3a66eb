"""Models of a single custom node, and ONNX Runtime sessions that know the operators under test."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper

from opbridge import operators


def node_model(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    *,
    domain: str = "opbridge",
    version: int = 1,
    outputs: Sequence[np.dtype | type] = (np.float32,),
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of ``op`` on inputs of these element types and unknown sizes; None is an omitted input."""
    names = [name if array is not None else "" for name, array in inputs.items()]
    while names and not names[-1]:
        names.pop()
    results = [f"y{i}" for i in range(len(outputs))]
    graph = helper.make_graph(
        [helper.make_node(op, names, results, domain=domain, **attributes)],
        "g",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                [f"{name}_{i}" for i in range(array.ndim)],
            )
            for name, array in inputs.items()
            if array is not None
        ],
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)
            for name, dtype in zip(results, outputs, strict=True)
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def session(model: onnx.ModelProto, library: str | None = None, threads: int = 1) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    for path in [library] if library else [operators.ort_library(), operators.ort_library(operators.COMPAT)]:
        options.register_custom_ops_library(path)
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run_node(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    *,
    library: str | None = None,
    threads: int = 1,
    **options: Any,
) -> list[np.ndarray]:
    """The outputs of one node; ``options`` are those of :func:`node_model`."""
    feed = {name: array for name, array in inputs.items() if array is not None}
    return session(node_model(op, inputs, **options), library, threads).run(None, feed)


def in_torch(op: str, inputs: Mapping[str, np.ndarray | None], *, domain: str, **attributes: Any) -> list[np.ndarray]:
    """The results of ``torch.ops.domain.op``."""
    tensors = {name: None if array is None else torch.from_numpy(array) for name, array in inputs.items()}
    returned = getattr(getattr(torch.ops, domain), op)(**tensors, **attributes)
    return [tensor.numpy() for tensor in (returned if isinstance(returned, (tuple, list)) else [returned])]


def in_onnxruntime(
    op: str, inputs: Mapping[str, np.ndarray | None], *, domain: str, outputs: Sequence[type], **attributes: Any
) -> list[np.ndarray]:
    values = {name: int(value) if isinstance(value, bool) else value for name, value in attributes.items()}
    return run_node(op, inputs, domain=domain, outputs=outputs, **values)


def first_type(inputs: Mapping[str, np.ndarray | None]) -> type:
    return next(array.dtype.type for array in inputs.values() if array is not None)


def in_both_hosts(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    *,
    domain: str = "opbridge",
    outputs: Sequence[type] | None = None,
    **attributes: Any,
) -> list[np.ndarray]:
    """The outputs in PyTorch; every bit of the outputs in ONNX Runtime must equal them. ``inputs`` are in the order of
    the schema; ``outputs`` are element types, by default that of the first input."""
    kinds = outputs or [first_type(inputs)]
    expected = in_torch(op, inputs, domain=domain, **attributes)
    actual = in_onnxruntime(op, inputs, domain=domain, outputs=kinds, **attributes)
    for theirs, ours in zip(actual, expected, strict=True):
        assert theirs.dtype == ours.dtype
        np.testing.assert_array_equal(theirs, ours)
    return expected


def refused_by_both_hosts(
    message: str,
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    *,
    domain: str = "opbridge",
    outputs: Sequence[type] | None = None,
    **attributes: Any,
) -> None:
    """Both hosts raise an error with the operator's name and ``message``, a regular expression."""
    pattern = f"{domain}::{op}: .*({message})"
    with pytest.raises(RuntimeError, match=pattern):
        in_torch(op, inputs, domain=domain, **attributes)
    with pytest.raises(Exception, match=pattern):
        in_onnxruntime(op, inputs, domain=domain, outputs=outputs or [first_type(inputs)], **attributes)


def scratch_in_torch(call: Callable[[], torch.Tensor]) -> int:
    """The peak memory, in bytes, of ``call`` in PyTorch's allocator on one thread, without its results."""
    cpu, threads = torch.profiler.ProfilerActivity.CPU, torch.get_num_threads()
    torch.set_num_threads(1)  # since each thread has scratch memory of its own
    try:
        with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
            result = call()
    finally:
        torch.set_num_threads(threads)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        profile.export_chrome_trace(file.name)
        with open(file.name) as trace:
            events = [event for event in json.load(trace)["traceEvents"] if event["name"] == "[memory]"]
    held = np.cumsum([event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])])
    return int(held.max()) - result.nbytes
