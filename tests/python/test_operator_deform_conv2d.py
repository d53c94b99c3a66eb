"""opbridge::deform_conv2d through both hosts, against the definition written out in NumPy, and against
torchvision where it can be loaded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from operator_models import run_node, scratch_in_torch

from opbridge import operators


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    operators.load_operators()
    operators.load_operators(operators.COMPAT)


@dataclass(frozen=True)
class Case:
    batch: int = 1
    channels: int = 4
    size: tuple[int, int] = (7, 9)
    out_channels: int = 6
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    offset_groups: int = 1
    mask: bool = True
    bias: bool = True

    def out_size(self) -> tuple[int, int]:
        spans = zip(self.size, self.pad, self.dilation, self.kernel, self.stride, strict=True)
        h, w = ((s + 2 * p - d * (k - 1) - 1) // t + 1 for s, p, d, k, t in spans)
        return h, w

    def attributes(self) -> dict[str, int]:
        pairs = {"stride": self.stride, "pad": self.pad, "dilation": self.dilation}
        result = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
        return {**result, "groups": self.groups, "offset_groups": self.offset_groups}

    def inputs(self, dtype: type = np.float32, spread: float = 2.0) -> dict[str, np.ndarray | None]:
        rng = np.random.default_rng(0)
        taps, out = self.kernel[0] * self.kernel[1], self.out_size()

        def normal(*shape: int) -> np.ndarray:
            return rng.standard_normal(shape).astype(dtype)

        return {
            "input": normal(self.batch, self.channels, *self.size),
            "weight": normal(self.out_channels, self.channels // self.groups, *self.kernel),
            "offset": normal(self.batch, 2 * self.offset_groups * taps, *out) * dtype(spread),
            "mask": normal(self.batch, self.offset_groups * taps, *out) if self.mask else None,
            "bias": normal(self.out_channels) if self.bias else None,
        }


CASES = {
    "plain": Case(),
    "version 1": Case(mask=False),
    "no bias": Case(bias=False),
    "version 1, no bias": Case(mask=False, bias=False),
    "batch": Case(batch=3, channels=3, out_channels=5),
    "stride": Case(size=(12, 11), stride=(2, 3)),
    "dilation": Case(size=(12, 13), dilation=(2, 3), pad=(0, 4)),
    "kernel": Case(kernel=(2, 5), pad=(3, 0)),
    "point": Case(kernel=(1, 1), pad=(0, 0)),
    "groups": Case(channels=6, out_channels=9, groups=3),
    "depthwise": Case(channels=6, out_channels=6, groups=6),
    "offset groups": Case(channels=6, offset_groups=3),
    "crossing groups": Case(channels=12, out_channels=8, groups=4, offset_groups=6),
    "offset groups across groups": Case(channels=12, out_channels=8, groups=2, offset_groups=3),
    "many channels": Case(channels=72, out_channels=40, size=(9, 13)),
    "blocks of taps": Case(channels=200, out_channels=17, size=(6, 5)),
    "more channels than a block": Case(channels=600, out_channels=3, size=(4, 4)),
    "several tiles": Case(channels=5, size=(23, 19)),
}


def reference(case: Case, inputs: dict[str, np.ndarray | None]) -> np.ndarray:
    """The definition, in float64."""
    data = {name: None if array is None else array.astype(np.float64) for name, array in inputs.items()}
    x, weight, offset, mask, bias = data.values()
    (kernel_h, kernel_w), (out_h, out_w), (height, width) = case.kernel, case.out_size(), case.size
    taps = kernel_h * kernel_w
    in_group, in_offset = case.channels // case.groups, case.channels // case.offset_groups
    samples = np.zeros((case.batch, case.channels, taps, out_h, out_w))
    offset = offset.reshape(case.batch, case.offset_groups, taps, 2, out_h, out_w)
    rows, columns = np.mgrid[:out_h, :out_w]
    for n in range(case.batch):
        for group in range(case.offset_groups):
            channels = slice(group * in_offset, (group + 1) * in_offset)
            for tap in range(taps):
                i, j = divmod(tap, kernel_w)
                y = rows * case.stride[0] - case.pad[0] + i * case.dilation[0] + offset[n, group, tap, 0]
                x_ = columns * case.stride[1] - case.pad[1] + j * case.dilation[1] + offset[n, group, tap, 1]
                low_y, low_x = np.floor(y).astype(int), np.floor(x_).astype(int)
                value = np.zeros((in_offset, out_h, out_w))
                for dy in (0, 1):
                    for dx in (0, 1):
                        yy, xx = low_y + dy, low_x + dx
                        known = (yy >= 0) & (yy < height) & (xx >= 0) & (xx < width)
                        factor = (1 - np.abs(y - yy)) * (1 - np.abs(x_ - xx)) * known
                        value += factor * x[n, channels][:, yy.clip(0, height - 1), xx.clip(0, width - 1)]
                if mask is not None:
                    value *= mask[n, group * taps + tap]
                samples[n, channels, tap] = value
    samples = samples.reshape(case.batch, case.groups, in_group * taps, out_h * out_w)
    weight = weight.reshape(case.groups, case.out_channels // case.groups, in_group * taps)
    out = np.einsum("gok,ngkp->ngop", weight, samples).reshape(case.batch, case.out_channels, out_h, out_w)
    return out if bias is None else out + bias[:, None, None]


def in_torch(case: Case, inputs: dict[str, np.ndarray | None], use_mask: bool = True) -> np.ndarray:
    tensors = [None if array is None else torch.from_numpy(array) for array in inputs.values()]
    return torch.ops.opbridge.deform_conv2d(*tensors, *case.attributes().values(), use_mask).numpy()


def in_onnxruntime(case: Case, inputs: dict[str, np.ndarray | None], threads: int = 1, **attributes: int) -> np.ndarray:
    dtype = inputs["input"].dtype
    attributes = {**case.attributes(), **attributes}
    return run_node("deform_conv2d", inputs, outputs=(dtype,), threads=threads, **attributes)[0]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_both_hosts_agree_with_the_definition(case: Case, dtype: type, tolerance: float) -> None:
    inputs = case.inputs(dtype)
    expected = reference(case, inputs)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(in_torch(case, inputs), expected, rtol=0, atol=tolerance * scale)
    np.testing.assert_allclose(in_onnxruntime(case, inputs), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_torchvision_agrees(case: Case) -> None:
    torchvision = pytest.importorskip("torchvision")
    inputs = case.inputs()
    x, weight, offset, mask, bias = (None if a is None else torch.from_numpy(a) for a in inputs.values())
    expected = torchvision.ops.deform_conv2d(x, offset, weight, bias, case.stride, case.pad, case.dilation, mask)
    np.testing.assert_allclose(in_torch(case, inputs), expected.numpy(), rtol=1e-4, atol=1e-4)


def test_half_is_computed_in_float() -> None:
    case = Case(channels=32, out_channels=16)
    inputs = case.inputs(np.float16)
    expected = reference(case, inputs)
    np.testing.assert_allclose(in_torch(case, inputs), expected, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(in_onnxruntime(case, inputs), expected, rtol=2e-3, atol=2e-3)
    tensors = [torch.from_numpy(array).bfloat16() for array in inputs.values()]
    result = torch.ops.opbridge.deform_conv2d(*tensors, *case.attributes().values())
    rounded = {name: tensor.double().numpy() for name, tensor in zip(inputs, tensors, strict=True)}
    np.testing.assert_allclose(result.double().numpy(), reference(case, rounded), rtol=1e-2, atol=1e-2)


def test_the_attributes_have_defaults() -> None:
    case = Case(pad=(0, 0), mask=False, bias=False)
    inputs = case.inputs()
    expected = reference(case, inputs)
    np.testing.assert_allclose(run_node("deform_conv2d", inputs)[0], expected, rtol=1e-4, atol=1e-4)
    tensors = [torch.from_numpy(inputs[name]) for name in ("input", "weight", "offset")]
    np.testing.assert_allclose(torch.ops.opbridge.deform_conv2d(*tensors), expected, rtol=1e-4, atol=1e-4)


def test_use_mask_zero_ignores_the_mask() -> None:
    case = Case()
    inputs = case.inputs()
    expected = reference(case, {**inputs, "mask": None})
    inputs["mask"] = np.zeros((1, 1), np.float32)  # torchvision passes this for no mask
    np.testing.assert_allclose(in_torch(case, inputs, use_mask=False), expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(in_onnxruntime(case, inputs, use_mask=0), expected, rtol=1e-4, atol=1e-4)


def test_threads_do_not_change_the_result() -> None:
    case = Case(batch=2, channels=24, out_channels=24, size=(40, 33))
    inputs = case.inputs()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = in_torch(case, inputs)
        torch.set_num_threads(2)
        np.testing.assert_array_equal(in_torch(case, inputs), one)
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(in_onnxruntime(case, inputs, threads=1), one)
    np.testing.assert_array_equal(in_onnxruntime(case, inputs, threads=2), one)


def test_scratch_does_not_grow_with_the_batch() -> None:
    def scratch(batch: int) -> int:
        x, weight, offset = torch.randn(batch, 16, 12, 12), torch.randn(16, 16, 3, 3), torch.zeros(batch, 18, 12, 12)
        return scratch_in_torch(lambda: torch.ops.opbridge.deform_conv2d(x, weight, offset, pad_h=1, pad_w=1))

    assert scratch(40) < 4 * scratch(1)


@pytest.mark.parametrize("far", [7.0, -7.0, 1e30, -1e30, np.inf, -np.inf])
@pytest.mark.parametrize("axis", [0, 1])
def test_samples_outside_are_zero(far: float, axis: int) -> None:
    case = Case(size=(7, 7), pad=(0, 0), bias=False)
    inputs = case.inputs(spread=0.0)
    inputs["input"][:] = np.nan  # no sample may touch it
    inputs["offset"][:, axis::2] = far
    assert not in_torch(case, inputs).any()
    assert not in_onnxruntime(case, inputs).any()


def test_nan_reaches_exactly_the_pixels_that_read_it() -> None:
    case = Case(mask=False)
    inputs = case.inputs(spread=0.0)
    inputs["offset"][0, 4, 2, 3] = np.nan
    clean = reference(case, case.inputs(spread=0.0))
    for result in (in_torch(case, inputs), in_onnxruntime(case, inputs)):
        assert np.isnan(result[0, :, 2, 3]).all()
        assert np.isnan(result).sum() == case.out_channels
        np.testing.assert_allclose(np.nan_to_num(result), np.where(np.isnan(result), 0, clean), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "case",
    [Case(batch=0), Case(out_channels=0), Case(size=(0, 0), pad=(2, 2)), Case(size=(3, 0), pad=(1, 2))],
    ids=["no images", "no output channels", "only padding", "no columns but padding"],
)
def test_zero_sizes(case: Case) -> None:
    inputs = case.inputs()
    for result in (in_torch(case, inputs), in_onnxruntime(case, inputs)):
        assert result.shape == (case.batch, case.out_channels, *case.out_size())
        np.testing.assert_array_equal(result, np.broadcast_to(inputs["bias"][:, None, None], result.shape))


GOOD = Case(channels=4, out_channels=6)
HOSTILE = {
    "input of 3 dimensions": ({"input": np.zeros((4, 7, 9), np.float32)}, {}, "input must have 4 dimensions"),
    "weight of 2 dimensions": ({"weight": np.zeros((6, 4), np.float32)}, {}, "weight must have 4 dimensions"),
    "channels differ": ({"weight": np.zeros((6, 5, 3, 3), np.float32)}, {}, "channels"),
    "empty kernel": ({"weight": np.zeros((6, 4, 0, 3), np.float32)}, {}, "kernel must not be empty"),
    "huge kernel": ({"weight": np.zeros((6, 4, 10, 3), np.float32)}, {}, "larger than the padded input"),
    "offset of another size": (
        {"offset": np.zeros((1, 18, 7, 8), np.float32)},
        {},
        "offset must have the shape",
    ),
    "offset of a scalar": ({"offset": np.zeros((), np.float32)}, {}, "offset must have the shape"),
    "mask of torchvision's dummy": ({"mask": np.zeros((1, 1), np.float32)}, {}, "mask must have the shape"),
    "bias of another size": ({"bias": np.zeros(5, np.float32)}, {}, "bias must have the shape"),
    "no stride": ({}, {"stride_h": 0}, "strides and dilations must be positive"),
    "negative dilation": ({}, {"dilation_w": -1}, "strides and dilations must be positive"),
    "negative padding": ({}, {"pad_h": -1}, "padding must not be negative"),
    "overflowing padding": ({}, {"pad_h": 2**62}, "overflows"),
    "overflowing dilation": ({}, {"dilation_h": 2**62}, "overflows|larger than"),
    "no groups": ({}, {"groups": 0}, "groups and offset_groups must be positive"),
    "groups that do not divide": ({}, {"groups": 3}, "channels"),
    "offset groups that do not divide": ({}, {"offset_groups": 3}, "multiple of offset_groups"),
    "offset groups that overflow": ({}, {"offset_groups": -(2**63)}, "must be positive"),
}


@pytest.mark.parametrize(("inputs", "attributes", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_arguments_are_errors_in_both_hosts(
    inputs: dict[str, np.ndarray], attributes: dict[str, int], message: str
) -> None:
    given = {**GOOD.inputs(), **inputs}
    arguments = {**GOOD.attributes(), **attributes}
    tensors = [torch.from_numpy(array) for array in given.values()]
    with pytest.raises(RuntimeError, match=f"opbridge::deform_conv2d: .*({message})"):
        torch.ops.opbridge.deform_conv2d(*tensors, *arguments.values())
    with pytest.raises(Exception, match=f"opbridge::deform_conv2d: .*({message})"):
        run_node("deform_conv2d", given, **arguments)


@pytest.mark.parametrize("mask", [True, False])
def test_names_of_mmdeploy(mask: bool) -> None:
    case = Case(channels=6, size=(12, 11), stride=(2, 3), dilation=(1, 2), groups=3, offset_groups=2, mask=mask)
    given = case.inputs()
    inputs = {name: given[name] for name in ("input", "offset", "mask", "weight", "bias") if mask or name != "mask"}
    if not mask:
        del inputs["bias"]  # the first version has none
        given["bias"] = None
    name = "MMCVModulatedDeformConv2d" if mask else "MMCVDeformConv2d"
    attributes = {"stride": case.stride, "padding": case.pad, "dilation": case.dilation, "groups": 3}
    out = run_node(name, inputs, domain="mmdeploy", deform_groups=2, **attributes)[0]
    expected = reference(Case(**{**vars(case), "bias": mask}), given)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_an_attribute_of_another_kind_is_an_error() -> None:
    with pytest.raises(Exception, match="the attribute stride_h is not of the kind INT"):
        run_node("deform_conv2d", GOOD.inputs(), stride_h=2.0)
    with pytest.raises(Exception, match="the attribute groups is not of the kind INT"):
        run_node("deform_conv2d", GOOD.inputs(), groups="1")


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return torch.ops.opbridge.deform_conv2d(x, weight, offset, None, None, 2, 2, 1, 1)


def test_export_with_dynamic_shapes() -> None:
    def sample(batch: int, height: int, width: int) -> tuple[torch.Tensor, ...]:
        out = ((height - 1) // 2 + 1, (width - 1) // 2 + 1)
        return torch.randn(batch, 3, height, width), torch.randn(4, 3, 3, 3), torch.randn(batch, 18, *out)

    auto = torch.export.Dim.AUTO
    shapes = ({0: auto, 2: auto, 3: auto}, None, {0: auto, 2: auto, 3: auto})
    program = torch.export.export(Model(), sample(2, 9, 12), dynamic_shapes=shapes, strict=False)
    call = next(node for node in program.graph.nodes if "deform_conv2d" in str(node.target))
    assert [isinstance(size, torch.SymInt) for size in call.meta["val"].shape] == [True, False, True, True]
    inputs = sample(3, 14, 7)
    torch.testing.assert_close(program.module()(*inputs), Model()(*inputs))
    with pytest.raises(Exception, match="shape"):
        torch.export.export(Model(), (*sample(2, 9, 12)[:2], torch.zeros(2, 18, 4, 4)), strict=False)
