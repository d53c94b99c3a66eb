"""Calls of operators that neither PyTorch's operator database nor a random call has, by the key of the mapping.

``UNREACHED`` has the mappings that no call reaches, with the reasons.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
import torchvision  # noqa: F401 - registers torchvision's operators
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

X = torch.rand(1, 4, 6, 6)
ROWS = torch.rand(3, 4)
LEVELS = torch.randint(-128, 127, (3, 4), dtype=torch.int8)
ROIS = torch.tensor([[0.0, 0.0, 0.0, 4.0, 4.0]])
KERNEL = torch.rand(4, 4, 3, 3)
SCALE, ZERO = torch.tensor([0.1]), torch.tensor([0])
SCALES, ZEROS = torch.full((3,), 0.1), torch.zeros(3, dtype=torch.int64)
INT8 = (-128, 127, torch.int8)
FLOAT8 = torch.float8_e4m3fn

Examples = dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]

_CTC = "torch cannot determine the sizes of its results, so no capture contains it; F.ctc_loss has nodes"
_NNPACK = "PyTorch calls it only on some phones, and it has no sizes without a run; conv2d has nodes"
UNREACHED = {
    "aten::_ctc_loss": _CTC,
    "aten::_ctc_loss.Tensor": _CTC,
    "aten::_nnpack_spatial_convolution": _NNPACK,
}


class _Packed(torch.nn.Module):
    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> Any:
        packed = pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
        return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


def _convolution(*rest: bool) -> Callable[..., Any]:
    return lambda x, w: torch.ops.aten._convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, *rest)


class _Observed(torch.nn.Module):
    """Quantizes with the observed range. An operator that keeps observing is refused."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.register_buffer("observer_on", torch.tensor([0]))
        self.register_buffer("fake_quant_on", torch.tensor([1]))
        self.register_buffer("low", torch.tensor(0.0))
        self.register_buffer("high", torch.tensor(1.0))
        self.register_buffer("scale", torch.tensor([1.0]))
        self.register_buffer("zero_point", torch.tensor([0], dtype=torch.int32))
        self.op = torch.ops.aten._fused_moving_avg_obs_fq_helper
        self(ROWS)  # computes scale and zero_point
        self.op = op

    def forward(self, x: torch.Tensor) -> Any:
        state = (self.observer_on, self.fake_quant_on, self.low, self.high, self.scale, self.zero_point)
        return self.op(x, *state, 0.01, -128, 127, 0)


def examples() -> Examples:
    """Functions and their arguments."""
    return _layers() | _private() | _quantization() | _gradients() | _of_other_packages()


def _layers() -> Examples:
    aten, vision = torch.ops.aten, torch.ops.torchvision
    sequences, batches = torch.rand(2, 3, 4), (torch.rand(3, 4, 8), torch.rand(3, 8, 16))
    log_probs, targets = torch.rand(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [3, 1]])
    found: Examples = {
        "torchvision::deform_conv2d": (
            lambda *tensors: vision.deform_conv2d(*tensors, 1, 1, 0, 0, 1, 1, 1, 1, True),
            (X, KERNEL, torch.rand(1, 18, 4, 4), torch.rand(1, 9, 4, 4), torch.rand(4)),
        ),
        "torchvision::nms": (lambda boxes, scores: vision.nms(boxes, scores, 0.5), (ROWS, torch.rand(3))),
        "torchvision::roi_pool": (lambda x, rois: vision.roi_pool(x, rois, 1.0, 2, 2), (X, ROIS)),
        "torchvision::ps_roi_pool": (lambda x, rois: vision.ps_roi_pool(x, rois, 1.0, 2, 2), (X, ROIS)),
        "torchvision::ps_roi_align": (lambda x, rois: vision.ps_roi_align(x, rois, 1.0, 2, 2, 2), (X, ROIS)),
        "aten::_convolution": (_convolution(False, False, False, False), (X, KERNEL)),
        "aten::_convolution.deprecated": (_convolution(False, False, False), (X, KERNEL)),
        "aten::_convolution_mode": (
            lambda x, w: torch.ops.aten._convolution_mode(x, w, None, [1, 1], "same", [1, 1], 1),
            (X, KERNEL),
        ),
        "aten::squeeze.dims": (lambda x: x.squeeze((0, 1)), (torch.rand(1, 1, 4),)),
        "aten::moveaxis.intlist": (lambda x: x.moveaxis((0,), (1,)), (ROWS,)),
        "aten::swapaxes": (lambda x: x.swapaxes(0, 1), (ROWS,)),
        "aten::swapdims": (lambda x: x.swapdims(0, 1), (ROWS,)),
        "higher_order::cond": (
            lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)),
            (ROWS,),
        ),
        "higher_order::associative_scan": (lambda x: associative_scan(lambda y, row: y + row, x, 0), (ROWS,)),
        "higher_order::map_impl": (lambda x: map(lambda row: row.relu(), x), (ROWS,)),
        "higher_order::scan": (lambda x: scan(lambda y, row: (y + row, y * 1), x[0] * 0, x), (ROWS,)),
        "higher_order::while_loop": (lambda x: while_loop(lambda y: y.sum() < 9, lambda y: (y + 1,), (x,)), (ROWS,)),
        "aten::convolution": (
            lambda x, w: aten.convolution(x, w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
            (X, KERNEL),
        ),
        "aten::_grouped_mm": (lambda x, y: aten._grouped_mm(x, y), batches),
        "aten::_scaled_mm": (
            lambda x, scale: torch._scaled_mm(x.to(FLOAT8), x.to(FLOAT8).t(), scale, scale, out_dtype=torch.float32),
            (torch.rand(16, 16), torch.tensor(0.5)),
        ),
        "aten::_scaled_mm_v2": (
            lambda x, scale: aten._scaled_mm_v2(
                x.to(FLOAT8), x.to(FLOAT8).t(), [scale], [0], [], [scale], [0], [], None, torch.float32
            ),
            (torch.rand(16, 16), torch.tensor(0.5)),
        ),
        "aten::stft.center": (
            lambda x: torch.view_as_real(aten.stft.center(x, 16, return_complex=True)),
            (torch.rand(64),),
        ),
        "aten::_sobol_engine_draw": (
            lambda quasi, state: aten._sobol_engine_draw(quasi, 5, state, 2, 3, torch.float32),
            (torch.zeros(2, dtype=torch.int64), torch.quasirandom.SobolEngine(2).sobolstate),
        ),
        "aten::corrcoef": (torch.corrcoef, (ROWS,)),
        "aten::cov": (torch.cov, (ROWS,)),
        "aten::narrow.Tensor": (lambda x, start: torch.narrow(x, 0, start, 1), (ROWS, torch.tensor(1))),
        "aten::_reshape_from_tensor": (aten._reshape_from_tensor, (ROWS, torch.tensor([4, 3]))),
        "aten::random.from": (lambda x: torch.empty_like(x).random_(1, 5), (ROWS,)),
        "aten::_shape_as_tensor": (aten._shape_as_tensor, (ROWS,)),
        "aten::_reshape_alias": (lambda x: aten._reshape_alias(x, [4, 3], [3, 1]), (ROWS,)),
        "aten::nll_loss2d_forward": (
            lambda x, target: aten.nll_loss2d_forward(x, target, None, 1, -100),
            (X, torch.zeros(1, 6, 6, dtype=torch.int64)),
        ),
        "aten::ctc_loss.IntList": (
            lambda x, target: aten.ctc_loss(x, target, [5, 5], [2, 2]),
            (log_probs, targets),
        ),
        "aten::ctc_loss.Tensor": (
            lambda *tensors: aten.ctc_loss(*tensors),
            (log_probs, targets, torch.tensor([5, 5]), torch.tensor([2, 2])),
        ),
    }
    if hasattr(aten, "_upsample_lanczos2d_aa"):  # newer than the oldest torch
        found["aten::_upsample_lanczos2d_aa.vec"] = (
            lambda x: aten._upsample_lanczos2d_aa.vec(x, [4, 4], False, None),
            (X,),
        )
    for name, x in (("", ROWS), ("alpha_", ROWS), ("feature_", X), ("feature_alpha_", X), ("native_", ROWS)):
        op = getattr(aten, f"{name}dropout")
        found[f"opbridge::random_{name}dropout"] = (lambda x, op=op: op(x, 0.5, True), (x,))
    layers = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
    for name, layer in layers.items():
        found[f"aten::{name}.data"] = (_Packed(layer(4, 2, batch_first=True)), (sequences,))
    for kind in ("tanh", "relu"):
        packed = _Packed(torch.nn.RNN(4, 2, batch_first=True, nonlinearity=kind))
        found[f"aten::rnn_{kind}.data"] = (packed, (sequences,))
    return found


def _steps_of_optimizers() -> Examples:
    aten, common = torch.ops.aten, {"weight_decay": 0.0, "maximize": False}
    adam = common | {"beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False}
    sgd = common | {"momentum": 0.9, "dampening": 0.0, "nesterov": False, "is_first_step": False}
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "adam": (lambda p, g, m, s: ([p], [g], [m], [m], [], [s]), adam),
        "adamw": (lambda p, g, m, s: ([p], [g], [m], [m], [], [s]), adam),
        "sgd": (lambda p, g, m, s: ([p], [g], [m]), sgd),
        "adagrad": (lambda p, g, m, s: ([p], [g], [m], [s]), common | {"lr_decay": 0.0, "eps": 1e-8}),
    }

    def example(op: Any, lists: Callable[..., Any], options: dict[str, Any], lr: Any) -> Callable[..., Any]:
        return lambda *tensors: op(*lists(*tensors), lr=lr, **options)

    found: Examples = {}
    for name, (lists, options) in calls.items():
        packet = getattr(aten, f"_fused_{name}")
        for overload, lr in (("default", 0.1), ("tensor_lr", torch.tensor(0.1))):
            key = f"aten::_fused_{name}" + ("" if overload == "default" else f".{overload}")
            call = example(getattr(packet, overload), lists, options, lr)
            found[key] = (call, (ROWS, ROWS + 1, ROWS + 2, torch.tensor(3.0)))
    found["aten::_amp_foreach_non_finite_check_and_unscale"] = (
        lambda x, found_inf: aten._amp_foreach_non_finite_check_and_unscale([x], found_inf, torch.tensor(0.5)),
        (ROWS, torch.tensor(0.0)),
    )
    found["aten::_amp_update_scale"] = (
        lambda scale, steps, found_inf: aten._amp_update_scale(scale, steps, found_inf, 2.0, 0.5, 2000),
        (torch.tensor(8.0), torch.tensor(3, dtype=torch.int32), torch.tensor(0.0)),
    )
    return found


def _private() -> Examples:
    """Private forms of operators."""
    aten = torch.ops.aten
    mean = torch.rand(4)
    attention = torch.rand(24, 8), torch.rand(24), torch.rand(8, 8), torch.rand(8)
    points, edges = torch.rand(9, 2), torch.linspace(0, 1, 4)
    volume, kernel = torch.rand(1, 2, 5, 5, 5), torch.rand(2, 2, 3, 3, 3)
    grid, indices = torch.rand(1, 3, 3, 2), torch.zeros(3, 4, dtype=torch.int64)
    found: Examples = {
        "aten::_aminmax": (aten._aminmax, (ROWS,)),
        "aten::_aminmax.dim": (lambda x: aten._aminmax.dim(x, 1), (ROWS,)),
        "aten::_is_all_true": (lambda x: aten._is_all_true(x > 0), (ROWS,)),
        "aten::_is_any_true": (lambda x: aten._is_any_true(x > 0), (ROWS,)),
        "aten::linalg__powsum": (aten.linalg__powsum, (ROWS,)),
        "aten::_unique": (lambda x: aten._unique(x, True, True), (ROWS,)),
        "aten::_pad_circular": (lambda x: aten._pad_circular(x, [1, 1, 1, 1]), (X,)),
        "aten::_pad_enum": (lambda x: aten._pad_enum(x, [1, 1, 1, 1], 0), (X,)),
        "aten::_dim_arange": (lambda x: aten._dim_arange(x, 1), (ROWS,)),
        "aten::_reshape_copy": (lambda x: aten._reshape_copy(x, [4, 3]), (ROWS,)),
        "aten::_batch_norm_no_update": (
            lambda x, mean, var: aten._batch_norm_no_update(x, None, None, mean, var, 0.1, 1e-5),
            (X, mean, mean + 1),
        ),
        **_steps_of_optimizers(),
        "aten::_fused_rms_norm": (lambda x: aten._fused_rms_norm(x, [4], None, 1e-5), (ROWS,)),
        "aten::_masked_softmax": (lambda x: aten._masked_softmax(x, x > 0.5, 1), (ROWS,)),
        "aten::_transform_bias_rescale_qkv": (
            lambda x, bias: aten._transform_bias_rescale_qkv(x, bias, 2),
            (torch.rand(2, 3, 24), torch.rand(24)),
        ),
        "aten::mkldnn_rnn_layer": (
            lambda x, w, v, b, h: aten.mkldnn_rnn_layer(
                x, w, v, b, b, h, h, False, [], 2, 2, 1, True, False, False, False
            )[:3],
            (torch.rand(3, 2, 4), torch.rand(8, 4), torch.rand(8, 2), torch.rand(8), torch.rand(1, 2, 2)),
        ),
        "aten::_native_multi_head_attention": (
            lambda x, *weights: aten._native_multi_head_attention(x, x, x, 8, 2, *weights),
            (torch.rand(2, 3, 8), *attention),
        ),
        "aten::_transformer_encoder_layer_fwd": (
            lambda x, qkv, bias, out, b, norm: aten._transformer_encoder_layer_fwd(
                x, 8, 2, qkv, bias, out, b, True, False, 1e-5, norm, b, norm, b, out, b, out, b
            ),
            (torch.rand(2, 3, 8), *attention, torch.ones(8)),
        ),
        "aten::_scaled_dot_product_attention_math": (
            lambda x: aten._scaled_dot_product_attention_math(x, x, x),
            (torch.rand(1, 2, 4, 8),),
        ),
        "aten::_addmm_activation": (lambda x: aten._addmm_activation(x, x, x), (torch.rand(4, 4),)),
        "aten::_compute_linear_combination": (
            aten._compute_linear_combination,
            (torch.rand(3, 4, 4), torch.rand(2, 3)),
        ),
        "aten::batch_norm_update_stats": (lambda x: aten.batch_norm_update_stats(x, None, None, 0.1), (X,)),
        "aten::infinitely_differentiable_gelu_backward": (aten.infinitely_differentiable_gelu_backward, (ROWS, ROWS)),
        "aten::fake_quantize_per_tensor_affine_cachemask_backward": (
            lambda x: aten.fake_quantize_per_tensor_affine_cachemask_backward(x, x > 0.5),
            (ROWS,),
        ),
        "aten::fake_quantize_per_channel_affine_cachemask_backward": (
            lambda x: aten.fake_quantize_per_channel_affine_cachemask_backward(x, x > 0.5),
            (ROWS,),
        ),
        "aten::_add_relu.Tensor": (lambda x: aten._add_relu(x, x), (ROWS,)),
        "aten::_add_relu.Scalar": (lambda x: aten._add_relu(x, 1), (ROWS,)),
        "aten::embedding_backward": (
            lambda x: aten.embedding_backward(x, torch.tensor([0, 2, 2]), 5, -1, False, False),
            (ROWS,),
        ),
        "aten::gather_backward": (lambda x, i: aten.gather_backward(x, x, 0, i, False), (ROWS, indices)),
        "aten::cummaxmin_backward": (lambda x, i: aten.cummaxmin_backward(x, x, i, 0), (ROWS, indices)),
        "aten::value_selecting_reduction_backward": (
            lambda x, i: aten.value_selecting_reduction_backward(x[0], 0, i[0], [3, 4], False),
            (ROWS, indices),
        ),
        "aten::index_select_backward": (
            lambda x, i: aten.index_select_backward(x, [3, 5], 1, i[0]),
            (ROWS, indices),
        ),
        "aten::flatten_dense_tensors": (lambda x, y: aten.flatten_dense_tensors([x, y]), (ROWS, mean)),
        "aten::unflatten_dense_tensors": (lambda x, y: aten.unflatten_dense_tensors(x, [y, y]), (torch.rand(8), mean)),
        "aten::_slow_conv2d_backward.output_mask": (
            lambda g, x, w: aten._slow_conv2d_backward.output_mask(g, x, w, [3, 3], [1, 1], [0, 0], [True] * 3),
            (torch.rand(1, 4, 4, 4), X, KERNEL),
        ),
        "aten::_grid_sampler_2d_cpu_fallback_backward": (
            lambda g, x, grid: aten._grid_sampler_2d_cpu_fallback_backward(g, x, grid, 0, 0, False),
            (torch.rand(1, 4, 3, 3), X, grid),
        ),
        "aten::trace_backward": (lambda x: aten.trace_backward(x, [3, 4]), (torch.tensor(1.0),)),
        "aten::randint_like.Tensor": (lambda x, high: torch.randint_like(x, high), (ROWS, torch.tensor(5))),
        "aten::_standard_gamma": (lambda x: torch._standard_gamma(x), (ROWS,)),
        "aten::_sample_dirichlet": (lambda x: torch._sample_dirichlet(x), (ROWS,)),
        "aten::_histogramdd_bin_edges": (lambda x: aten._histogramdd_bin_edges(x, [3, 2]), (points,)),
        "aten::_histogramdd_from_bin_cts": (lambda x: aten._histogramdd_from_bin_cts(x, [3, 2]), (points,)),
        "aten::_histogramdd_from_bin_tensors": (
            lambda x, edges: aten._histogramdd_from_bin_tensors(x, [edges, edges]),
            (points, edges),
        ),
        "aten::_cholesky_solve_helper": (
            lambda b, factor: aten._cholesky_solve_helper(b, factor, False),
            (torch.rand(3, 2), torch.eye(3)),
        ),
        "aten::_grid_sampler_2d_cpu_fallback": (
            lambda x, grid: aten._grid_sampler_2d_cpu_fallback(x, grid, 0, 0, False),
            (X, grid),
        ),
        "aten::_slow_conv2d_forward": (
            lambda x, w: aten._slow_conv2d_forward(x, w, [3, 3], None, [1, 1], [0, 0]),
            (X, KERNEL),
        ),
        "aten::slow_conv3d_forward": (
            lambda x, w: aten.slow_conv3d_forward(x, w, [3, 3, 3], None, [1, 1, 1], [0, 0, 0]),
            (volume, kernel),
        ),
        "aten::mkldnn_convolution": (
            lambda x, w: aten.mkldnn_convolution(x, w, None, [0, 0], [1, 1], [1, 1], 1),
            (X, KERNEL),
        ),
    }
    kernels = ("thnn_conv2d", "slow_conv3d")
    kernels += tuple(f"slow_conv_{kind}{axes}d" for kind in ("dilated", "transpose") for axes in (2, 3))
    for name in kernels:
        images, weight = (X, KERNEL) if "2d" in name else (volume, kernel)
        op = getattr(aten, name).default
        found[f"aten::{name}"] = (lambda x, w, op=op: op(x, w, list(w.shape[2:])), (images, weight))
    return found


def _quantization() -> Examples:
    aten, quantized = torch.ops.aten, torch.ops.quantized_decomposed
    found: Examples = {
        "aten::fused_moving_avg_obs_fake_quant": (_Observed(aten.fused_moving_avg_obs_fake_quant), (ROWS,)),
        "aten::_fused_moving_avg_obs_fq_helper": (_Observed(aten._fused_moving_avg_obs_fq_helper), (ROWS,)),
        "aten::_fused_moving_avg_obs_fq_helper_functional": (
            _Observed(aten._fused_moving_avg_obs_fq_helper_functional),
            (ROWS,),
        ),
        "aten::_weight_int8pack_mm": (
            lambda x: aten._weight_int8pack_mm(x, torch.ones(8, 4, dtype=torch.int8), torch.ones(8)),
            (ROWS,),
        ),
        "quantized_decomposed::choose_qparams.tensor": (
            lambda x: quantized.choose_qparams.tensor(x, -128, 127, 1e-6, torch.int8),
            (ROWS,),
        ),
        "quantized_decomposed::choose_qparams_symmetric.tensor": (
            lambda x: quantized.choose_qparams_symmetric.tensor(x, -128, 127, 1e-6, torch.int8),
            (ROWS,),
        ),
        "quantized_decomposed::quantize_per_channel_group": (
            lambda x, s, z: quantized.quantize_per_channel_group(x, s, z, *INT8, 4),
            (ROWS, SCALES[:, None], ZEROS[:, None].int()),
        ),
        "quantized_decomposed::dequantize_per_channel_group": (
            lambda x, s, z: quantized.dequantize_per_channel_group(x, s, z, *INT8, 4, torch.float32),
            (LEVELS, SCALES[:, None], ZEROS[:, None].int()),
        ),
        "quantized_decomposed::fake_quant_per_channel": (
            lambda x, s, z: quantized.fake_quant_per_channel(x, s, z, 0, -128, 127),
            (ROWS, SCALES, ZEROS),
        ),
    }
    for name in ("choose_qparams_per_token", "choose_qparams_per_token_asymmetric"):
        op = getattr(quantized, name)
        found[f"quantized_decomposed::{name}"] = (lambda x, op=op: op(x, torch.int8), (ROWS,))
    for direction, x in (("quantize", ROWS), ("dequantize", LEVELS)):
        per_tensor = getattr(quantized, f"{direction}_per_tensor")
        per_channel = getattr(quantized, f"{direction}_per_channel")
        per_token = getattr(quantized, f"{direction}_per_token")
        to_float = (torch.float32,) if direction == "dequantize" else ()
        name = f"quantized_decomposed::{direction}_per"
        found |= {
            f"{name}_tensor": (lambda x, op=per_tensor: op(x, 0.1, 0, *INT8), (x,)),
            f"{name}_tensor.tensor": (lambda *t, op=per_tensor: op.tensor(*t, *INT8), (x, SCALE, ZERO)),
            f"{name}_tensor.tensor2": (
                lambda *t, op=per_tensor: op.tensor2(*t, torch.int8),
                (x, SCALE, ZERO, torch.tensor(-128), torch.tensor(127)),
            ),
            f"{name}_channel": (lambda *t, op=per_channel: op(*t, 0, *INT8), (x, SCALES, ZEROS)),
            f"{name}_token": (
                lambda *t, op=per_token, to_float=to_float: op(*t, *INT8, *to_float),
                (x, SCALES[:, None], ZEROS[:, None]),
            ),
        }
    return found


def _gradients() -> Examples:
    aten, vision = torch.ops.aten, torch.ops.torchvision
    indices, bag = torch.tensor([1, 3, 1, 0, 4]), torch.tensor([0, 0, 1, 1, 1])
    sizes, greatest = torch.tensor([2, 3]), torch.tensor([[1, 3, 1, 2], [4, 0, 1, 2]])
    mean = variance = torch.rand(4)
    pooled, volume = torch.rand(1, 4, 2, 2), torch.rand(1, 1, 3, 3, 3)
    log_probs, targets = torch.rand(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [3, 1]])
    lengths = (torch.tensor([5, 5]), torch.tensor([2, 2]))
    losses = (torch.rand(2), torch.rand(2, 5, 5))  # the losses, and what the operator saves with them
    found: Examples = {
        "aten::convolution_backward": (
            lambda g, x, w: aten.convolution_backward(
                g, x, w, [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
            ),
            (torch.rand(1, 4, 4, 4), X, KERNEL),
        ),
        "aten::_convolution_double_backward": (
            lambda dx, dw, db, g, x, w: aten._convolution_double_backward(
                dx, dw, db, g, w, x, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
            ),
            (X, KERNEL, torch.rand(4), torch.rand(1, 4, 4, 4), X, KERNEL),
        ),
        "aten::batch_norm_backward": (
            lambda g, x, w, *saved: aten.batch_norm_backward(
                g, x, w, None, None, *saved, True, 1e-5, [True, True, True], torch.zeros(0, dtype=torch.uint8)
            ),
            (X, X, torch.ones(4), mean, variance),
        ),
        "aten::_embedding_bag_dense_backward": (
            lambda g: aten._embedding_bag_dense_backward(g, indices, bag, sizes, greatest, 6, False, 0, None),
            (torch.rand(2, 4),),
        ),
        "aten::_embedding_bag_per_sample_weights_backward": (
            lambda g, w: aten._embedding_bag_per_sample_weights_backward(g, w, indices, torch.tensor([0, 2]), bag, 0),
            (torch.rand(2, 4), torch.rand(6, 4)),
        ),
        "aten::_masked_softmax_backward": (
            lambda g, y: aten._masked_softmax_backward(g, y, y > 0.5, 1),
            (ROWS, ROWS),
        ),
        "aten::_weight_norm_interface_backward": (
            lambda *tensors: aten._weight_norm_interface_backward(*tensors, 0),
            (ROWS, ROWS, torch.rand(3, 1), torch.rand(3, 1)),
        ),
        "aten::_weight_norm_differentiable_backward": (
            lambda *tensors: aten._weight_norm_differentiable_backward(*tensors, 0),
            (ROWS, ROWS, torch.rand(3, 1), torch.rand(3, 1)),
        ),
        "aten::masked_select_backward": (
            lambda g, x: aten.masked_select_backward(g, x, x > 0.5),
            (torch.rand(12), ROWS),
        ),
        "aten::cumprod_backward": (lambda g, x: aten.cumprod_backward(g, x, 1, x.cumprod(1)), (ROWS, ROWS)),
        "aten::affine_grid_generator_backward": (
            lambda g: aten.affine_grid_generator_backward(g, [1, 2, 3, 4], False),
            (torch.rand(1, 3, 4, 2),),
        ),
        "aten::conv_tbc_backward": (
            lambda *tensors: aten.conv_tbc_backward(*tensors, 0),
            (torch.rand(4, 2, 3), torch.rand(5, 2, 4), torch.rand(2, 4, 3), torch.rand(3)),
        ),
        "aten::matrix_exp_backward": (aten.matrix_exp_backward, (torch.rand(3, 3), torch.rand(3, 3))),
        "aten::_fake_quantize_learnable_per_tensor_affine_backward": (
            lambda g, x: aten._fake_quantize_learnable_per_tensor_affine_backward(
                g, x, SCALE, torch.tensor([0.0]), -128, 127
            ),
            (ROWS, ROWS),
        ),
        "aten::_fake_quantize_learnable_per_channel_affine_backward": (
            lambda g, x: aten._fake_quantize_learnable_per_channel_affine_backward(
                g, x, SCALES, torch.zeros(3), 0, -128, 127
            ),
            (ROWS, ROWS),
        ),
        "aten::grid_sampler_3d_backward": (
            lambda *tensors: aten.grid_sampler_3d_backward(*tensors, 0, 0, False, [True, True]),
            (torch.rand(1, 1, 2, 2, 2), volume, torch.rand(1, 2, 2, 2, 3)),
        ),
        "aten::_ctc_loss_backward": (
            lambda g, x, y, *saved: aten._ctc_loss_backward(g, x, y, [5, 5], [2, 2], *saved, 0),
            (torch.rand(2), log_probs, targets, *losses),
        ),
        "aten::_ctc_loss_backward.Tensor": (
            lambda *tensors: aten._ctc_loss_backward(*tensors, 0),
            (torch.rand(2), log_probs, targets, *lengths, *losses),
        ),
        "torchvision::_deform_conv2d_backward": (
            lambda *tensors: vision._deform_conv2d_backward(*tensors, 1, 1, 0, 0, 1, 1, 1, 1, True),
            (torch.rand(1, 4, 4, 4), X, KERNEL, torch.rand(1, 18, 4, 4), torch.rand(1, 9, 4, 4), torch.rand(4)),
        ),
        "torchvision::_roi_align_backward": (
            lambda g, rois: vision._roi_align_backward(g, rois, 1.0, 2, 2, 1, 4, 6, 6, 2, False),
            (pooled, ROIS),
        ),
        "torchvision::_ps_roi_align_backward": (
            lambda g, rois, channels: vision._ps_roi_align_backward(g, rois, channels, 1.0, 2, 2, 2, 1, 4, 6, 6),
            (torch.rand(1, 1, 2, 2), ROIS, torch.arange(4, dtype=torch.int32).reshape(1, 1, 2, 2)),
        ),
        "torchvision::_ps_roi_pool_backward": (
            lambda g, rois, channels: vision._ps_roi_pool_backward(g, rois, channels, 1.0, 2, 2, 1, 4, 6, 6),
            (torch.rand(1, 1, 2, 2), ROIS, torch.arange(4, dtype=torch.int32).reshape(1, 1, 2, 2)),
        ),
        "torchvision::_roi_pool_backward": (
            lambda g, rois, greatest: vision._roi_pool_backward(g, rois, greatest, 1.0, 2, 2, 1, 4, 6, 6),
            (pooled, ROIS, torch.zeros(1, 4, 2, 2, dtype=torch.int32)),
        ),
    }
    for kind in ("bicubic", "lanczos"):
        op = getattr(aten, f"_upsample_{kind}2d_aa_backward", None)
        if op is not None:  # the latter is newer than the oldest torch
            found[f"aten::_upsample_{kind}2d_aa_backward"] = (
                lambda g, op=op: op(g, [6, 6], [1, 4, 8, 8], False),
                (X,),
            )
    return found


def _of_other_packages() -> Examples:
    """Those of the packages that are installed."""
    for package in ("torchao.quantization.quant_primitives", "transformers.integrations.moe"):
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    found: Examples = {}
    if hasattr(torch.ops.torchao, "quantize_affine"):
        ao, zeros = torch.ops.torchao, ZEROS.int()
        found = {
            "torchao::choose_qparams_affine": (
                lambda x: ao.choose_qparams_affine(x, "ASYMMETRIC", [1, 4], torch.int8),
                (ROWS,),
            ),
            "torchao::quantize_affine": (
                lambda *tensors: ao.quantize_affine(tensors[0], [1, 4], *tensors[1:], torch.int8),
                (ROWS, SCALES, zeros),
            ),
            "torchao::dequantize_affine": (
                lambda *tensors: ao.dequantize_affine(tensors[0], [1, 4], *tensors[1:], torch.int8),
                (LEVELS, SCALES, zeros),
            ),
            "torchao::choose_scale_float8": (lambda x: ao.choose_scale_float8(x, [1, 4]), (ROWS,)),
            "torchao::quantize_affine_float8_non_decomposed": (
                lambda x, scale: ao.quantize_affine_float8_non_decomposed(x, scale),
                (ROWS, SCALES[:, None]),
            ),
            "torchao::dequantize_affine_float8_non_decomposed": (
                lambda x, scale: ao.dequantize_affine_float8_non_decomposed(x.to(FLOAT8), scale),
                (ROWS, SCALES[:, None]),
            ),
        }
    if hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        found["transformers::grouped_mm_fallback"] = (
            lambda x, w: torch.ops.transformers.grouped_mm_fallback(x, w, torch.tensor([2, 3], dtype=torch.int32)),
            (ROWS, torch.rand(2, 4, 5)),
        )
    return found
