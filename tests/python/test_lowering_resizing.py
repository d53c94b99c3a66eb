"""Sizes and scales of resized images: ATen computes the coordinates of each axis from one of them."""

import functools

import pytest
import torch
from lowering_check import check
from torch.nn import functional as F

import opbridge
from opbridge.runtime import session

DYNAMIC = torch.export.Dim.DYNAMIC
MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "bicubic": (2,),
    "trilinear": (3,),
}
SCALES = (0.6, 1.0, 1.01, 1.2, 1.33, 1.7, 2.0, 2.1, 2.5, 3.1)


def functions(mode, align_corners=None, scales=SCALES):
    resize = functools.partial(F.interpolate, mode=mode, align_corners=align_corners)
    return {f"{scale}": functools.partial(resize, scale_factor=scale) for scale in scales}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("mode", "axes"), [(mode, axes) for mode in MODES for axes in MODES[mode]])
def test_scales_that_keep_or_double_a_size(mode, axes, dtype):
    torch.manual_seed(0)

    def image(*sizes):
        return torch.randn(1, 2, *sizes[:axes], dtype=dtype)

    for sizes in [(4, 4, 3), (4, 9, 2), (2, 3, 5)]:
        check(functions(mode), image(*sizes), rtol=1e-4, atol=1e-5)
    dynamic = [dict.fromkeys(range(2, axes + 2), DYNAMIC)]
    also = [(image(*sizes),) for sizes in [(4, 4, 4), (2, 7, 3), (5, 2, 2), (40, 6, 4), (11, 90, 2)]]
    check(functions(mode), image(9, 9, 9), dynamic=dynamic, also=also, rtol=1e-3, atol=1e-4)
    if "nearest" not in mode:
        check(functions(mode, True), image(9, 9, 9), dynamic=dynamic, also=also, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("height", [28, 29])
def test_atens_kernel_for_small_images(mode, height):
    # ATen uses it if the height and width of the result are at most 128 together; it rounds differently.
    def image(height, width):
        return torch.arange(1.0 * height * width).reshape(1, 1, height, width)

    scales = {"kept": (1.0, 1.0078125), "doubled": (1.0, 2.015625), "decimals": (1.0, 1.49), "less": (1.0, 0.51)}
    resized = functions(mode, scales=scales.values())
    sizes = {f"to {size}": functools.partial(F.interpolate, size=size, mode=mode) for size in [(height, 100), (28, 97)]}
    for width in (100, 50, 68):
        check(resized | sizes, image(height, width))
    also = [(image(height, width),) for width in (100, 50, 68, 7)]
    check(resized | sizes, image(9, 9), dynamic=[{2: DYNAMIC, 3: DYNAMIC}], also=also)


OVERLOADS = {
    "upsample_nearest1d": 1,
    "upsample_nearest2d": 2,
    "upsample_nearest3d": 3,
    "_upsample_nearest_exact1d": 1,
    "_upsample_nearest_exact2d": 2,
    "_upsample_nearest_exact3d": 3,
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_trilinear3d": 3,
    "upsample_bicubic2d": 2,
    "_upsample_bilinear2d_aa": 2,
    "_upsample_bicubic2d_aa": 2,
}


@pytest.mark.parametrize("operator", OVERLOADS)
def test_sizes_given_together_with_scales(operator):
    torch.manual_seed(0)
    axes = OVERLOADS[operator]
    corners = [()] if "nearest" in operator else [(False,), (True,)]

    def resized(x, size, corner, scales):
        return getattr(torch.ops.aten, operator)(x, size[:axes], *corner, *scales[:axes])

    scales_of_axes = [(), (None, None, None), (1.2, 1.2, 1.2), (2.1, None, 1.5), (-1.0, 0.8, 2.0)]
    if "_aa" in operator:
        # ATen's antialiasing kernels read out of bounds for a pixel outside of the image.
        scales_of_axes = [(), (None, None), (2.5, 2.5), (2.1, None), (-1.0, 3.0)]
    of_size = {
        f"{size} {scales} {corner}": functools.partial(resized, size=size, scales=scales, corner=corner)
        for size in [(4, 9, 2), (8, 3, 4), (5, 18, 3)]
        for scales in scales_of_axes
        for corner in corners
    }
    shape = (1, 2, *(4, 9, 2)[:axes])
    check(of_size, torch.randn(shape), rtol=1e-4, atol=1e-5)
    if "_aa" not in operator:
        check(of_size, torch.randn(shape).double(), rtol=1e-6, atol=1e-6)
    dynamic = [dict.fromkeys(range(2, axes + 2), DYNAMIC)]
    also = [(torch.randn(1, 2, *(8, 9, 5)[:axes]),), (torch.randn(1, 2, *(5, 7, 2)[:axes]),)]
    check(of_size, torch.randn(1, 2, *(6, 7, 3)[:axes]), dynamic=dynamic, also=also, rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_upsample_lanczos2d_aa"), reason="newer than this torch")
def test_lanczos():
    torch.manual_seed(0)
    resize = functools.partial(F.interpolate, mode="lanczos", antialias=True)
    sizes = {f"to {size}": functools.partial(resize, size=size) for size in [(3, 4), (9, 20)]}
    scaled = sizes | {"by": functools.partial(resize, scale_factor=(0.6, 1.7))}
    also = [(torch.randn(1, 2, 9, 4),)]
    check(scaled, torch.randn(1, 2, 8, 9), dynamic=[{2: DYNAMIC, 3: DYNAMIC}], also=also, rtol=1e-4, atol=1e-5)
    check(scaled, torch.randint(0, 256, (1, 3, 8, 9), dtype=torch.uint8), atol=0, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_declared_size_where_the_quotient_of_the_sizes_is_rounded(dtype, tmp_path):
    class Corners(torch.nn.Module):
        def forward(self, x):
            return F.interpolate(x, scale_factor=1.7, mode="linear", align_corners=True)

    opbridge.export(Corners(), (torch.randn(1, 1, 3, dtype=dtype),), tmp_path / "model.onnx", verify=True)
    assert session(tmp_path / "model.onnx").get_outputs()[0].shape == [1, 1, 5]
