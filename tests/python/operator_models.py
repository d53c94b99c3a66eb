"""Models of a single custom node, and ONNX Runtime sessions that know the operators under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from opbridge import operators


def node_model(
    op: str,
    inputs: Mapping[str, np.ndarray | None],
    *,
    domain: str = "custom",
    version: int = 1,
    outputs: Sequence[np.dtype | type] = (np.float32,),
    **attributes: Any,
) -> onnx.ModelProto:
    """``op`` on inputs of these element types, all sizes open; None is an absent input."""
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
    options.register_custom_ops_library(library or operators.ort_library())
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
