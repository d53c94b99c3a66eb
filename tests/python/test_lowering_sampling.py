"""Resizing, sampling at coordinates, im2col."""

import functools
import itertools
from math import inf, nan

import pytest
import torch
from lowering_check import check, operators
from torch.nn import functional as F


def image():
    torch.manual_seed(0)
    return torch.randn(2, 3, 6, 5)


def test_nearest_exact():
    functions = {
        f"to {size}": functools.partial(F.interpolate, size=size, mode="nearest-exact")
        for size in [(3, 7), (12, 10), (5, 4), (9, 9)]
    } | {"by scale": functools.partial(F.interpolate, scale_factor=1.7, mode="nearest-exact")}
    check(functions, image(), dynamic=[{0: torch.export.Dim.DYNAMIC}], also=[(torch.randn(4, 3, 6, 5),)])
    check(lambda x: F.interpolate(x[0], size=7, mode="nearest-exact"), image(), opset=13)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_resize_in_float64(mode):
    aligned = {} if mode.startswith("nearest") else {"align_corners": True}
    functions = {
        f"{size} {scale} {corners}": functools.partial(
            F.interpolate, size=size, scale_factor=scale, mode=mode, **corners
        )
        for size, scale in [((3, 7), None), ((12, 1), None), (None, (1.7, 0.6))]
        for corners in ({}, aligned)
    }
    check(functions, image().double(), dynamic=[{0: torch.export.Dim.DYNAMIC}])
    dynamic = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    check(functions, image().double(), dynamic=[dynamic], also=[(torch.randn(1, 3, 3, 7).double(),)])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias(mode):
    functions = {
        f"to {size}": functools.partial(F.interpolate, size=size, mode=mode, antialias=True)
        for size in [(3, 2), (12, 10), (4, 9)]
    } | {"by scale": functools.partial(F.interpolate, scale_factor=(0.6, 1.7), mode=mode, antialias=True)}
    check(functions, image(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_bytes_are_resized_exactly(mode, channels, antialias):
    torch.manual_seed(0)
    to = functools.partial(F.interpolate, mode=mode, antialias=antialias)
    functions = {
        f"{size} {scale} {align}": functools.partial(to, size=size, scale_factor=scale, align_corners=align)
        for size, scale in [((9, 33), None), ((80, 20), None), ((24, 31), None), ((1, 90), None), (None, (0.6, 1.02))]
        for align in (False, True)
    }
    x = torch.randint(0, 256, (2, channels, 60, 31), dtype=torch.uint8)
    check(functions, x, dynamic=[{0: torch.export.Dim.DYNAMIC}], atol=0, rtol=0)
    dynamic = dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)
    check(functions, x, dynamic=[dynamic], also=[(x[:1, :, :24, 5:].contiguous(),)], atol=0, rtol=0)


@pytest.mark.parametrize("operator", ["_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_antialias_by_size_and_scale_factors(operator, align_corners):
    def resized(x, size, *scales):
        return getattr(torch.ops.aten, operator)(x, size, align_corners, *scales)

    functions = {
        "both": lambda x: resized(x, [3, 3], 1.7, 0.6),
        "one": lambda x: resized(x, [3, 8], None, 1.5),
        "size": lambda x: resized(x, [1, 9]),
    }
    check(functions, image(), dynamic=[{0: torch.export.Dim.DYNAMIC}], also=[(torch.randn(4, 3, 6, 5),)], opset=17)
    dynamic = dict.fromkeys((2, 3), torch.export.Dim.DYNAMIC)
    check(functions, image(), dynamic=[dynamic], also=[(torch.randn(2, 3, 4, 7),)])


@pytest.mark.parametrize("opset", [16, 20, 21])
def test_grid_sample(opset):
    modes = itertools.product(["bilinear", "nearest", "bicubic"], ["zeros", "border", "reflection"], [True, False])
    functions = {
        f"{mode} {padding} {align}": functools.partial(
            F.grid_sample, mode=mode, padding_mode=padding, align_corners=align
        )
        for mode, padding, align in modes
    }
    x = image()
    check(functions, x, torch.rand(2, 4, 7, 2) * 2.6 - 1.3, opset=opset, rtol=1e-4, atol=1e-4)


def test_grid_sample_of_volumes():
    torch.manual_seed(0)
    grid = torch.rand(2, 3, 4, 5, 3) * 2.4 - 1.2
    check(functools.partial(F.grid_sample, align_corners=False), torch.randn(2, 2, 4, 3, 5), grid, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("align", [True, False])
def test_affine_grid(align):
    torch.manual_seed(0)
    functions = {
        "pixels": lambda t, v: F.affine_grid(t, [t.shape[0], 3, 4, 6], align_corners=align),
        "one row": lambda t, v: F.affine_grid(t, [t.shape[0], 3, 1, 6], align_corners=align),
        "voxels": lambda t, v: F.affine_grid(v, [v.shape[0], 1, 2, 3, 4], align_corners=align),
    }
    check(
        functions,
        torch.randn(2, 2, 3),
        torch.randn(2, 3, 4),
        dynamic=[{0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO}],
        also=[(torch.randn(5, 2, 3), torch.randn(5, 3, 4))],
    )


@pytest.mark.parametrize("align", [True, False])
def test_affine_grid_of_images_of_any_size(align):
    torch.manual_seed(0)
    check(
        lambda t, x: F.affine_grid(t, x.shape, align_corners=align),
        torch.randn(2, 2, 3),
        image(),
        dynamic=[None, {2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}],
        also=[
            (torch.randn(2, 2, 3), torch.randn(2, *image().shape[1:2], *size)) for size in ((1, 2), (9, 1), (16, 31))
        ],
    )


UNFOLD = {
    "unfold": lambda x: F.unfold(x, 3),
    "unfold with all": lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)),
    "unfold without batch": lambda x: F.unfold(x[0], 2),
}


@pytest.mark.parametrize("opset", [13, 21])
def test_unfold(opset):
    sizes = [{0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}]
    check(UNFOLD, image(), opset=opset, dynamic=sizes, also=[(torch.randn(3, 3, 9, 5),)])


def test_fold():
    functions = {
        "fold": lambda x: F.fold(x, (5, 6), (2, 3)),
        "fold with all": lambda x: (
            F.fold(x, (6, 7), (2, 3), dilation=(2, 1), padding=1, stride=(1, 2))
            if x.shape[-1] == 24
            else F.fold(x, (5, 6), (2, 3))
        ),
        "fold without batch": lambda x: F.fold(x[0], (5, 6), (2, 3)),
    }
    torch.manual_seed(0)
    check(functions, torch.randn(2, 12, 16))


def test_conv_transpose_pads_more_than_its_stride():
    torch.manual_seed(0)
    functions = {
        "padding gives it": lambda x: F.conv_transpose2d(
            x, torch.ones(3, 2, 4, 4) / 7, stride=2, padding=2, output_padding=(3, 1), dilation=4
        ),
        "some": lambda x: F.conv_transpose2d(x, torch.ones(3, 2, 3, 3) / 7, stride=2, padding=0, output_padding=1),
    }
    check(functions, image())


@pytest.mark.parametrize(("size", "scale"), [(100, 0.29), (100, 1.15), (50, 2.3), (50, 0.6), (100, 0.3), (2, 41.0)])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_scales_that_float32_rounds_across_a_pixel(mode, size, scale):
    x = torch.arange(2.0 * size).reshape(1, 2, size)
    check(lambda x: F.interpolate(x, scale_factor=scale, mode=mode), x, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_of_any_sizes(mode):
    def resized(x, like):
        return F.interpolate(x, like.shape[2:], mode=mode)

    def inputs(height, width, other_height, other_width):
        x = torch.arange(6.0 * height * width).reshape(2, 3, height, width)
        return x, torch.zeros(1, 1, other_height, other_width)

    sizes = [(35, 3, 40, 123), (4, 64, 94, 164), (13, 7, 25, 7), (40, 9, 35, 4)]
    for each in sizes:
        check(resized, *inputs(*each))
    dim = torch.export.Dim.DYNAMIC
    check(resized, *inputs(6, 7, 9, 11), dynamic=[{2: dim, 3: dim}] * 2, also=[inputs(*each) for each in sizes])
    doubled = check(lambda x: F.interpolate(x, scale_factor=2, mode=mode), inputs(5, 6, 1, 1)[0])
    assert operators(doubled) == ["Resize"]


@pytest.mark.parametrize("opset", [16, 21])
@pytest.mark.parametrize("align", [True, False])
def test_nearest_after_reflection_midway_between_two_pixels(align: bool, opset: int) -> None:
    x = torch.arange(16.0).reshape(1, 1, 1, 16)
    coordinates = torch.linspace(-8, 8, 257)
    grid = torch.stack([coordinates, torch.zeros(257)], -1)[None, None]
    check(lambda x, g: torch.grid_sampler_2d(x, g, 1, 2, align), x, grid, opset=opset)


@pytest.mark.parametrize("opset", [16, 21])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_locations_far_away_and_nan(padding: int, opset: int) -> None:
    torch.manual_seed(0)
    kinds = [nan, inf, -inf, 1e20, -1e20, 3e9, -3e9, 9.0, -9.0, 2.5, -1.7, 0.3]
    if padding == 2:  # far away, reflection gives an arbitrary pixel
        kinds = [place for place in kinds if not 9 < abs(place) < inf]
    x, y = torch.meshgrid(torch.tensor(kinds), torch.tensor(kinds), indexing="ij")
    grid = torch.stack([x, y], -1).unsqueeze(0)
    for size in [(4, 5), (1, 3), (1, 1)]:
        functions = {
            f"{mode} {align}": functools.partial(
                lambda x, g, mode, align: torch.grid_sampler_2d(x, g, mode, padding, align), mode=mode, align=align
            )
            for mode, align in itertools.product([0, 1, 2], [True, False])
        }
        check(functions, torch.randn(1, 2, *size), grid, opset=opset, rtol=1e-4, atol=1e-4)
    volumes = {
        f"{mode} {align}": functools.partial(
            lambda x, g, mode, align: torch.grid_sampler_3d(x, g, mode, padding, align), mode=mode, align=align
        )
        for mode, align in itertools.product([0, 1], [True, False])
    }
    check(volumes, torch.randn(1, 2, 3, 4, 5), grid[..., [0, 1, 0]].unsqueeze(1), opset=opset, rtol=1e-4, atol=1e-4)
