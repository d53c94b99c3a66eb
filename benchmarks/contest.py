"""Runs operators in turn, each in its host, and times them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnxruntime
from onnx import helper

Contestants = dict[str, Callable[[], object]]
PAUSE = 0.005  # seconds; lets the previous contestant's threads stop spinning


def race(contestants: Contestants, rounds: int) -> dict[str, float]:
    """The shortest time of each contestant in milliseconds: disturbances can only add time."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            time.sleep(PAUSE)
            run()
            start = time.perf_counter()
            run()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: min(values) for name, values in times.items()}


def session(model: onnx.ModelProto, threads: int, library: str | None = None) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if library:
        options.register_custom_ops_library(library)
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def bound(runtime: onnxruntime.InferenceSession, feed: Mapping[str, np.ndarray]) -> Callable[[], None]:
    """A run with inputs and outputs bound to memory once, so that only the node is measured."""
    binding = runtime.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("y", "cpu")
    return lambda: runtime.run_with_iobinding(binding)


def node(
    op: str,
    domain: str,
    inputs: Mapping[str, np.ndarray],
    attributes: Mapping[str, object],
    opset: int,
    output: type = np.float32,
) -> onnx.ModelProto:
    """A model of one node with the output y."""

    def value(name: str, dtype: np.dtype) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), None)

    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), ["y"], domain=domain, **attributes)],
        "g",
        [value(name, array.dtype) for name, array in inputs.items()],
        [value("y", np.dtype(output))],
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)
