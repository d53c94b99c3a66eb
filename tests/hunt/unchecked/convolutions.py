"""Convolutions under the names of PyTorch's kernels, and their gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hunt.unchecked.drawing import Arguments, Draw

aten = torch.ops.aten


def _windows(d: Draw, axes: int, transposed: bool = False, groups: int = 1) -> Arguments:
    """The tensors of a convolution, and its windows."""
    batch, channels, made = d.size(), d.size(1, 3), d.size(1, 3)
    kernel = d.sizes(axes, 1, 3)
    dilation = d.sizes(axes, 1, 2)
    image = [(size - 1) * gap + 1 + d.size(0, 3) for size, gap in zip(kernel, dilation, strict=True)]
    weight = (groups * channels, made) if transposed else (groups * made, channels)
    return {
        "input": d.tensor(batch, groups * channels, *image),
        "weight": d.tensor(*weight, *kernel),
        "bias": d.choice(None, d.tensor(groups * made)),
        "kernel_size": kernel,
        "stride": d.sizes(axes, 1, 3),
        "padding": d.sizes(axes, 0, 1),
        "dilation": dilation,
        "groups": groups,
    }


def _of_self(arguments: Arguments, *names: str) -> Arguments:
    return {"self": arguments["input"]} | {name: arguments[name] for name in names}


def _convolution(d: Draw) -> Arguments:
    transposed = d.choice(False, False, True)
    made = _windows(d, d.size(1, 3), transposed, d.size(1, 2))
    strides = zip(made["stride"], made["dilation"], strict=True)
    if transposed:  # a result may have no elements if more is cut off, which only some kernels of PyTorch refuse
        spans = zip(made["kernel_size"], made["dilation"], strict=True)
        made["padding"] = [min(cut, (k - 1) * d // 2) for cut, (k, d) in zip(made["padding"], spans, strict=True)]
    del made["kernel_size"]
    return made | {
        "transposed": transposed,
        "output_padding": [d.size(0, max(pair) - 1) if transposed else 0 for pair in strides],
        "benchmark": False,
        "deterministic": False,
        "cudnn_enabled": False,
        "allow_tf32": False,
    }


def _convolution_double_backward(d: Draw) -> Arguments:
    parameters = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    made = _convolution(d)
    image, kernel = made["input"].size, made["weight"].size
    empty = torch.empty(image), torch.empty(kernel), None
    size = aten.convolution(*empty, *(made[name] for name in parameters)).shape
    given = d.flags(3)
    second = [d.tensor(*image), d.tensor(*kernel), d.tensor(size[1])]
    names = ("ggI", "ggW", "ggb")
    return {
        **{name: each if kept else None for name, each, kept in zip(names, second, given, strict=True)},
        "gO": d.tensor(*size),
        "weight": made["weight"],
        "self": made["input"],
        **{name: made[name] for name in parameters},
        "output_mask": [True, True, True],
    }


def _convolution_deprecated(d: Draw) -> Arguments:
    made = _convolution(d)
    del made["allow_tf32"]
    return made


def _convolution_mode(d: Draw) -> Arguments:
    made = _windows(d, d.size(1, 3), groups=d.size(1, 2))
    del made["kernel_size"]
    padding = d.choice("same", "valid")
    return made | {"padding": padding} | ({"stride": [1] * len(made["stride"])} if padding == "same" else {})


def _slow_convolution(axes: int, *names: str) -> Callable[[Draw], Arguments]:
    return lambda d: _of_self(_windows(d, axes), "weight", "kernel_size", "bias", *names)


def _slow_transposed_convolution(axes: int) -> Callable[[Draw], Arguments]:
    def rule(d: Draw) -> Arguments:
        made = _windows(d, axes, transposed=True)
        larger = map(max, made["stride"], made["dilation"])
        padding = {"output_padding": [d.size(0, limit - 1) for limit in larger]}
        return _of_self(made, "weight", "kernel_size", "bias", "stride", "padding", "dilation") | padding

    return rule


def _mkldnn_convolution(d: Draw) -> Arguments:
    d.dtype = torch.float32
    return _of_self(_windows(d, 2, groups=d.size(1, 2)), "weight", "bias", "stride", "padding", "dilation", "groups")


def _slow_conv2d_backward(d: Draw) -> Arguments:
    made = _of_self(_windows(d, 2), "weight", "kernel_size", "stride", "padding")
    result = torch.nn.functional.conv2d(
        made["self"].make(), made["weight"].make(), None, made["stride"], made["padding"]
    )
    return made | {"grad_output": d.tensor(*result.shape), "output_mask": d.flags(3)}


RULES: dict[str, Callable[[Draw], Arguments]] = {
    "aten::_convolution": _convolution,
    "aten::_convolution.deprecated": _convolution_deprecated,
    "aten::_convolution_double_backward": _convolution_double_backward,
    "aten::_convolution_mode": _convolution_mode,
    "aten::_slow_conv2d_backward.output_mask": _slow_conv2d_backward,
    "aten::mkldnn_convolution": _mkldnn_convolution,
    "aten::slow_conv3d": _slow_convolution(3, "stride", "padding"),
    "aten::slow_conv3d_forward": _slow_convolution(3, "stride", "padding"),
    "aten::slow_conv_dilated2d": _slow_convolution(2, "stride", "padding", "dilation"),
    "aten::slow_conv_dilated3d": _slow_convolution(3, "stride", "padding", "dilation"),
    "aten::slow_conv_transpose2d": _slow_transposed_convolution(2),
    "aten::slow_conv_transpose3d": _slow_transposed_convolution(3),
}
