"""Draws small ONNX graphs and runs each with and without the optimizations of ONNX Runtime.

Where the two differ, or only one loads, an optimization changes what a graph computes. opbridge must not write such a
graph: see src/runtimes/onnxruntime. The graphs need no capture, so that hundreds run in a second.

    python -m hunt.graphs --minutes 5 --seed 7
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

FLOATS = ("float32", "float64")
NUMBERS = ("float32", "float64", "int64", "int32")
ALL = (*NUMBERS, "bool", "uint8")
SHAPES = [(2, 3, 4, 4), (1, 4, 5, 5), (2, 4, 8), (3, 4), (1, 4), (1, 1, 4, 4)]
SPECIAL = [np.nan, np.inf, -0.0, -20, 100]  # of the inputs
SCALARS = [0, 1, -1, 2, 0.5, 1e-5, -0.0, 6, 1.702, 0.044715, math.sqrt(2), math.sqrt(2 / math.pi)]
OPSET = 20


class Tensor(NamedTuple):
    name: str
    dtype: str
    shape: tuple[int, ...]


class Graph:
    """A graph that grows by random nodes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arrays = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        dtype = self.random.choice(NUMBERS)
        self.inputs = [Tensor(f"x{i}", dtype, self.random.choice(SHAPES)) for i in range(self.random.choice([1, 2]))]
        self.values = list(self.inputs)
        count = self.random.randint(2, 9)
        while len(self.nodes) < count:
            self.random.choice(KINDS)(self)

    def pick(self, dtypes: Sequence[str] = ALL, rank: int | None = None, least_rank: int = 0) -> Tensor | None:
        fitting = [
            value
            for value in self.values
            if value.dtype in dtypes
            and len(value.shape) >= least_rank
            and (rank is None or len(value.shape) == rank)
            and math.prod(value.shape) > 0
        ]
        return fitting[-1] if fitting and self.random.random() < 0.6 else self.random.choice(fitting or [None])

    def constant(self, array: object, dtype: str = "int64") -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array).astype(dtype), name))
        return name

    def normal(self, *shape: int, dtype: str = "float32") -> str:
        return self.constant(self.arrays.standard_normal(shape), dtype)

    def add(self, op: str, inputs: Sequence[str], dtype: str, shape: Sequence[int], **attributes: object) -> Tensor:
        result = Tensor(f"v{len(self.nodes)}", dtype, tuple(shape))
        self.nodes.append(helper.make_node(op, inputs, [result.name], **attributes))
        self.values.append(result)
        return result

    def model(self) -> onnx.ModelProto:
        """Returns what no node reads, and sometimes another value."""
        made = self.values[len(self.inputs) :]
        read = {name for node in self.nodes for name in node.input}
        outputs = [value for value in made if value.name not in read]
        if self.random.random() < 0.4:
            outputs += [value for value in made if value.name in read][:1]
        inputs = [
            helper.make_tensor_value_info(x.name, helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)), x.shape)
            for x in self.inputs
        ]
        results = [onnx.ValueInfoProto(name=value.name) for value in outputs]
        graph = helper.make_graph(self.nodes, "drawn", inputs, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)

    def feeds(self) -> dict[str, np.ndarray]:
        feeds = {}
        for x in self.inputs:
            array = self.arrays.standard_normal(x.shape) * 3
            if x.dtype in FLOATS and self.random.random() < 0.3:
                array.flat[self.random.randrange(array.size)] = self.random.choice(SPECIAL)
            feeds[x.name] = array.astype(x.dtype)
        return feeds


def _unary(g: Graph) -> None:
    if x := g.pick(FLOATS):
        names = "Relu Sigmoid Tanh Exp Neg Abs Sqrt Reciprocal Erf Floor Round Softplus LeakyRelu Elu Identity Log"
        g.add(g.random.choice(names.split()), [x.name], x.dtype, x.shape)


def _arithmetic(g: Graph) -> None:
    if not (x := g.pick(NUMBERS)):
        return
    op = g.random.choice(["Add", "Mul", "Sub", "Div"] if x.dtype in FLOATS else ["Add", "Mul", "Sub"])
    if g.random.random() < 0.6:
        other = g.constant(g.random.choice(SCALARS), x.dtype)
    elif g.random.random() < 0.5:
        sizes = [size if g.random.random() < 0.5 else 1 for size in x.shape]
        other = g.normal(*sizes[g.random.randint(0, len(sizes)) :], dtype=x.dtype)
    else:
        other = g.random.choice([y.name for y in g.values if (y.dtype, y.shape) == (x.dtype, x.shape)])
    operands = [x.name, other]
    g.random.shuffle(operands)
    g.add(op, operands, x.dtype, x.shape)


def _cast(g: Graph) -> None:
    if x := g.pick():
        dtype = g.random.choice([*ALL, "float16"])
        y = g.add("Cast", [x.name], dtype, x.shape, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        if dtype == "float16" or g.random.random() < 0.3:
            g.add("Cast", [y.name], "float32", x.shape, to=onnx.TensorProto.FLOAT)


def _power(g: Graph) -> None:
    if x := g.pick(FLOATS):
        exponent = g.constant(g.random.choice([2, 3, 0.5, 1, -1]), x.dtype)
        g.add("Pow", [x.name, exponent], x.dtype, x.shape)


def _reduction(g: Graph) -> None:
    if x := g.pick(("float32", "int32"), least_rank=1):
        axis = g.random.randrange(len(x.shape))
        op = g.random.choice(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"])
        shape = [1 if i == axis else size for i, size in enumerate(x.shape)]
        g.add(op, [x.name, g.constant([axis])], x.dtype, shape, keepdims=1)


def _transpose(g: Graph) -> None:
    if x := g.pick(least_rank=2):
        order = g.random.sample(range(len(x.shape)), len(x.shape))
        g.add("Transpose", [x.name], x.dtype, [x.shape[i] for i in order], perm=order)


def _reshape(g: Graph) -> None:
    if x := g.pick():
        count = math.prod(x.shape)
        shape = g.random.choice([[count], [1, count], [*x.shape, 1], [1, *x.shape], list(x.shape[::-1]) or [1]])
        g.add("Reshape", [x.name, g.constant(shape)], x.dtype, shape)


def _slice(g: Graph) -> None:
    if x := g.pick(least_rank=1):
        axis = g.random.randrange(len(x.shape))
        start, end, step = g.random.choice([(0, None, 1), (0, -1, 1), (1, None, 1), (0, None, 2), (0, 1, 1)])
        size = len(range(x.shape[axis])[start:end:step])
        parts = [g.constant([number]) for number in (start, 2**62 if end is None else end, axis, step)]
        g.add("Slice", [x.name, *parts], x.dtype, [*x.shape[:axis], size, *x.shape[axis + 1 :]])


def _pad(g: Graph) -> None:
    if x := g.pick(("float32",), least_rank=1):
        before, after = ([g.random.choice([0, 0, 1]) for _ in x.shape] for _ in range(2))
        shape = [a + size + b for a, size, b in zip(before, x.shape, after, strict=True)]
        value = g.constant(g.random.choice([0, 1, -1]), "float32")
        g.add("Pad", [x.name, g.constant([*before, *after]), value], x.dtype, shape)


def _convolution(g: Graph) -> None:
    if x := g.pick(("float32",), rank=4):
        channels, size = x.shape[1], g.random.choice([1, 3])
        groups = g.random.choice([1, channels])
        weight = g.normal(channels, channels // groups, size, size)
        bias = [g.normal(channels)] if g.random.random() < 0.5 else []
        form = {"group": groups, "kernel_shape": [size, size], "pads": [size // 2] * 4}
        g.add("Conv", [x.name, weight, *bias], x.dtype, x.shape, **form)


def _pool(g: Graph) -> None:
    if (x := g.pick(("float32",), rank=4)) and min(x.shape[2:]) >= 3:
        op = g.random.choice(["MaxPool", "AveragePool"])
        g.add(op, [x.name], x.dtype, x.shape, kernel_shape=[3, 3], pads=[1] * 4)


def _product(g: Graph) -> None:
    if x := g.pick(FLOATS, least_rank=2):
        columns = g.random.choice([1, 3, 4])
        shape = [*x.shape[:-1], columns]
        y = g.add("MatMul", [x.name, g.normal(x.shape[-1], columns, dtype=x.dtype)], x.dtype, shape)
        if g.random.random() < 0.5:
            bias = g.normal(*g.random.choice([(columns,), (1,), (), (1, columns)]), dtype=x.dtype)
            g.add("Add", [y.name, bias], x.dtype, shape)


def _clip(g: Graph) -> None:
    if x := g.pick(NUMBERS):
        bounds = g.random.choice([(0, 6), (-1, 1), (0, None), (None, 3), (2, 1)])
        names = ["" if bound is None else g.constant(bound, x.dtype) for bound in bounds]
        g.add("Clip", [x.name, *names], x.dtype, x.shape)


def _selection(g: Graph) -> None:
    if x := g.pick(NUMBERS):
        condition = g.add(g.random.choice(["Greater", "Less"]), [x.name, g.constant(0, x.dtype)], "bool", x.shape)
        if g.random.random() < 0.5:
            condition = g.add("Not", [condition.name], "bool", x.shape)
        g.add("Where", [condition.name, x.name, g.constant(1, x.dtype)], x.dtype, x.shape)


def _concatenation(g: Graph) -> None:
    if x := g.pick(least_rank=1):
        y = g.random.choice([y for y in g.values if (y.dtype, y.shape) == (x.dtype, x.shape)])
        axis = g.random.randrange(len(x.shape))
        shape = [size * 2 if i == axis else size for i, size in enumerate(x.shape)]
        g.add("Concat", [x.name, y.name], x.dtype, shape, axis=axis)


def _gather(g: Graph) -> None:
    if x := g.pick(least_rank=1):
        axis = g.random.randrange(len(x.shape))
        indices = np.array(g.random.choice([0, -1, [0], [0, x.shape[axis] - 1], [[0]]]))
        shape = [*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]]
        g.add("Gather", [x.name, g.constant(indices)], x.dtype, shape, axis=axis)


def _softmax(g: Graph) -> None:
    if x := g.pick(("float32",), least_rank=1):
        g.add(g.random.choice(["Softmax", "LogSoftmax"]), [x.name], x.dtype, x.shape, axis=-1)


def _gelu(g: Graph) -> None:
    if x := g.pick(FLOATS):
        scaled = g.add("Div", [x.name, g.constant(math.sqrt(2), x.dtype)], x.dtype, x.shape)
        part = g.add("Erf", [scaled.name], x.dtype, x.shape)
        whole = g.add("Add", [part.name, g.constant(1, x.dtype)], x.dtype, x.shape)
        product = g.add("Mul", [x.name, whole.name], x.dtype, x.shape)
        g.add("Mul", [product.name, g.constant(0.5, x.dtype)], x.dtype, x.shape)


def _normalization(g: Graph) -> None:
    if not (x := g.pick(FLOATS, least_rank=1)):
        return
    rows, axes = [*x.shape[:-1], 1], g.constant([-1])
    if g.random.random() < 0.6:
        mean = g.add("ReduceMean", [x.name, axes], x.dtype, rows, keepdims=1)
        x = g.add("Sub", [x.name, mean.name], x.dtype, x.shape)
    squares = g.add("Pow", [x.name, g.constant(2, x.dtype)], x.dtype, x.shape)
    variance = g.add("ReduceMean", [squares.name, axes], x.dtype, rows, keepdims=1)
    shifted = g.add("Add", [variance.name, g.constant(g.random.choice([1e-5, 1]), x.dtype)], x.dtype, rows)
    root = g.add("Sqrt", [shifted.name], x.dtype, rows)
    y = g.add("Div", [x.name, root.name], x.dtype, x.shape)
    for op in ("Mul", "Add"):
        if g.random.random() < 0.7:
            shape = g.random.choice([(x.shape[-1],), (1,), ()])
            y = g.add(op, [y.name, g.normal(*shape, dtype=x.dtype)], x.dtype, x.shape)


def _quantization(g: Graph) -> None:
    if x := g.pick(("float32",)):
        levels = [g.constant(g.random.choice([0.1, 0.05, 1]), "float32"), g.constant(128, "uint8")]
        y = g.add("QuantizeLinear", [x.name, *levels], "quantized", x.shape)
        g.add("DequantizeLinear", [y.name, *levels], x.dtype, x.shape)


KINDS: list[Callable[[Graph], None]] = [
    *[_unary, _arithmetic, _cast, _transpose] * 3,
    *[_power, _reduction, _reshape, _slice, _pad, _convolution, _pool, _product, _clip, _selection],
    *[_concatenation, _gather, _softmax, _gelu, _normalization, _quantization],
]


def _results(model: onnx.ModelProto, feeds: dict[str, np.ndarray], optimized: bool) -> list[np.ndarray] | Exception:
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimized else levels.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, feeds)
    except Exception as error:
        return error


def differ(plain: list[np.ndarray], optimized: list[np.ndarray]) -> bool:
    for a, b in zip(plain, optimized, strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return True
        if a.dtype.kind != "f":
            if (a != b).any():
                return True
            continue
        size = np.abs(a[np.isfinite(a)]).max(initial=1)
        tolerance = 1e-3 if a.dtype.itemsize > 2 else 2e-2
        if not np.allclose(a, b, rtol=tolerance, atol=tolerance * 1e-2 * min(size, 1e6), equal_nan=True):
            return True
    return False


def outcome_of(seed: int) -> str:
    """``same``, ``invalid`` where the graph does not run without optimizations either, or what is wrong."""
    with np.errstate(all="ignore"):
        graph = Graph(seed)
        model, feeds = graph.model(), graph.feeds()
        plain = _results(model, feeds, optimized=False)
        if isinstance(plain, Exception):
            return "invalid"
        optimized = _results(model, feeds, optimized=True)
        if isinstance(optimized, Exception):
            return f"fails: {optimized}"
        return "differs" if differ(plain, optimized) else "same"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--case", type=int, help="print one graph and its results, by its seed")
    options = parser.parse_args()
    if options.case is not None:
        graph = Graph(options.case)
        model, feeds = graph.model(), graph.feeds()
        print(onnx.printer.to_text(model), feeds)
        for optimized in (False, True):
            print("optimized" if optimized else "plain", _results(model, feeds, optimized))
        return
    print(f"seed {options.seed}")
    counts: Counter[str] = Counter()
    end = time.monotonic() + options.minutes * 60
    seed = options.seed
    while time.monotonic() < end:
        outcome = outcome_of(seed)
        counts[outcome.split(":")[0]] += 1
        if outcome not in ("same", "invalid"):
            print(seed, [node.op_type for node in Graph(seed).nodes], outcome[:200])
        seed += 1
    print(dict(counts))


if __name__ == "__main__":
    main()
