"""Operators under the names of mmcv, mmdeploy and the tutorial, in ONNX Runtime, against opbridge's own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from operator_models import node_model, run_node

import opbridge
from opbridge.operators import COMPAT, read_operators

RNG = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def dcn(masked: bool) -> dict[str, np.ndarray]:
    """The inputs of a deformable convolution with a padding of (1, 2), in mmcv's order."""
    inputs = {"input": array(2, 4, 7, 8), "offset": array(2, 18, 7, 10)}
    if masked:
        inputs["mask"] = array(2, 9, 7, 10)
    return {**inputs, "weight": array(6, 4, 3, 3)}


def own_deform_conv2d(inputs: dict[str, np.ndarray]) -> np.ndarray:
    ordered = {name: inputs.get(name) for name in ("input", "weight", "offset", "mask")}
    return run_node("deform_conv2d", ordered, pad_h=1, pad_w=2)[0]


@pytest.mark.parametrize(
    ("domain", "padding"), [("mmdeploy", [1, 2]), ("mmdeploy", [1, 1, 2, 2]), ("mmcv", [1, 2])], ids=str
)
def test_deform_conv2d(domain: str, padding: list[int]) -> None:
    attributes: dict[str, Any] = {"stride": [1, 1], "padding": padding, "dilation": [1, 1], "groups": 1}
    if domain == "mmcv":
        attributes |= {"bias": 0, "im2col_step": 32}
    inputs = dcn(masked=False)
    out = run_node("MMCVDeformConv2d", inputs, domain=domain, deform_groups=1, **attributes)[0]
    np.testing.assert_array_equal(out, own_deform_conv2d(inputs))


@pytest.mark.parametrize("domain", ["mmdeploy", "mmcv"])
def test_modulated_deform_conv2d(domain: str) -> None:
    inputs, given = dcn(masked=True), {"stride": [1, 1], "padding": [1, 2], "dilation": [1, 1]}
    out = run_node("MMCVModulatedDeformConv2d", inputs, domain=domain, groups=1, deform_groups=1, **given)[0]
    np.testing.assert_array_equal(out, own_deform_conv2d(inputs))


def test_paddings_that_differ_are_refused() -> None:
    given = {"stride": [1, 1], "dilation": [1, 1], "padding": [1, 2, 1, 2]}
    with pytest.raises(Exception, match=r"padding must be two numbers, \(height, width\), or four"):
        run_node("MMCVDeformConv2d", dcn(masked=False), domain="mmdeploy", **given)
    with pytest.raises(Exception, match="bias must be False"):
        run_node("MMCVDeformConv2d", dcn(masked=False), domain="mmcv", bias=1, **{**given, "padding": [1, 2]})


@pytest.mark.parametrize("name", ["MMCVCARAFE", "MMCVCARAFENaive"])
def test_carafe(name: str) -> None:
    inputs = {"features": array(2, 6, 4, 5), "masks": array(2, 9, 8, 10)}
    out = run_node(name, inputs, domain="mmcv", kernel_size=3, group_size=1, scale_factor=2.0)[0]
    expected = run_node("carafe", inputs, kernel_size=3, group_size=1, scale_factor=2)[0]
    np.testing.assert_array_equal(out, expected)
    with pytest.raises(Exception, match="scale_factor must be a positive integer"):
        run_node(name, inputs, domain="mmcv", kernel_size=3, group_size=1, scale_factor=1.5)


@pytest.mark.parametrize(("number", "method"), list(enumerate(["naive", "linear", "gaussian"])))
def test_soft_nms(number: int, method: str) -> None:
    low = RNG.uniform(0, 20, (40, 2))
    boxes = np.concatenate([low, low + RNG.uniform(1, 20, (40, 2))], axis=1).astype(np.float32)
    inputs = {"boxes": boxes, "scores": RNG.random(40).astype(np.float32)}
    given = {"iou_threshold": 0.25, "sigma": 0.5, "min_score": 0.0625, "offset": 1}
    types = (np.float32, np.int64)
    out = run_node("SoftNonMaxSuppression", inputs, domain="mmcv", outputs=types, method=number, **given)
    expected = run_node("soft_nms", inputs, outputs=types, method=method, **given)
    for ours, theirs in zip(out, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("domain", ["mmdeploy", "mmcv"])
def test_other_names(domain: str) -> None:
    inputs = {"input": array(2, 3, 5, 6), "grid": RNG.uniform(-1.2, 1.2, (2, 4, 3, 2)).astype(np.float32)}
    modes = {"interpolation_mode": 0, "padding_mode": 1, "align_corners": 1}
    out = run_node("grid_sampler", inputs, domain=domain, **modes)[0]
    np.testing.assert_array_equal(out, run_node("grid_sample", inputs, **modes)[0])

    rois = np.array([[0, 2.5, 2, 3, 2, 0.5], [1, 3, 3, 4, 3, -1]], np.float32)
    given = {"spatial_scale": 0.5, "sampling_ratio": 2, "aligned": 1, "clockwise": 1}
    inputs = {"input": inputs["input"], "rois": rois}
    out = run_node("MMCVRoIAlignRotated", inputs, domain=domain, output_height=3, output_width=4, **given)[0]
    np.testing.assert_array_equal(out, run_node("roi_align_rotated", inputs, output_size=[3, 4], **given)[0])


def model_of_my_add(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(node_model("my_add", {"a": array(3), "b": array(3)}, domain="custom"), path)
    return path


def test_a_session_has_these_names(tmp_path: Path) -> None:
    a, b = array(3), array(3)
    (out,) = opbridge.session(model_of_my_add(tmp_path)).run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(out, 2 * a + b)


def test_a_library_with_the_same_name_takes_precedence(tmp_path: Path) -> None:
    """The library as a reader of the tutorial builds it."""
    source = tmp_path / "mine.cc"
    source.write_text(
        '#include "opbridge/operator.h"\n'
        "using namespace opbridge::op;\n"
        'OPBRIDGE_OPERATOR("custom::my_add(Tensor a, Tensor b) -> Tensor")\n'
        "    .shape([](const Shape& a, const Shape&) { return a; })\n"
        "    .cpu([](Context&, TensorView<const float> a, TensorView<const float> b, TensorView<float> out) {\n"
        "      for (std::int64_t i = 0; i < out.size(); ++i) out[i] = 5 * a[i] + b[i];\n"
        "    });\n"
    )
    mine = f"{opbridge.build([source])}_ort.so"
    a, b = array(3), array(3)
    (out,) = opbridge.session(model_of_my_add(tmp_path), libraries=[mine]).run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(out, 5 * a + b)


def test_a_library_that_does_not_tell_its_names(tmp_path: Path) -> None:
    """It may have any name, so COMPAT is registered only if it is asked for."""
    source = tmp_path / "foreign.c"
    source.write_text("void* RegisterCustomOps(void* options, const void* base) { return 0; }\n")
    foreign = tmp_path / "libforeign.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", foreign, source], check=True)
    path = model_of_my_add(tmp_path)
    with pytest.raises(opbridge.Error, match="no kernel for the custom operator custom::my_add"):
        opbridge.session(path, libraries=[foreign])
    assert opbridge.session(path, libraries=[foreign, opbridge.ort_library(COMPAT)])


def test_no_name_is_in_both_libraries() -> None:
    assert {o.name for o in read_operators()}.isdisjoint(o.name for o in read_operators(COMPAT))
