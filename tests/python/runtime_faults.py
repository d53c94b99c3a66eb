"""The faults of ONNX Runtime for which opbridge rewrites models, each with the smallest model that shows it."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from fault_models import Arrays, Fault, computes, computes_other_than, dequantizes_at_each_run, fails, loses_updates
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel


def crashes(fault: Fault) -> bool:
    """Whether it kills the process."""
    folder = str(pathlib.Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); from {__name__} import *; FAULTS[{FAULTS.index(fault)}].run()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def float_weights_are_rounded(where: str, movement: str) -> Fault:
    p = np.random.default_rng(0).integers(0, 256, (50, 8), np.uint8)
    w = random(8, 6, seed=1).astype(np.float32)
    w[0, 0] = 9
    s, t, zero = np.float32(0.02), np.float32(0.1), np.uint8(128)
    expected = np.clip(np.round(((p.astype(np.float32) - zero) * s) @ w / t) + zero, 0, 255)
    return Fault(
        "float_weights.cc",
        f"float weights between quantized tensors are rounded{where}",
        f"x = DequantizeLinear(p, s, zero) {movement} a = Gemm(m, w) y = QuantizeLinear(a, t, zero)",
        {"p": p},
        {"s": s, "t": t, "zero": zero, "w": w, "sizes": np.array([50, 8])},
        computes(lambda y: (y != expected).mean() > 0.05),
        since=(1, 31),
    )


def pairs_of_products_saturate(kind: type[np.uint8] | type[np.int8]) -> Fault:
    least = np.iinfo(kind).min
    x, w = np.full((1, 64), 5.1, np.float32), np.full((64, 4), 127, np.int8)
    s, zero = np.float32(0.02), np.array(least, kind)
    return Fault(
        "saturated_products.cc",
        f"products of {kind.__name__} and int8 saturate in 16 bits",
        "q = QuantizeLinear(x, s, zero) a = DequantizeLinear(q, s, zero) b = DequantizeLinear(w, s) y = MatMul(a, b)",
        {"x": x},
        {"w": w, "s": s, "zero": zero},
        computes(lambda y: y.max() < 0.7 * 64 * 5.1 * 127 * 0.02),
        without=frozenset({"avx_vnni", "avx512_vnni"}),
    )


def factors_of_quantized_weights_are_rounded(file: str) -> Fault:
    pairs = np.random.default_rng(0).integers(0, 256, 64 * 32 // 2, np.uint8)
    nibbles = np.stack([pairs & 15, pairs >> 4], -1).reshape(64, 32).astype(np.int8)
    scale, x = np.abs(random(2, 32)).astype(np.float32), random(4, 64, seed=1).astype(np.float32)
    expected = x @ (((nibbles ^ 8) - 8) * np.repeat(scale, 32, axis=0))
    return Fault(
        file,
        "products by quantized weights round the other factor",
        "d = DequantizeLinear<axis = 0, block_size = 32>(w, scale) y = MatMul(x, d)",
        {"x": x},
        {"w": helper.make_tensor("w", TensorProto.INT4, [64, 32], pairs.tobytes(), raw=True), "scale": scale},
        computes(lambda y: 1e-4 < np.abs(y - expected).max() / np.abs(expected).max() < 0.05),
    )


def products_become_divisions() -> Fault:
    s = np.random.default_rng(0).random(10000, np.float32) + np.float32(0.5)
    x = s * np.float32(127.5)
    return Fault(
        "rounded_products.cc",
        "products by inverses become divisions",
        "inverse = Div(one, s) scaled = Mul(x, inverse) y = Round(scaled)",
        {"x": x, "s": s},
        {"one": np.float32(1)},
        computes_other_than(*np.round(x * (np.float32(1) / s))),
    )


def loses_precision(nodes: str, expected: Callable[[np.ndarray], np.ndarray]) -> Fault:
    x = random(7, 7)
    return Fault(
        "product_scales.cc",
        f"a scale of a product of float64 is rounded to float32: {nodes}",
        nodes,
        {"x": x},
        {"scale": np.float64(0.1)},
        computes(lambda y: np.abs(y - expected(x)).max() > 1e-12),
        since=(1, 31),
        until=(1, 31),
    )


IMAGE = np.ones((1, 1, 4, 4))
RMS_NORM = """
    square = Pow(x, two) mean = ReduceMean(square, last) positive = Add(mean, epsilon) root = Sqrt(positive)
    normal = Div(x, root) y = Mul(normal, w)
"""
LAYER_NORM = """
    mean = ReduceMean(u, last) centered = Sub(u, mean) square = Pow(centered, two) variance = ReduceMean(square, last)
    positive = Add(variance, epsilon) root = Sqrt(positive) normal = Div(centered, root) scaled = Mul(normal, w)
    y = Add(scaled, w)
"""


def constants_of_norm(w: np.ndarray) -> Arrays:
    return {"two": np.array(2, w.dtype), "last": np.array([-1]), "epsilon": np.array(1e-6, w.dtype), "w": w}


QUANTIZED = {"zero": np.uint8(0), "coarse": np.float32(1), "fine": np.float32(0.125)}
BOXES = {"boxes": np.ones((1, 4), np.float32), "images": np.array([0])}

FAULTS = [
    Fault(
        "attention.cc",
        "Attention of bfloat16 has no kernel",
        f"a = Cast<to = {TensorProto.BFLOAT16}>(x) b = Attention(a, a, a) y = Cast<to = {TensorProto.FLOAT}>(b)",
        {"x": np.ones((1, 1, 2, 2), np.float32)},
        {},
        fails(NoKernel),
        opset=23,
        since=(1, 31),
    ),
    Fault(
        "clip.cc",
        "(a) an infinite bound becomes the greatest number",
        "y = Clip(x, least)",
        {"x": np.array([np.inf], np.float32)},
        {"least": np.float32(0)},
        computes_other_than(np.inf),
    ),
    Fault(
        "clip.cc",
        "(b) a Clip of float64 behind a Relu does not load",
        "r = Relu(x) y = Clip(r, least, most)",
        {"x": np.ones(3)},
        {"least": np.float64(0), "most": np.float64(6)},
        fails(Fail, RuntimeException, match="[Cc]lip"),
    ),
    Fault(
        "clip.cc",
        "(c) Clip of float64 has no kernel of opset 11",
        "y = Clip(x, least, most)",
        {"x": np.ones(3)},
        {"least": np.float64(0), "most": np.float64(6)},
        fails(NoKernel),
        opset=11,
    ),
    Fault(
        "conv_transposes.cc",
        "a ConvTranspose without results fails",
        "y = ConvTranspose<pads = [1, 1]>(x, w)",
        {"x": np.ones((1, 1, 1), np.float32)},
        {"w": np.ones((1, 1, 2), np.float32)},
        fails(Fail, InvalidArgument, RuntimeException),
    ),
    Fault(
        "conv_transposes.cc",
        "a ConvTranspose with an output_padding between stride and dilation fails",
        "y = ConvTranspose<dilations = [2], output_padding = [1]>(x, w)",
        {"x": np.ones((1, 1, 3), np.float32)},
        {"w": np.ones((1, 1, 2), np.float32)},
        fails(InvalidArgument),
        since=(1, 31),
    ),
    Fault(
        "dequantized_movements.cc",
        "a dequantized Transpose does not load",
        "a = DequantizeLinear(x, scale, zero) y = Transpose(a)",
        {"x": np.zeros((3, 4), np.int8)},
        {"scale": np.float32(0.1), "zero": np.int8(0)},
        fails(Fail, match="output_dtype INT8 does not match"),
        since=(1, 31),
    ),
    Fault(
        "dequantized_weights.cc",
        "a weight is dequantized at each run",
        "d = DequantizeLinear(w, scale) y = Conv(x, d)",
        {"x": np.ones((1, 1, 4), np.float32)},
        {"w": np.ones((1, 1, 2), np.int8), "scale": np.float32(1)},
        dequantizes_at_each_run,
    ),
    factors_of_quantized_weights_are_rounded("dequantized_weights.cc"),
    Fault(
        "dequantized_weights.cc",
        "a Transpose of int8 without zero points does not load",
        "d = DequantizeLinear<axis = 0>(w, scale) t = Transpose<perm = [1, 0]>(d) y = MatMul(x, t)",
        {"x": np.ones((2, 3), np.float32)},
        {"w": np.ones((4, 3), np.int8), "scale": np.ones(4, np.float32)},
        fails(Fail, match="QuantizeLinear"),
        until=(1, 20),
    ),
    Fault(
        "descending_ranges.cc",
        "a Gather by a Range below 0 becomes a Slice",
        "i = Range(first, end, step) y = Gather(x, i)",
        {"x": np.arange(4.0), "first": np.array(3), "end": np.array(-1), "step": np.array(-1)},
        {},
        computes_other_than(3, 2, 1, 0),
    ),
    Fault(
        "element_types.cc",
        "Max of int16 has no kernel",
        "y = Max(x, x)",
        {"x": np.ones(2, np.int16)},
        {},
        fails(NoKernel),
    ),
    Fault(
        "empty_diagonals.cc",
        "a diagonal of nothing crashes",
        'y = Einsum<equation = "iji->j">(x)',
        {"x": np.zeros((2, 0, 2), np.float32)},
        {},
        crashes,
    ),
    *(
        Fault(
            "empty_divisions.cc",
            f"{op} of nothing by 0 fails",
            f"y = {op}(a, b)",
            {"a": np.zeros((0, 3), np.int64), "b": np.array([0])},
            {},
            fails(Fail),
            since=(1, 32),
        )
        for op in ("Mod", "Div")
    ),
    Fault(
        "empty_expansions.cc",
        "an Expand to nothing is removed",
        "a = Sigmoid(x) b = Expand(a, shape) y = Sigmoid(b)",
        {"x": np.ones((1, 3), np.float32)},
        {"shape": np.array([0, 3])},
        computes_other_than(),
    ),
    *(
        Fault(
            "empty_products.cc",
            f"a product of {a} and {b} fails",
            "y = MatMul(a, b)",
            {"a": np.ones(a, np.float32), "b": np.ones(b, np.float32)},
            {},
            fails(Fail),
            until=(1, 31),
        )
        for a, b in [((0, 3), (3,)), ((1, 2, 3), (0, 3, 4))]
    ),
    Fault(
        "exact_remainders.cc",
        "remainders of int64 are rounded",
        "y = Mod<fmod = 1>(a, b)",
        {"a": np.array([2**63 - 1]), "b": np.array([-6])},
        {},
        computes_other_than(1),
        until=(1, 31),
    ),
    *(
        Fault(
            "float64_layers.cc",
            f"{op} of float64 fails",
            f"y = {op}<hidden_size = 2>(x, w, r)",
            {"x": np.zeros((4, 1, 3))},
            {"w": np.ones((1, 2 * gates, 3)), "r": np.ones((1, 2 * gates, 2))},
            fails(Fail, NoKernel, RuntimeException),
        )
        for op, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]
    ),
    loses_precision("a = Mul(x, scale) y = MatMul(a, x)", lambda x: x * 0.1 @ x),
    loses_precision("a = MatMul(x, x) y = Mul(a, scale)", lambda x: x @ x * 0.1),
    Fault(
        "product_scales.cc",
        "an infinite scale of a product of float64 does not load",
        "a = MatMul(x, w) y = Mul(a, scale)",
        {"x": np.ones((2, 3))},
        {"w": np.ones((3, 2)), "scale": np.float64(np.inf)},
        fails(Fail),
        since=(1, 31),
    ),
    Fault(
        "product_scales.cc",
        "an infinite scale of a product of no terms is lost",
        "t = Transpose(x) a = MatMul(x, t) y = Mul(a, scale)",
        {"x": np.ones((2, 0), np.float32)},
        {"scale": np.float32(np.inf)},
        computes(lambda y: not np.isnan(y).any()),
    ),
    Fault(
        "product_scales.cc",
        "a product of transposed float64 has no kernel",
        "t = Transpose(x) y = MatMul(x, t)",
        {"x": np.ones((2, 3))},
        {},
        fails(NoKernel),
        until=(1, 20),
    ),
    *(
        Fault("float64_windows.cc", f"no kernel: {nodes}", nodes, {"x": IMAGE}, {"w": IMAGE}, fails(NoKernel))
        for nodes in (
            "y = Conv(x, w)",
            "y = ConvTranspose(x, w)",
            "y = AveragePool<kernel_shape = [2, 2]>(x)",
            "y = GlobalAveragePool(x)",
        )
    ),
    float_weights_are_rounded("", "m = Identity(x)"),
    float_weights_are_rounded(" behind a Reshape", "m = Reshape(x, sizes)"),
    Fault(
        "four_bit_products.cc",
        "a weight is dequantized at each run",
        "d = DequantizeLinear(w, scale) t = Transpose<perm = [1, 0]>(d) y = MatMul(x, t)",
        {"x": np.ones((2, 4), np.float32)},
        {"w": helper.make_tensor("w", TensorProto.INT4, [2, 4], bytes(4), raw=True), "scale": np.float32(1)},
        dequantizes_at_each_run,
    ),
    factors_of_quantized_weights_are_rounded("four_bit_products.cc"),
    *(
        Fault(
            "integer_einsum.cc",
            f"a sum of int64 is rounded to float64: {equation}",
            f'y = Einsum<equation = "{equation}">({", ".join("xw"[: equation.count(",") + 1])})',
            {"x": np.array([[2**53 + 1], [0]])},
            {"w": np.array([1])},
            computes_other_than(2**53 + 1),
            since=(1, 31),
        )
        for equation in ("ij->j", "ij,k->k")
    ),
    *(
        Fault(
            "integer_reductions.cc",
            f"{op} of int64 is rounded to float64",
            f"y = {op}(x)",
            {"x": np.array([2**53 + 1, neutral])},
            {},
            computes_other_than(2**53 + 1),
            since=(1, 31),
        )
        for op, neutral in [("ReduceSum", 0), ("ReduceProd", 1)]
    ),
    Fault(
        "integer_reductions.cc",
        "ReduceSum of uint64 has no kernel",
        "y = ReduceSum(x)",
        {"x": np.ones(2, np.uint64)},
        {},
        fails(NoKernel),
    ),
    Fault(
        "log_softmax.cc",
        "NaN of float64 is clipped",
        "y = LogSoftmax(x)",
        {"x": np.array([0, np.nan])},
        {},
        computes_other_than(np.nan, np.nan),
    ),
    Fault(
        "log_sum_exp.cc",
        "infinity hides NaN",
        "y = ReduceLogSumExp(x)",
        {"x": np.array([np.inf, np.nan], np.float32)},
        {},
        computes_other_than(np.nan),
        since=(1, 31),
    ),
    Fault(
        "log_sum_exp.cc",
        "large numbers are infinite at opset 28",
        "y = ReduceLogSumExp(x)",
        {"x": np.array([1000, 1000], np.float32)},
        {},
        computes(np.isinf),
        opset=28,
        since=(1, 32),
    ),
    *(
        Fault(
            "long_reductions.cc",
            f"{op} adds one element after the other",
            f"y = {op}(x, first)",
            {"x": np.full((200_000, 2), 0.1, np.float32)},
            {"first": np.array([0])},
            computes(lambda y, right=right: (np.abs(y / right - 1) > 1e-4).all()),
        )
        for op, right in [
            ("ReduceSum", 20_000),
            ("ReduceMean", 0.1),
            ("ReduceL1", 20_000),
            ("ReduceL2", 2_000**0.5),
            ("ReduceSumSquare", 2_000),
        ]
    ),
    *(
        Fault(
            "lossy_casts.cc",
            f"a float becomes {name} at once",
            f"n = Cast<to = {TensorProto.INT64}>(x) y = Cast<to = {to}>(n)",
            {"x": np.array([x])},
            {},
            computes_other_than(right),
            until=until,
        )
        for name, to, x, right, until in [
            ("a short integer", TensorProto.INT32, 5e9, 5_000_000_000 % 2**32, None),
            ("a bool", TensorProto.BOOL, 0.5, False, (1, 20)),
        ]
    ),
    *(
        Fault(
            "sampled_locations.cc",
            f"the wrong pixel is sampled at {location}",
            f'y = GridSample<padding_mode = "{padding}">(x, grid)',
            {"x": np.arange(1, 5, dtype=np.float32).reshape(1, 1, 1, 4)},
            {"grid": np.array([[[[location, 0]]]], np.float32)},
            computes_other_than(right),
            since=since,
        )
        for padding, location, right, since in [("border", 1e20, 4, (1, 20)), ("zeros", np.nan, np.nan, (1, 32))]
    ),
    Fault(
        "sampled_locations.cc",
        "coordinates are rounded before they are reflected",
        'y = GridSample<mode = "nearest", padding_mode = "reflection">(x, grid)',
        {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)},
        {"grid": np.array([[[[1.5, 0]]]], np.float32)},  # index 4.5, which reflected is 2.5, rounded to even 2
        computes_other_than(2),
    ),
    *(
        Fault(
            "pads_before_pools.cc",
            f"a Pad of zeros becomes padding of {op}",
            f"p = Pad(x, pads) y = {op}<kernel_shape = [3]>(p)",
            {"x": np.full((1, 1, 2), -3, np.float32)},
            {"pads": np.array([0, 0, 1, 0, 0, 1])},
            computes_other_than(right, right),
            opset=20,
            until=until,
        )
        for op, right, until in [("MaxPool", 0, (1, 31)), ("AveragePool", -2, (1, 20))]
    ),
    Fault(
        "pads_before_pools.cc",
        "a Pad becomes padding as large as the window",
        "p = Pad(x, pads) y = MaxPool<kernel_shape = [3]>(p)",
        {"x": np.ones((1, 1, 2), np.float32)},
        {"pads": np.array([0, 0, 3, 0, 0, 3])},
        fails(Fail, RuntimeException),
        opset=20,
        until=(1, 31),
    ),
    Fault(
        "pooled_indices.cc",
        "maxima of zeros have no indices",
        "v, z = MaxPool<kernel_shape = [2]>(x)",
        {"x": np.zeros((1, 1, 4), np.uint8)},
        {},
        computes(lambda z: (z == -1).all()),
        until=(1, 20),
    ),
    Fault(
        "products_by_vectors.cc",
        "a matrix is not transposed",
        "t = Transpose(x) y = MatMul(t, v)",
        {"x": np.array([[1, 2], [3, 4]], np.float32), "v": np.array([1, 0], np.float32)},
        {},
        computes_other_than(1, 2),
    ),
    Fault(
        "quantized_resizes.cc",
        "a Resize between quantized tensors truncates",
        'a = DequantizeLinear(x, one, zero) b = Resize<mode = "linear">(a, , scales) y = QuantizeLinear(b, one, zero)',
        {"x": np.array([[[0, 3]]], np.uint8)},
        {"one": np.float32(1), "zero": np.uint8(0), "scales": np.array([1, 1, 2], np.float32)},
        computes_other_than([[[0, 1, 2, 3]]]),
        until=(1, 20),
    ),
    *(
        Fault(
            "random_numbers.cc",
            f"{op} of opset 22 has no kernel",
            f"y = {op}<shape = [2]>()",
            {},
            {},
            fails(NoKernel),
            opset=22,
            since=(1, 31),
        )
        for op in ("RandomUniform", "RandomNormal")
    ),
    *(
        Fault(
            "recurrent_layers.cc",
            f"{op} without sequences crashes",
            f"y = {op}<hidden_size = 2>(x, w, r)",
            {"x": np.zeros((4, 0, 3), np.float32)},
            {"w": np.ones((1, 2 * gates, 3), np.float32), "r": np.ones((1, 2 * gates, 2), np.float32)},
            crashes,
        )
        for op, gates in [("LSTM", 4), ("GRU", 3)]
    ),
    Fault(
        "recurrent_layers.cc",
        "GRU without features crashes",
        "y = GRU<hidden_size = 2>(x, w, r)",
        {"x": np.zeros((4, 1, 0), np.float32)},
        {"w": np.zeros((1, 6, 0), np.float32), "r": np.ones((1, 6, 2), np.float32)},
        crashes,
    ),
    *(
        Fault(
            "recurrent_layers.cc",
            f"{op} without a state does not load",
            f"y = {op}<hidden_size = 0>(x, w, r)",
            {"x": np.zeros((4, 1, 3), np.float32)},
            {"w": np.zeros((1, 0, 3), np.float32), "r": np.zeros((1, 0, 0), np.float32)},
            fails(Fail, RuntimeException),
        )
        for op in ("LSTM", "GRU")
    ),
    Fault(
        "regions.cc",
        "RoiAlign of opset 22 has no kernel",
        "y = RoiAlign(x, boxes, images)",
        {"x": IMAGE.astype(np.float32)},
        BOXES,
        fails(NoKernel),
        opset=22,
        since=(1, 31),
    ),
    Fault(
        "repeated_quantization.cc",
        "repeated quantization is merged",
        """
        p = QuantizeLinear(x, coarse, zero) c = DequantizeLinear(p, coarse, zero)
        q = QuantizeLinear(c, fine, zero) y = DequantizeLinear(q, fine, zero)
        """,
        {"x": np.array([2.25], np.float32)},
        QUANTIZED,
        computes_other_than(2),
    ),
    Fault(
        "rms_norms.cc",
        "a normalization of float64 computes in float32",
        RMS_NORM,
        {"x": random(1, 8)},
        constants_of_norm(np.ones(8)),
        computes(lambda y: np.abs(y - random(1, 8) / np.sqrt((random(1, 8) ** 2).mean() + 1e-6)).max() > 1e-8),
        until=(1, 31),
    ),
    Fault(
        "rms_norms.cc",
        "a normalization of rows of one number is not broadcast",
        RMS_NORM,
        {"x": np.ones((2, 1), np.float32)},
        constants_of_norm(np.arange(4, dtype=np.float32)),
        fails(InvalidArgument, match="[Ss]cale"),
    ),
    Fault(
        "rms_norms.cc",
        "a normalization of what was cast does not load",
        f"u = Cast<to = {TensorProto.FLOAT}>(x) {LAYER_NORM}",
        {"x": np.ones((2, 8), np.int64)},
        constants_of_norm(np.ones(8, np.float32)),
        fails(Fail, InvalidGraph, match="LayerNormalization"),
        since=(1, 31),
    ),
    Fault(
        "rotations.cc",
        "a Cast of a Transpose in front of a product crashes",
        f"turned = Transpose<perm = [1, 0, 2]>(x) wide = Cast<to = {TensorProto.FLOAT}>(turned) y = MatMul(wide, w)",
        {"x": np.ones((3, 4, 5), np.int32)},
        {"w": np.ones((5, 2), np.float32)},
        crashes,
    ),
    Fault(
        "rotations.cc",
        "the Cast that the runtime inserts crashes too",
        "turned = Transpose<perm = [1, 0, 2]>(x) y = MatMul(turned, w)",
        {"x": np.ones((3, 4, 5), np.float16)},
        {"w": np.ones((5, 2), np.float16)},
        crashes,
        since=(1, 31),
    ),
    products_become_divisions(),
    pairs_of_products_saturate(np.uint8),
    pairs_of_products_saturate(np.int8),
    Fault(
        "scans.cc",
        "a Scan of nothing over the last axis crashes",
        """
        y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
                 body = step (float[0] v) => (float[0] negative) { negative = Neg(v) }>(x)
        """,
        {"x": np.zeros((0, 3), np.float32)},
        {},
        crashes,
    ),
    Fault(
        "scattered_reductions.cc",
        "threads write without a lock",
        'y = ScatterND<reduction = "add">(zero, indices, updates)',
        {"indices": np.zeros((1_000_000, 1), np.int64), "updates": np.ones(1_000_000, np.float32)},
        {"zero": np.zeros(1, np.float32)},
        loses_updates,
        threads=4,
    ),
    *(
        Fault(
            "newest_quantization.cc",
            f"{op} has no kernel of opset 28",
            f"y = {op}({x}, scale)",
            {x: np.ones((2, 3), dtype)},
            {"scale": np.float32(0.5)},
            fails(NoKernel),
            opset=28,
            since=(1, 32),
        )
        for op, x, dtype in [("QuantizeLinear", "x", np.float32), ("DequantizeLinear", "q", np.int8)]
    ),
    Fault(
        "skip_norms.cc",
        "a normalization of a sum by one weight does not run",
        f"u = Add(a, b) {LAYER_NORM}",
        {"a": np.ones((2, 3, 4), np.float32), "b": np.ones((2, 3, 4), np.float32)},
        constants_of_norm(np.full(1, 2.5, np.float32)),
        fails(InvalidArgument, match="SkipLayerNormalization"),
    ),
    Fault(
        "skip_norms.cc",
        "a normalization by one weight does not run",
        LAYER_NORM,
        {"u": np.ones((2, 3, 4), np.float32)},
        constants_of_norm(np.full(1, 2.5, np.float32)),
        fails(InvalidArgument, match="LayerNormalization"),
        until=(1, 20),
    ),
    *(
        Fault(
            "small_sigmoids.cc",
            f"Sigmoid of {x} is 0",
            "y = Sigmoid(x)",
            {"x": np.array(x, dtype)},
            {},
            computes(lambda y: y == 0),
        )
        for dtype, x in [(np.float32, -20), (np.float64, -40)]
    ),
    Fault(
        "transposed_outputs.cc",
        "outputs are quantized with their Transpose",
        """
        z = Neg(x) t = Transpose<perm = [1, 0]>(z)
        q = QuantizeLinear(t, coarse, zero) y = DequantizeLinear(q, coarse, zero)
        """,
        {"x": np.full((2, 3), -2.25, np.float32)},
        QUANTIZED,
        computes(lambda y, z: (z == 2).all()),  # not 2.25
    ),
]
