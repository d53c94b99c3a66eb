"""The faults of ONNX Runtime for which opbridge rewrites models, each with the smallest model that shows it.

A test that fails because the runtime no longer shows its fault means that only older versions need the rewrite.
"""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import INSTALLED
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel


def _save(nodes: list[onnx.NodeProto], path: pathlib.Path) -> pathlib.Path:
    """A model from ``x`` (int32) and the constant ``w`` to ``y``."""
    graph = helper.make_graph(
        nodes,
        "fault",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [3, 4, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3, 2])],
        [numpy_helper.from_array(np.ones((5, 2), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def _run(
    nodes: list[onnx.NodeProto], feeds: dict[str, np.ndarray], constants: dict[str, np.ndarray], outputs: int = 1
) -> list[np.ndarray]:
    """The first ``outputs`` of ``y`` and ``z``."""

    def described(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    graph = helper.make_graph(
        nodes,
        "fault",
        [described(name, array) for name, array in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in "yz"[:outputs]],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _crashes(call: str) -> bool:
    """Whether an expression that uses this module kills the process."""
    code = f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r}); from {__name__} import *; {call}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0


def test_a_cast_of_a_transpose_crashes_in_front_of_a_product(tmp_path: pathlib.Path) -> None:
    """rotations.cc"""
    faulty = _save(
        [
            helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
            helper.make_node("Cast", ["turned"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["wide", "w"], ["y"]),
        ],
        tmp_path / "faulty.onnx",
    )
    load = f"import onnxruntime; onnxruntime.InferenceSession({str(faulty)!r}, providers=['CPUExecutionProvider'])"
    loading = subprocess.run([sys.executable, "-c", load], capture_output=True, check=False)
    assert loading.returncode < 0, "ONNX Runtime loads the model: src/runtimes/onnxruntime/rotations.cc is obsolete"

    rewritten = _save(
        [
            helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Transpose", ["wide"], ["turned"], perm=[1, 0, 2]),
            helper.make_node("MatMul", ["turned", "w"], ["y"]),
        ],
        tmp_path / "rewritten.onnx",
    )
    session = onnxruntime.InferenceSession(rewritten, providers=["CPUExecutionProvider"])
    x = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x.transpose(1, 0, 2) @ np.ones((5, 2), np.float32))


def test_a_maximum_of_int16_has_no_kernel() -> None:
    """element_types.cc"""
    values = [helper.make_tensor_value_info(name, TensorProto.INT16, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Max", ["x", "x"], ["y"])], "fault", values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(NoKernel):
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.skipif(INSTALLED != (1, 20), reason="the fault is known of ONNX Runtime 1.20 alone")
def test_products_without_terms_or_elements() -> None:
    """empty_products.cc"""

    def product(*shapes: tuple[int, ...]) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in zip("ab", shapes, strict=True)
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "fault", inputs, [output])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    def run(*shapes: tuple[int, ...]) -> np.ndarray:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(product(*shapes).SerializeToString(), options)
        feeds = {name: np.ones(shape, np.float32) for name, shape in zip("ab", shapes, strict=True)}
        return session.run(None, feeds)[0]

    for shapes in (((0, 3), (3,)), ((1, 2, 3), (0, 3, 4))):
        with pytest.raises(Fail):
            run(*shapes)
    np.testing.assert_array_equal(run((300, 0), (0, 1)), np.zeros((300, 1)))
    assert run((0, 3), (3, 1)).shape == (0, 1)
    assert run((0, 2, 3), (0, 3, 4)).shape == (0, 2, 4)


def test_products_by_inverses_become_divisions(tmp_path: pathlib.Path) -> None:
    """rounded_products.cc"""
    one = numpy_helper.from_array(np.float32(1), "one")
    nodes = [
        helper.make_node("Div", ["one", "s"], ["inverse"]),
        helper.make_node("Mul", ["x", "inverse"], ["scaled"]),
        helper.make_node("Round", ["scaled"], ["y"]),
    ]
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xsy"]
    graph = helper.make_graph(nodes, "fault", types[:2], types[2:], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    s = np.random.default_rng(0).random(10000, np.float32) + np.float32(0.5)
    x = s * np.float32(127.5)
    [actual] = session.run(None, {"x": x, "s": s})
    assert (actual != np.round(x * (np.float32(1) / s))).any(), "rounded_products.cc is obsolete"


def test_small_results_of_sigmoid() -> None:
    """small_sigmoids.cc"""
    for dtype, x in ((np.float32, -20), (np.float64, -40)):
        [y] = _run([helper.make_node("Sigmoid", ["x"], ["y"])], {"x": np.array([x], dtype)}, {})
        assert y == 0


@pytest.mark.skipif(INSTALLED == (1, 20), reason="ONNX Runtime 1.20 does not have the fault")
def test_float_weights_between_quantized_tensors_are_rounded() -> None:
    """float_weights.cc"""
    nodes = [
        helper.make_node("DequantizeLinear", ["p", "s", "zero"], ["x"]),
        helper.make_node("Gemm", ["x", "w"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "t", "zero"], ["y"]),
    ]
    p = np.random.default_rng(0).integers(0, 256, (50, 8), np.uint8)
    w = np.random.default_rng(1).standard_normal((8, 6), np.float32)
    w[0, 0] = 9
    s, t = np.float32(0.02), np.float32(0.1)
    constants = {"s": np.asarray(s), "t": np.asarray(t), "zero": np.asarray(np.uint8(128)), "w": w}
    [actual] = _run(nodes, {"p": p}, constants)
    expected = np.clip(np.round(((p.astype(np.float32) - 128) * s) @ w / t) + 128, 0, 255)
    assert (actual != expected).mean() > 0.05, "float_weights.cc is obsolete"


def test_products_by_quantized_weights_round_the_other_factor(tmp_path: pathlib.Path) -> None:
    """four_bit_products.cc and dequantized_weights.cc"""
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 256, 64 * 32 // 2, np.uint8)
    weights = [
        helper.make_tensor("w", TensorProto.INT4, [64, 32], pairs.tobytes(), raw=True),
        numpy_helper.from_array(rng.random((2, 32), np.float32), "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    types = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])]
    types.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32]))
    graph = helper.make_graph(nodes, "fault", types[:1], types[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    nibbles = np.stack([pairs & 15, pairs >> 4], -1).reshape(64, 32).astype(np.int8)
    dequantized = ((nibbles ^ 8) - 8) * np.repeat(numpy_helper.to_array(weights[1]), 32, axis=0)
    x = rng.standard_normal((4, 64), np.float32)
    [actual] = session.run(None, {"x": x})
    difference = np.abs(actual - x @ dequantized).max() / np.abs(actual).max()
    assert 1e-4 < difference < 0.05, "four_bit_products.cc and dequantized_weights.cc are obsolete"


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_of_float64_fail(op: str, gates: int) -> None:
    """float64_layers.cc"""
    weights = {"w": np.ones((1, 2 * gates, 3)), "r": np.ones((1, 2 * gates, 2))}
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=2)
    with pytest.raises((Fail, NoKernel, RuntimeException)):
        _run([node], {"x": np.zeros((4, 1, 3))}, weights)


def run_layer_without_sequences(op: str, gates: int) -> None:
    weights = {"w": np.ones((1, 2 * gates, 3), np.float32), "r": np.ones((1, 2 * gates, 2), np.float32)}
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=2)
    _run([node], {"x": np.zeros((4, 0, 3), np.float32)}, weights)


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3)])
def test_recurrent_layers_without_sequences_crash(op: str, gates: int) -> None:
    """recurrent_layers.cc"""
    assert _crashes(f"run_layer_without_sequences({op!r}, {gates})"), "recurrent_layers.cc is obsolete"
    run_layer_without_sequences("RNN", 1)


def run_scan_of_nothing() -> None:
    vector = helper.make_tensor_value_info("v", TensorProto.FLOAT, [0])
    result = helper.make_tensor_value_info("o", TensorProto.FLOAT, [0])
    body = helper.make_graph([helper.make_node("Neg", ["v"], ["o"])], "step", [vector], [result])
    axes = {"scan_input_axes": [1], "scan_output_axes": [1]}
    node = helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=1, **axes)
    _run([node], {"x": np.zeros((0, 3), np.float32)}, {})


def test_a_scan_of_nothing_along_the_last_axis_crashes() -> None:
    """scans.cc"""
    assert _crashes("run_scan_of_nothing()"), "scans.cc is obsolete"


def test_transposed_convolutions_fail() -> None:
    """conv_transposes.cc"""
    weight = {"w": np.ones((1, 1, 2), np.float32)}
    empty = helper.make_node("ConvTranspose", ["x", "w"], ["y"], pads=[1, 1])
    with pytest.raises((Fail, InvalidArgument, RuntimeException)):
        _run([empty], {"x": np.ones((1, 1, 1), np.float32)}, weight)
    if INSTALLED > (1, 20):
        padded = helper.make_node("ConvTranspose", ["x", "w"], ["y"], dilations=[2], output_padding=[1])
        with pytest.raises(InvalidArgument):
            _run([padded], {"x": np.ones((1, 1, 3), np.float32)}, weight)


def test_coordinates_are_rounded_before_they_are_reflected() -> None:
    """nearest_reflections.cc"""
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="nearest", padding_mode="reflection")
    grid = np.array([[[[1.5, 0]]]], np.float32)  # index 4.5, which reflected is 2.5, rounded to even 2
    [actual] = _run([node], {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)}, {"g": grid})
    assert actual.item() == 3, "nearest_reflections.cc is obsolete"


def test_an_expansion_to_nothing_is_removed() -> None:
    """empty_expansions.cc"""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["a"]),
        helper.make_node("Expand", ["a", "shape"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]
    [actual] = _run(nodes, {"x": np.ones((1, 3), np.float32)}, {"shape": np.array([0, 3])})
    assert actual.shape == (1, 3), "empty_expansions.cc is obsolete"


def test_a_gather_by_a_range_below_0_becomes_a_slice() -> None:
    """descending_ranges.cc"""
    nodes = [helper.make_node("Range", ["a", "b", "c"], ["i"]), helper.make_node("Gather", ["x", "i"], ["y"])]
    bounds = {"a": np.array(3), "b": np.array(-1), "c": np.array(-1)}
    [actual] = _run(nodes, {"x": np.arange(4, dtype=np.float32)} | bounds, {})
    assert actual.tolist() == [], "descending_ranges.cc is obsolete"


@pytest.mark.skipif(INSTALLED != (1, 32), reason="the fault is known of ONNX Runtime 1.32 alone")
def test_a_dequantized_transpose_does_not_load() -> None:
    """dequantized_movements.cc"""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["a"]),
        helper.make_node("Transpose", ["a"], ["y"]),
    ]
    constants = {"scale": np.array(0.1, np.float32), "zero": np.array(0, np.int8)}
    with pytest.raises(Fail, match="output_dtype INT8 does not match"):
        _run(nodes, {"x": np.zeros((3, 4), np.int8)}, constants)


@pytest.mark.skipif(INSTALLED != (1, 20), reason="the fault is known of ONNX Runtime 1.20 alone")
def test_maxima_of_zeros_have_no_indices() -> None:
    """pooled_indices.cc"""
    node = helper.make_node("MaxPool", ["x"], ["y", "z"], kernel_shape=[2])
    [_, indices] = _run([node], {"x": np.zeros((1, 1, 4), np.uint8)}, {}, outputs=2)
    assert indices.tolist() == [[[-1, -1, -1]]]


def _rms_norm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    nodes = [
        helper.make_node("Pow", ["x", "two"], ["square"]),
        helper.make_node("ReduceMean", ["square", "last"], ["mean"]),
        helper.make_node("Add", ["mean", "epsilon"], ["positive"]),
        helper.make_node("Sqrt", ["positive"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normal"]),
        helper.make_node("Mul", ["normal", "w"], ["y"]),
    ]
    numbers = {"two": np.array(2, x.dtype), "last": np.array([-1]), "epsilon": np.array(1e-6, x.dtype), "w": w}
    return _run(nodes, {"x": x}, numbers)[0]


@pytest.mark.skipif(INSTALLED != (1, 20), reason="the fault is known of ONNX Runtime 1.20 alone")
def test_a_normalization_of_float64_computes_in_float32() -> None:
    """rms_norms.cc"""
    x = np.random.default_rng(0).standard_normal((2, 8))
    actual = _rms_norm(x, np.ones(8))
    assert np.abs(actual - x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)).max() > 1e-8


def test_a_normalization_of_rows_of_one_number_is_not_broadcast() -> None:
    """rms_norms.cc"""
    with pytest.raises(InvalidArgument, match=r"[Ss]cale"):
        _rms_norm(np.ones((2, 1), np.float32), np.arange(4, dtype=np.float32))


@pytest.mark.skipif(INSTALLED == (1, 20), reason="ONNX Runtime 1.20 loads it")
def test_a_normalization_of_what_was_cast_does_not_load() -> None:
    """rms_norms.cc"""
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["c", "axes"], ["m"]),
        helper.make_node("Sub", ["c", "m"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["p"]),
        helper.make_node("ReduceMean", ["p", "axes"], ["v"]),
        helper.make_node("Add", ["v", "eps"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["s"]),
        helper.make_node("Div", ["d", "s"], ["n"]),
        helper.make_node("Mul", ["n", "w"], ["t"]),
        helper.make_node("Add", ["t", "w"], ["y"]),
    ]
    constants = {
        "axes": np.array([-1]),
        "two": np.float32(2),
        "eps": np.float32(1e-5),
        "w": np.ones(8, np.float32),
    }
    with pytest.raises((Fail, InvalidGraph), match="LayerNormalization"):
        _run(nodes, {"x": np.ones((2, 8), np.int64)}, constants)


def test_a_clip_of_float64_behind_a_relu_does_not_load() -> None:
    """clip.cc"""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Clip", ["r", "least", "most"], ["y"])]
    with pytest.raises(Fail, match="Clip"):
        _run(nodes, {"x": np.ones(3)}, {"least": np.float64(0), "most": np.float64(6)})


QUANTIZED = {"zero": np.uint8(0), "coarse": np.float32(1), "fine": np.float32(0.125)}


def test_repeated_quantization_is_merged() -> None:
    """repeated_quantization.cc"""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "coarse", "zero"], ["p"]),
        helper.make_node("DequantizeLinear", ["p", "coarse", "zero"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "fine", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "fine", "zero"], ["y"]),
    ]
    [y] = _run(nodes, {"x": np.array([2.25], np.float32)}, QUANTIZED)
    assert y == 2.25  # not 2


def test_outputs_are_quantized_with_their_transpose() -> None:
    """transposed_outputs.cc"""
    nodes = [
        helper.make_node("Neg", ["x"], ["z"]),
        helper.make_node("Transpose", ["z"], ["t"], perm=[1, 0]),
        helper.make_node("QuantizeLinear", ["t", "coarse", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "coarse", "zero"], ["y"]),
    ]
    _, z = _run(nodes, {"x": np.full((2, 3), -2.25, np.float32)}, QUANTIZED, outputs=2)
    assert (z == 2).all()  # not 2.25


@pytest.mark.skipif(INSTALLED == (1, 20), reason="ONNX Runtime 1.20 loads it")
def test_an_infinite_scale_of_a_product_does_not_load() -> None:
    """float64_scales.cc"""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", "scale"], ["y"])]
    constants = {"w": np.ones((3, 2)), "scale": np.array(np.inf)}
    with pytest.raises(Fail):
        _run(nodes, {"x": np.ones((2, 3))}, constants)


@pytest.mark.skipif(INSTALLED == (1, 20), reason="ONNX Runtime 1.20 has opset 21 at most")
@pytest.mark.parametrize("op", ["RandomUniform", "RandomNormal", "RoiAlign"])
def test_operators_of_opset_22_without_kernels(op: str) -> None:
    """random_numbers.cc and regions.cc"""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4]),
        helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("images", TensorProto.INT64, [1]),
    ]
    given = {"inputs": [value.name for value in inputs]} if op == "RoiAlign" else {"inputs": [], "shape": [2]}
    node = helper.make_node(op, outputs=["y"], **given)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "fault", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(NoKernel):
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.skipif(INSTALLED == (1, 20), reason="ONNX Runtime 1.20 has opset 21 at most")
def test_attention_of_bfloat16_does_not_load() -> None:
    """attention.cc"""
    inputs = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [1, 1, 2, 2]) for name in "qkv"]
    output = helper.make_tensor_value_info("y", TensorProto.BFLOAT16, None)
    graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v"], ["y"])], "fault", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with pytest.raises(NoKernel):
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _cast_twice(first: int, then: int) -> np.ndarray:
    nodes = [helper.make_node("Cast", ["x"], ["n"], to=first), helper.make_node("Cast", ["n"], ["y"], to=then)]
    return _run(nodes, {"x": np.array([5e9, 0.5])}, {})[0]


def test_floats_become_short_integers_at_once() -> None:
    """lossy_casts.cc"""
    assert _cast_twice(TensorProto.INT64, TensorProto.INT32)[0] != 5_000_000_000 % 2**32


@pytest.mark.skipif(INSTALLED != (1, 20), reason="the fault is known of ONNX Runtime 1.20 alone")
def test_floats_become_bool_at_once() -> None:
    """lossy_casts.cc"""
    assert _cast_twice(TensorProto.INT64, TensorProto.BOOL)[1]


@pytest.mark.skipif(INSTALLED != (1, 20), reason="the fault is known of ONNX Runtime 1.20 alone")
def test_remainders_of_integers_are_rounded() -> None:
    """exact_remainders.cc"""
    pair = {"a": np.array([2**63 - 1]), "b": np.array([-6])}
    assert _run([helper.make_node("Mod", ["a", "b"], ["y"], fmod=1)], pair, {})[0] != 1


@pytest.mark.skipif(INSTALLED != (1, 20), reason="the fault is known of ONNX Runtime 1.20 alone")
def test_a_product_of_transposed_float64_does_not_load() -> None:
    """float64_scales.cc"""
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("MatMul", ["x", "t"], ["y"])]
    with pytest.raises(NoKernel):
        _run(nodes, {"x": np.ones((2, 3))}, {})
