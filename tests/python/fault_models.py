"""Small models that show faults of ONNX Runtime, and how to tell that a fault is there."""

from __future__ import annotations

import pathlib
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Arrays = Mapping[str, np.ndarray | np.generic | TensorProto]


def load(
    nodes: str, feeds: Arrays, constants: Arrays, opset: int = 21, threads: int = 0, optimized: str = ""
) -> onnxruntime.InferenceSession:
    """A session that returns ``y``, and ``z`` if there is one, which the nodes make; these are in ONNX's text form.

    The file ``optimized`` gets the nodes by which the runtime replaces them.
    """
    graph = onnx.parser.parse_graph(f"fault () => () {{ {nodes} }}")
    made = {name for node in graph.node for name in node.output}
    for name, array in feeds.items():
        element_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, element_type, array.shape))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in "yz" if name in made)
    for name, value in constants.items():
        tensor = value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value))
        tensor.name = name
        graph.initializer.append(tensor)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.optimized_model_filepath = optimized
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(nodes: str, feeds: Arrays, constants: Arrays) -> list[np.ndarray]:
    return load(nodes, feeds, constants).run(None, dict(feeds))


@dataclass(frozen=True, eq=False)
class Fault:
    file: str  # the file of src/runtimes/onnxruntime that has the rewrite
    what: str
    nodes: str
    feeds: Arrays
    constants: Arrays
    shows: Callable[[Fault], bool]  # whether the installed runtime has it
    opset: int = 21
    since: tuple[int, int] = (1, 20)  # the first version that is known to have it
    until: tuple[int, int] | None = None  # the last one, if a later version is known not to have it
    threads: int = 0
    without: frozenset[str] = frozenset()  # features of x86 processors; with any of them, the fault does not occur

    def load(self, optimized: str = "") -> onnxruntime.InferenceSession:
        return load(self.nodes, self.feeds, self.constants, self.opset, self.threads, optimized)

    def run(self) -> list[np.ndarray]:
        return self.load().run(None, dict(self.feeds))


def computes(is_wrong: Callable[..., object]) -> Callable[[Fault], bool]:
    return lambda fault: bool(is_wrong(*fault.run()))


def computes_other_than(*right: object) -> Callable[[Fault], bool]:
    return computes(lambda y: not np.array_equal(y.ravel(), right, equal_nan=y.dtype.kind == "f"))


def fails(*errors: type[Exception], match: str = "") -> Callable[[Fault], bool]:
    def shows(fault: Fault) -> bool:
        try:
            fault.run()
        except errors as error:
            return re.search(match, str(error)) is not None
        return False

    return shows


def dequantizes_at_each_run(fault: Fault) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "optimized.onnx"
        fault.load(str(path))
        return "DequantizeLinear" in {node.op_type for node in onnx.load(path).graph.node}


def loses_updates(fault: Fault) -> bool:
    """Whether some of the runs lose updates. It depends on the scheduler of the system."""
    total = len(fault.feeds["updates"])
    return any(fault.run()[0] != total for _ in range(50))
