"""The installed ONNX Runtime without opbridge's operators."""

from __future__ import annotations

import functools
import os

import numpy as np
import onnx
import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as state


def run_plain(model: str | os.PathLike[str] | onnx.ModelProto, *inputs: torch.Tensor) -> list[np.ndarray]:
    """The model's outputs for ``inputs``, which are in the order of its inputs."""
    given = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    session = onnxruntime.InferenceSession(given, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return session.run(None, {name: each.numpy() for name, each in zip(names, inputs, strict=True)})


@functools.cache
def newest_opset() -> int:
    """The newest opset that the installed ONNX Runtime loads."""
    value = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    graph = onnx.helper.make_graph([], "nothing", [value], [value])
    for opset in range(onnx.defs.onnx_opset_version(), 13, -1):
        imports = [onnx.helper.make_opsetid("", opset)]
        model = onnx.helper.make_model_gen_version(graph, opset_imports=imports)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            return opset
        except (state.Fail, state.InvalidArgument):  # the latter for a newer version of the format
            continue
    raise RuntimeError("ONNX Runtime loads no model of any opset")
