"""Normalizations, activations, and resizing of images, most of them gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch

from hunt.tensors import spec_of
from hunt.unchecked.drawing import Arguments, Draw

aten = torch.ops.aten


def _batch_norm_no_update(d: Draw) -> Arguments:
    batch, channels, length = d.sizes(3)
    return {
        "input": d.tensor(batch, channels, length),
        "weight": d.tensor(channels),
        "bias": d.tensor(channels),
        "running_mean": d.tensor(channels),
        "running_var": d.positive(channels),
        "momentum": 0.1,
        "eps": d.choice(1e-5, 0.5),
    }


def _batch_norm_backward(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    made = _batch_norm_no_update(d)
    update = d.choice(True, False)
    x = made["input"].make()
    means, variances = x.mean((0, 2)), x.var((0, 2), unbiased=False)
    return {
        "grad_out": d.tensor(*made["input"].size),
        "input": made["input"],
        "weight": made["weight"],
        "running_mean": made["running_mean"],
        "running_var": made["running_var"],
        "save_mean": spec_of(means),
        "save_var": spec_of((variances + made["eps"]).rsqrt()),
        "update": update,
        "eps": made["eps"],
        "output_mask": d.flags(3),
        "reserve": d.tensor(0, dtype=torch.uint8),
    }


def _weight_norm(d: Draw) -> Arguments:
    size = d.sizes(d.size(2, 3))
    dim = d.choice(0, len(size) - 1)
    return {
        "v": d.tensor(*size, kinds=("normal",)),
        "g": d.tensor(*(n if axis == dim else 1 for axis, n in enumerate(size))),
        "dim": dim,
    }


def _weight_norm_backward(d: Draw) -> Arguments:
    made = _weight_norm(d)
    norms = aten._weight_norm_interface(made["v"].make(), made["g"].make(), made["dim"])[1]
    return {
        "grad_w": d.tensor(*made["v"].size),
        "saved_v": made["v"],
        "saved_g": made["g"],
        "saved_norms": spec_of(norms),
        "dim": made["dim"],
    }


def _masked_softmax_backward(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    size = d.sizes(d.size(1, 4))
    dim = d.size(0, len(size) - 1)
    mask = d.mask(*size).make()
    output = d.tensor(*size).make().masked_fill(mask, -torch.inf).softmax(dim).nan_to_num(0)
    return {"grad_output": d.tensor(*size), "output": spec_of(output), "mask": spec_of(mask), "dim": dim}


def _masked_gradient(d: Draw) -> Arguments:
    size = d.sizes(d.size(0, 3))
    return {"grad": d.tensor(*size), "mask": d.mask(*size)}


def _dropout_backward(d: Draw) -> Arguments:
    made = _masked_gradient(d)
    return {"grad_output": made["grad"], "mask": made["mask"], "scale": d.choice(1.0, 2.0, 1.25)}


def _gelu_backward(d: Draw) -> Arguments:
    size = d.sizes(d.size(0, 3))
    return {"grad": d.tensor(*size), "self": d.tensor(*size)}


def _nll_loss2d_forward(d: Draw) -> Arguments:
    batch, height, width = d.sizes(3)
    classes = d.size(2, 4)
    return {
        "self": d.tensor(batch, classes, height, width),
        "target": d.indices(classes, batch, height, width),
        "weight": d.choice(None, d.positive(classes)),
        "reduction": d.choice(0, 1, 2),
        "ignore_index": d.choice(-100, 0, 1),
    }


def _lanczos(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    rows, columns = d.sizes(2, 2, 6)
    return {
        "input": d.tensor(*d.sizes(2), *d.sizes(2, 2, 5)),
        "output_size": [rows, columns],
        "align_corners": d.choice(True, False),
        "scale_factors": None,
    }


def _antialiased_backward(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    batch, channels, height, width = d.sizes(4, 2, 5)
    rows, columns = d.sizes(2, 2, 6)
    return {
        "grad_output": d.tensor(batch, channels, rows, columns),
        "output_size": [rows, columns],
        "input_size": [batch, channels, height, width],
        "align_corners": d.choice(True, False),
    }


def _grid_sampler_backward(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    batch, channels, height, width, rows, columns = d.sizes(6)
    grid = torch.tensor([d.rng.uniform(-1.3, 1.3) for _ in range(batch * rows * columns * 2)], dtype=d.dtype)
    return {
        "grad_output": d.tensor(batch, channels, rows, columns),
        "input": d.tensor(batch, channels, height, width),
        "grid": spec_of(grid.reshape(batch, rows, columns, 2)),
        "interpolation_mode": d.choice(0, 1, 2),
        "padding_mode": d.choice(0, 1, 2),
        "align_corners": d.choice(True, False),
    }


RULES: dict[str, Callable[[Draw], Arguments]] = {
    "aten::_batch_norm_no_update": _batch_norm_no_update,
    "aten::_grid_sampler_2d_cpu_fallback_backward": _grid_sampler_backward,
    "aten::_masked_softmax_backward": _masked_softmax_backward,
    "aten::_upsample_bicubic2d_aa_backward": _antialiased_backward,
    "aten::_upsample_lanczos2d_aa_backward": _antialiased_backward,
    "aten::_upsample_lanczos2d_aa.vec": _lanczos,
    "aten::_weight_norm_interface": _weight_norm,
    "aten::_weight_norm_interface_backward": _weight_norm_backward,
    "aten::batch_norm_backward": _batch_norm_backward,
    "aten::fake_quantize_per_channel_affine_cachemask_backward": _masked_gradient,
    "aten::fake_quantize_per_tensor_affine_cachemask_backward": _masked_gradient,
    "aten::infinitely_differentiable_gelu_backward": _gelu_backward,
    "aten::native_dropout_backward": _dropout_backward,
    "aten::nll_loss2d_forward": _nll_loss2d_forward,
}
