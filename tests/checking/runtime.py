"""Properties of the installed ONNX Runtime."""

from __future__ import annotations

import functools

import onnx
import onnxruntime


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
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
            continue
    raise RuntimeError("ONNX Runtime loads no model of any opset")
