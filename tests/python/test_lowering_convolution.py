"""Convolutions of integers and float64, which ONNX Runtime lacks; models of other tests cover float32."""

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge

CONVOLUTIONS = {
    "plain": lambda x, w, b: F.conv2d(x, w, b),
    "strided": lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)),
    "same": lambda x, w, b: F.conv2d(x, w, padding="same"),
    "grouped": lambda x, w, b: F.conv2d(x, w[:, :2], b, groups=2),
    "transposed": lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1), b, (2, 3), 1, (1, 2), dilation=(2, 1)),
    "transposed in groups": lambda x, w, b: F.conv_transpose2d(x, w.transpose(0, 1), stride=2, groups=2),
    "one image": lambda x, w, b: F.conv2d(x[0], w, b),
    "one dim": lambda x, w, b: F.conv1d(x[:, :, 0], w[:, :, 0], padding=1),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_integers(dtype):
    torch.manual_seed(0)
    size = 2**40 if dtype is torch.int64 else 2**15  # products that float64 cannot represent, and that wrap around
    x, weight, bias = (torch.randint(-size, size, shape).to(dtype) for shape in [(2, 4, 3, 6), (6, 4, 3, 2), (6,)])
    dynamic = [{0: torch.export.Dim.DYNAMIC}, {}, {}]
    # For int32 PyTorch supports neither dilation nor transposed convolutions.
    missing = ("strided", "transposed", "transposed in groups") if dtype is torch.int32 else ()
    functions = {name: function for name, function in CONVOLUTIONS.items() if name not in missing}
    check(functions, x, weight, bias, dynamic=dynamic, also=[(torch.cat([x, x]), weight, bias)])


def test_float64():
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(shape, dtype=torch.float64) for shape in [(2, 4, 3, 6), (6, 4, 3, 2), (6,)])
    check(CONVOLUTIONS, x, weight, bias)


@pytest.mark.parametrize("transposed", [False, True])
def test_float64_of_a_dynamic_size_needs_another_runtime(transposed, tmp_path):
    layer = (torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d)(2, 3, 2).double()
    given = (torch.rand(1, 2, 4, 4, dtype=torch.float64),), tmp_path / "model.onnx"
    dynamic = ({2: torch.export.Dim.DYNAMIC},)
    with pytest.raises(opbridge.UnsupportedError, match="float64 need an image of constant size") as refused:
        opbridge.export(layer, *given, dynamic_shapes=dynamic)
    assert str(refused.value).count("float64") == 1
    program = opbridge.export(layer, *given, dynamic_shapes=dynamic, target="onnx")
    assert [node.op_type for node in program.model_proto.graph.node] == ["ConvTranspose" if transposed else "Conv"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("stride", "added", "dilation", "padding"), [(1, 2, 4, 0), (1, 3, 4, 1), (3, 4, 5, 0)])
def test_output_padding_beyond_the_stride(stride, added, dilation, padding, dtype):
    torch.manual_seed(0)
    x, weight, bias = (torch.rand(shape, dtype=dtype) for shape in [(2, 2, 3, 4), (2, 3, 2, 2), (3,)])
    # Products of float64 need images of a constant size.
    dynamic = ({0 if dtype is torch.float64 else 2: torch.export.Dim.DYNAMIC}, {}, {})
    smaller = x[:1] if dtype is torch.float64 else x[:, :, :1]
    how = (stride, padding, (added, 0), 1, dilation)
    check(
        lambda x, w, b: F.conv_transpose2d(x, w, b, *how),
        x,
        weight,
        bias,
        dynamic=dynamic,
        also=[(smaller, weight, bias)],
    )


def test_transposed_to_nothing(tmp_path):
    class Transposed(torch.nn.Module):
        def forward(self, x, weight):
            return F.conv_transpose3d(x, weight, stride=2, padding=1, output_padding=1)

    args = torch.ones(1, 5, 1, 1, 1).half(), torch.ones(5, 1, 1, 1, 1).half()
    try:
        Transposed()(*args)
    except RuntimeError:
        pytest.skip("this PyTorch refuses an output without elements on this machine")
    opbridge.export(Transposed(), args, tmp_path / "m.onnx", capture="trace")  # torch.export refuses it
    opbridge.verify(tmp_path / "m.onnx", Transposed(), args)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed_to_nothing_at_another_size(axes):
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[axes - 1]
    weight, bias = torch.rand(2, 3, *[2] * axes), torch.rand(3)
    check(
        {
            "as large": lambda x: convolve(x, weight, bias, stride=2),
            "cut": lambda x: convolve(x, weight, bias, padding=1),
            "cut, with a stride": lambda x: convolve(x, weight, stride=2, padding=1),
            "extended": lambda x: convolve(x, weight, bias, stride=1, padding=1, output_padding=1, dilation=2),
        },
        torch.rand(2, 2, *[4] * axes),
        dynamic=({0: "b", 2: "s"},),
        also=[(torch.rand(3, 2, size, *[4] * (axes - 1)),) for size in (1, 2, 5)],
    )


def test_a_bias_that_does_not_fit_is_refused(tmp_path):
    """Some of PyTorch's kernels accept it."""
    x, weight = torch.rand(1, 3, 2, 2), torch.rand(1, 3, 1, 1)
    with pytest.raises(opbridge.UnsupportedError, match="not a vector of the input's element type"):
        opbridge.export(
            lambda x: F.conv2d(x, weight, torch.tensor([7]), padding="same"), (x,), tmp_path / "m.onnx", capture="trace"
        )
