"""Pooling: windows that extend beyond the end, indices of maxima, adaptive windows."""

import onnx
import pytest
import torch
from dynamic_check import agrees
from lowering_check import check, operators
from torch.nn import functional as F

import opbridge

AVERAGES = {
    "ceil_mode": lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True),
    "ceil_mode, padding": lambda x: F.avg_pool2d(x, (3, 4), (2, 3), padding=1, ceil_mode=True),
    "ceil_mode, without padding": lambda x: F.avg_pool2d(
        x, (3, 4), 3, padding=(1, 2), ceil_mode=True, count_include_pad=False
    ),
    "ceil_mode, divisor": lambda x: F.avg_pool2d(x, 4, 3, ceil_mode=True, divisor_override=5),
    "ceil_mode along one dim": lambda x: F.avg_pool1d(x[0], 4, 3, padding=2, ceil_mode=True),
}
GREATEST = {
    "with indices": lambda x: F.max_pool2d(x, 2, return_indices=True),
    "overlapping": lambda x: F.max_pool2d(x, 3, (2, 1), padding=1, dilation=(1, 2), return_indices=True),
    "ceil_mode": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True, return_indices=True),
    "along one dim": lambda x: F.max_pool1d(x[0], 3, return_indices=True),
    "far beyond": lambda x: F.max_pool2d(x, (3, 2), 2, 1, (1, 5), ceil_mode=True, return_indices=True),
}
ADAPTIVE = {
    "mean": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "mean of more than there are": lambda x: F.adaptive_avg_pool2d(x, (11, 2)),
    "mean along one dim": lambda x: F.adaptive_avg_pool1d(x[0], 4),
    "mean of no windows": lambda x: F.adaptive_avg_pool2d(x, (3, 0)),
    "mean of equal windows": lambda x: F.adaptive_avg_pool2d(x, (None, 3)),
    "greatest": lambda x: F.adaptive_max_pool2d(x, (3, 4), return_indices=True),
    "greatest of no windows": lambda x: F.adaptive_max_pool2d(x, (0, 4), return_indices=True),
    "greatest along one dim": lambda x: F.adaptive_max_pool1d(x[0], 4, return_indices=True),
    "greatest of all": lambda x: F.adaptive_max_pool2d(x, 1, return_indices=True),
    "greatest without batch": lambda x: F.adaptive_max_pool2d(x[0], (2, 5), return_indices=True),
}
DEPENDS_ON_THE_SIZE = {"ceil_mode, without padding", "ceil_mode along one dim", "far beyond"}


def image(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(2, 3, 7, 9, dtype=dtype)


@pytest.mark.parametrize("opset", [13, 17, 21])
def test_dynamic_batch(opset):
    functions = AVERAGES | GREATEST | ADAPTIVE
    check(functions, image(), opset=opset, dynamic=[{0: torch.export.Dim.DYNAMIC}], also=[(torch.randn(5, 3, 7, 9),)])


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_maxima_along_one_dim_of_dynamic_size(tmp_path, capture, dtype):
    def model(x):
        options = {"padding": 1}, {"dilation": 2}, {"ceil_mode": True}, {"ceil_mode": True, "padding": 1, "dilation": 2}
        return F.max_pool1d(x, 2), F.max_pool1d(x[0], 4, 3), *(F.max_pool1d(x, 3, 2, **each) for each in options)

    dynamic = ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC},)
    others = [torch.randn(n, 3, length, dtype=dtype) for n, length in ((1, 9), (4, 20))]
    x = torch.randn(2, 3, 14, dtype=dtype)
    opbridge.export(model, (x,), tmp_path / "model.onnx", capture=capture, dynamic_shapes=dynamic)
    for each in (x, *others):
        opbridge.verify(tmp_path / "model.onnx", model, (each,))


def test_averages_of_float64_of_dynamic_size(tmp_path):
    """ONNX Runtime has no kernel for them."""

    def model(x):
        options = {"ceil_mode": True}, {"padding": 1, "count_include_pad": False}, {"divisor_override": 5}
        return *(F.avg_pool2d(x, (3, 2), 2, **each) for each in options), F.avg_pool1d(x[0], 3, 1, 1)

    dynamic = ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC},)
    x = image(torch.float64)
    opbridge.export(model, (x,), tmp_path / "model.onnx", dynamic_shapes=dynamic)
    for each in (x, x[:1, :, :5, :6], torch.randn(3, 3, 11, 4, dtype=torch.float64)):
        opbridge.verify(tmp_path / "model.onnx", model, (each,))


def test_infinity_stays_in_its_window():
    x = image()
    x[0, 0, 0, 0] = float("inf")
    check(ADAPTIVE, x)


def test_no_channels():
    functions = {name: f for name, f in ADAPTIVE.items() if name.startswith("mean") and name != "mean along one dim"}
    functions["mean of all"] = lambda x: F.adaptive_avg_pool2d(x, 1)
    empty = torch.zeros(2, 0, 7, 9)
    check(functions, empty)
    check(functions, image(), dynamic=[{1: torch.export.Dim.DYNAMIC}], also=[(empty,)])


def test_volumes():
    torch.manual_seed(0)
    functions = {
        "mean": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)),
        "greatest": lambda x: F.adaptive_max_pool3d(x, (2, 3, 4), return_indices=True),
        "ceil_mode": lambda x: F.avg_pool3d(x, 3, 2, padding=1, ceil_mode=True),
        "with indices": lambda x: F.max_pool3d(x, 2, return_indices=True),
    }
    check(functions, torch.randn(2, 2, 5, 4, 7))


def test_unpool():
    torch.manual_seed(0)
    pooled, indices = F.max_pool2d(torch.randn(2, 3, 6, 8), 2, return_indices=True)
    check(
        {
            "unpool": lambda x, i: F.max_unpool2d(x, i, 2),
            "to a size": lambda x, i: F.max_unpool2d(x, i, 2, output_size=(7, 9)),
            "without batch": lambda x, i: F.max_unpool2d(x[0], i[0], 2),
        },
        pooled,
        indices,
        dynamic=[{0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}],
        also=[(pooled[:1].repeat(3, 1, 1, 1), indices[:1].repeat(3, 1, 1, 1))],
    )
    check(lambda x, i: torch.ops.aten.max_unpool2d(x, i, [4, 0]), pooled, indices)  # the indices are out of range
    pooled, indices = F.max_pool3d(torch.randn(1, 2, 4, 4, 6), 2, return_indices=True)
    check(lambda x, i: F.max_unpool3d(x, i, 2), pooled, indices)


@pytest.mark.parametrize("pool", [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d])
def test_mean_of_an_image_without_elements(pool):
    sizes = (0, 4, 5)[: int(pool.__name__[-2])]
    check(lambda x: pool(x, 1), torch.rand(2, 3, *sizes))
    check(lambda x: pool(x, 1), torch.rand(3, *sizes))
    full = torch.rand(3, 2, *sizes[1:])
    check(lambda x: pool(x, 1), torch.rand(3, *sizes), dynamic=[{1: "n"}], also=[(full,)])


@pytest.mark.parametrize("opset", [11, 17])
def test_size_of_the_image_unknown(opset):
    functions = {
        "mean of all": lambda x: F.adaptive_avg_pool2d(x, 1),
        "mean in equal parts of its size": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, 3)),
        "ceil_mode, padding that does not count": lambda x: F.avg_pool2d(
            x, (3, 4), 2, padding=(1, 2), ceil_mode=True, count_include_pad=False
        ),
        "greatest, ceil_mode": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
        "greatest, ceil_mode and gaps": lambda x: F.max_pool2d(x, 3, 4, 0, 2, ceil_mode=True, return_indices=True),
    }
    functions |= {name: f for name, f in (AVERAGES | GREATEST | ADAPTIVE).items() if name not in DEPENDS_ON_THE_SIZE}
    sizes = [{2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}]
    also = [(torch.randn(2, 3, height, width),) for height, width in ((5, 6), (8, 7), (16, 12), (21, 31))]
    check(functions, image(), opset=opset, dynamic=sizes, also=also)


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
def test_zeros_before_a_pool_are_not_its_padding(opset):
    def padded(x):
        return F.pad(x - 9, (1, 1, 1, 1))

    functions = {
        "greatest": lambda x: F.max_pool2d(padded(x), 2),
        "greatest, with indices": lambda x: F.max_pool2d(padded(x), 3, 2, return_indices=True),
        "greatest, twice": lambda x: (F.max_pool2d(padded(x), 2), F.max_pool2d(padded(x), 3)),
        "mean": lambda x: F.avg_pool2d(padded(x), 2, count_include_pad=False),
        "mean of equal windows": lambda x: F.adaptive_avg_pool2d(padded(x), (3, 11)),
    }
    for name, function in functions.items():
        check({name: function}, image(), opset=opset)


def test_places_that_nobody_asks_for_cost_nothing():
    assert operators(check(lambda x: F.adaptive_max_pool2d(x, 1), image())).count("ArgMax") == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers(dtype):
    # float32 would round such numbers; of equal maxima the first is returned.
    torch.manual_seed(0)
    x = torch.randint(0, 3, (2, 3, 7, 9)).to(dtype)
    if dtype is torch.int64:
        x += 2**40
    averages = AVERAGES | {"rounded to zero": lambda x: F.avg_pool2d(-x, 2)} if dtype is torch.int64 else {}
    check(GREATEST | averages, x)


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers_of_a_dynamic_image(dtype, opset):
    averages = {
        "padding that does not count": lambda x: F.avg_pool2d(
            -x, (3, 4), 2, padding=(1, 2), ceil_mode=True, count_include_pad=False
        ),
        "padding that counts": lambda x: F.avg_pool2d(x, (3, 4), (2, 1), padding=(1, 2)),
        "along one dim": lambda x: F.avg_pool1d(-x[0], 3, 2, 1),
    }
    greatest = {
        "gaps and padding": lambda x: F.max_pool2d(-x, 3, 1, 1, (3, 2), return_indices=True),
        "ceil_mode and padding": lambda x: F.max_pool2d(-x, (2, 3), 2, (0, 1), ceil_mode=True, return_indices=True),
        "the maxima alone": lambda x: F.max_pool2d(-x[0], (4, 3), 3, (2, 0)),
    }
    functions = GREATEST | greatest | (AVERAGES | averages if dtype is torch.int64 else {})
    functions = {name: f for name, f in functions.items() if name not in DEPENDS_ON_THE_SIZE}

    def images(height, width):
        return (torch.randint(0, 3, (2, 3, height, width)).to(dtype) + (2**40 if dtype is torch.int64 else 0),)

    sizes = [{2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}]
    also = [images(height, width) for height, width in ((5, 6), (8, 7), (16, 12), (21, 31))]
    check(functions, *images(7, 9), opset=opset, dynamic=sizes, also=also)


def test_float64():
    x = image(torch.float64)
    check(AVERAGES | ADAPTIVE, x)
    rows = torch.cat([x, x], 2)
    check(ADAPTIVE["mean of equal windows"], x, dynamic=({2: torch.export.Dim.DYNAMIC},), also=[(rows,)])


def test_windows_of_padding_alone():
    functions = {
        "gaps": lambda x: F.max_pool2d(x, 2, 1, 1, dilation=3),
        "gaps along one dim": lambda x: F.max_pool2d(x, (3, 2), 1, (1, 1), dilation=(1, 4)),
        "without batch": lambda x: F.max_pool2d(x[0], (2, 3), 1, (1, 0), dilation=(3, 1)),
    }
    x = torch.randn(1, 2, 2, 3)
    check(functions, x)
    dynamic = [{2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}]
    for name, function in functions.items():
        check({name: function}, torch.randn(1, 2, 6, 7), dynamic=dynamic, also=[(x,), (torch.randn(1, 2, 3, 4),)])
    check(lambda x: F.max_pool1d(x, 2, 2, 1, 3, ceil_mode=True), torch.randn(1, 1, 2))


def test_indices_of_padding_and_its_maximum_of_integers_are_refused():
    with pytest.raises(opbridge.UnsupportedError, match="contain only padding"):
        check(lambda x: F.max_pool1d(x, 2, 2, 1, 3, ceil_mode=True, return_indices=True), torch.randn(1, 1, 2))
    for dtype in (torch.int64, torch.int8):
        with pytest.raises(opbridge.UnsupportedError, match="contain only padding"):
            check(lambda x: F.max_pool2d(x, 2, 1, 1, (3, 1)), torch.ones(1, 1, 2, 2, dtype=dtype))


def test_a_pool_of_a_halved_dynamic_image_is_one_node(tmp_path):
    model = torch.nn.Sequential(torch.nn.AvgPool2d(2), torch.nn.MaxPool2d(3, 2, 1))
    path = tmp_path / "model.onnx"
    opbridge.export(model, (torch.rand(1, 2, 8, 8),), path, dynamic_axes={"input": {2: "h", 3: "w"}}, verify=True)
    assert [node.op_type for node in onnx.load(path).graph.node][-1] == "MaxPool"


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_a_dynamic_number_of_windows_that_may_be_none(tmp_path, capture):
    def halve(x):
        return F.interpolate(x, scale_factor=(0.5, 2.5), mode="area", recompute_scale_factor=False)

    agrees(halve, [[(1, 3, 4, 2)], [(1, 3, 1, 2)], [(1, 3, 3, 2)]], ({2: "h"},), capture, tmp_path)
