"""Draws arguments of operators whose tensors must fit each other, which independent draws hardly ever do.

Sizes are written as letters: the same letter is the same size. Other arguments are drawn as for any operator.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hunt.defined import TAME
from hunt.tensors import TensorSpec, draw_tensor, spec_of

Sizes = dict[str, int]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """``dims`` are expressions of letters; ``kind`` is the kind of the values."""

    dims: str
    kind: str = "values"
    below: str = ""  # of kind "indices": the size that they index
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class Number:
    """An expression of letters."""

    text: str


@dataclasses.dataclass(frozen=True)
class OneOf:
    choices: tuple[Any, ...]


def _one_of(*choices: Any) -> OneOf:
    return OneOf(choices)


_BOXES = Tensor("N,4", "boxes")
_ROTATED = Tensor("N,5", "rotated")
_POOLED = {"pooled_height": Number("P"), "pooled_width": Number("Q"), "spatial_scale": _one_of(1.0, 0.5, 0.25, 2.0)}
_ROIS = {
    "input": Tensor("B,C,H,W"),
    "rois": Tensor("N,5", "rois", "B"),
    **_POOLED,
    "sampling_ratio": _one_of(-1, 0, 1, 2),
}
_PS_ROIS = _ROIS | {"input": Tensor("B,C*P*Q,H,W")}
_DEFORM = {"groups": 1, "deform_groups": 1, "stride": [1, 1], "padding": [1, 0], "dilation": [1, 1]} | {
    "input": Tensor("B,C,H+2,W+2"),
    "weight": Tensor("M,C,3,2"),
    "offset": Tensor("B,12,H+2,W+1"),
    "mask": Tensor("B,6,H+2,W+1"),
    "bias": Tensor("M", optional=True),
}
_ATTENTION = {
    "value": Tensor("B,5,M,C"),
    "value_spatial_shapes": [[2, 2], [1, 1]],
    "value_level_start_index": [0, 4],
    "sampling_locations": Tensor("B,Q,M,2,P,2", "unit"),
    "attention_weights": Tensor("B,Q,M,2,P"),
    "im2col_step": 64,
}
_GRID = {
    "input": Tensor("B,C,H,W"),
    "grid": Tensor("B,P,Q,2", "grid"),
    "interpolation_mode": _one_of(0, 1, 2),
    "padding_mode": _one_of(0, 1, 2),
}
_CTC = {
    "log_probs": Tensor("T+3,B,K+1"),
    "targets": Tensor("B,L", "labels", "K"),
    "input_lengths": Tensor("B", "full", "T+3"),
    "target_lengths": Tensor("B", "full", "L"),
    "blank": 0,
    "reduction": _one_of(0, 1, 2),
}
_SQUARE = {"LU": Tensor("N,N", "matrix"), "LD": Tensor("N,N", "matrix"), "pivots": Tensor("N", "pivots")}
_BATCH_NORM = {
    "input": Tensor("B,C,H"),
    "weight": Tensor("C", optional=True),
    "bias": Tensor("C", optional=True),
    "running_mean": Tensor("C"),
    "running_var": Tensor("C", "positive"),
    "eps": _one_of(1e-5, 0.5),
}
_PER_CHANNEL = {
    "self": Tensor("B,C,H"),
    "scale": Tensor("C", "positive"),
    "zero_point": Tensor("C", "integers"),
    "axis": 1,
    "quant_min": _one_of(0, -128),
    "quant_max": 127,
}
_LEARNED = {"grad": Tensor("B,C,H"), "self": Tensor("B,C,H"), "quant_min": _one_of(0, -128), "quant_max": 127}
_OBSERVED = {
    "self": Tensor("B,C,H"),
    "observer_on": Tensor("1", "zeros"),
    "fake_quant_on": Tensor("1", "ones"),
    "running_min": Tensor("1", "zeros32"),
    "running_max": Tensor("1", "positive"),
    "scale": Tensor("1", "positive"),
    "zero_point": Tensor("1", "integers"),
    "averaging_const": 0.01,
    "quant_min": 0,
    "quant_max": 255,
    "ch_axis": 0,
    "per_row_fake_quant": False,
}
_EMBEDDING_BAG = {
    "weight": Tensor("K+1,C"),
    "indices": Tensor("N+2", "indices", "K+1"),
    "offsets": Tensor("2", "offsets", "N+2"),
    "scale_grad_by_freq": False,
    "mode": _one_of(0, 1, 2),
    "sparse": False,
    "per_sample_weights": _one_of(None, None, Tensor("N+2")),
    "include_last_offset": _one_of(True, False),
    "padding_idx": _one_of(-1, 0, 1),
}
_CELL = {
    "input": Tensor("B,I"),
    "w_ih": Tensor("G*S,I"),
    "w_hh": Tensor("G*S,S"),
    "b_ih": Tensor("G*S", optional=True),
    "b_hh": Tensor("G*S", optional=True),
}
_AA = {"input": Tensor("B,C,H,W"), "self": Tensor("B,C,H,W"), "align_corners": _one_of(True, False)}
# Of optimizers. All tensors are contiguous: the kernels read the memory of others in the wrong order.
_SIGNED, _POSITIVE = ([Tensor("N,M", kind), Tensor("K", kind)] for kind in ("grid", "unit"))
_SCALED = {"grad_scale": _one_of(None, Tensor("1", "positive")), "found_inf": _one_of(None, Tensor("1", "zeros32"))}
_STEPS = _SCALED | {"state_steps": [Tensor("1", "positive"), Tensor("1", "positive")], "eps": _one_of(1e-8, 0.1)}
_ADAM = _STEPS | {
    "self": _SIGNED,
    "grads": _SIGNED,
    "exp_avgs": _SIGNED,
    "exp_avg_sqs": _POSITIVE,
    "max_exp_avg_sqs": [],
    "beta1": _one_of(0.9, 0.5),
    "beta2": _one_of(0.99, 0.5),
    "amsgrad": False,
}
_SGD = _SCALED | {
    "self": _SIGNED,
    "grads": _SIGNED,
    "momentum_buffer_list": _SIGNED,
    "momentum": _one_of(0.9, 0.5),
    "dampening": _one_of(0.0, 0.25),
}
_ADAGRAD = _STEPS | {"self": _SIGNED, "grads": _SIGNED, "state_sums": _POSITIVE, "lr_decay": _one_of(0.0, 0.5)}
_RATES = {"": {"lr": _one_of(0.1, 1.0)}, ".tensor_lr": {"lr": Tensor("1", "half")}}

STRATEGIES: dict[str, dict[str, Any]] = {
    "opbridge::ball_query": {
        "xyz": Tensor("B,N,3"),
        "center_xyz": Tensor("B,M,3"),
        "min_radius": _one_of(0.0, 0.5),
        "max_radius": _one_of(1.0, 3.0),
        "sample_num": Number("P"),
    },
    "opbridge::batched_nms": {
        "boxes": _BOXES,
        "scores": Tensor("N", "distinct"),
        "idxs": Tensor("N", "indices", "2"),
        "iou_threshold": _one_of(0.1, 0.5),
    },
    "opbridge::box_iou_rotated": {
        "bboxes1": _ROTATED,
        "bboxes2": _ROTATED,
        "mode": _one_of("iou", "iof"),
    },
    "opbridge::carafe": {
        "features": Tensor("B,G*C,H,W"),
        "masks": Tensor("B,G*9,H*2,W*2"),
        "kernel_size": 3,
        "group_size": Number("G"),
        "scale_factor": 2,
    },
    "opbridge::correlation": {"input1": Tensor("B,C,H+3,W+3"), "input2": Tensor("B,C,H+3,W+3")},
    "opbridge::ctc_loss": _CTC,
    "aten::ctc_loss.Tensor": _CTC,
    "opbridge::deform_conv2d": {
        "input": Tensor("B,G*C,H+2,W+2"),
        "weight": Tensor("G*M,C,2,1"),
        "offset": Tensor("B,4,H+1,W+2"),
        "mask": Tensor("B,2,H+1,W+2"),
        "bias": Tensor("G*M", optional=True),
        "stride_h": 1,
        "stride_w": 1,
        "pad_h": 0,
        "pad_w": 0,
        "dilation_h": 1,
        "dilation_w": 1,
        "groups": Number("G"),
        "offset_groups": 1,
    },
    "mmdeploy::MMCVModulatedDeformConv2d": _DEFORM,
    "mmdeploy::MMCVDeformConv2d": _DEFORM,
    "opbridge::furthest_point_sample": {"points_xyz": Tensor("B,N+1,3", "distinct"), "num_points": _one_of(1, 2, 3)},
    "opbridge::gather_points": {"features": Tensor("B,C,N+1"), "indices": Tensor("B,M", "indices32", "N+1")},
    "opbridge::group_points": {"features": Tensor("B,C,N+1"), "indices": Tensor("B,M,P", "indices32", "N+1")},
    "opbridge::grid_sample": _GRID,
    "mmdeploy::grid_sampler": _GRID,
    "opbridge::heatmaps_to_keypoints": {"maps": Tensor("N,C,H+1,W+1"), "rois": _BOXES},
    "opbridge::histogramdd": {
        "self": Tensor("N,2"),
        "weight": Tensor("N", optional=True),
        "edges": [Tensor("3", "ascending"), Tensor("4", "ascending")],
    },
    "opbridge::knn": {"k": 1, "xyz": Tensor("B,N+1,3", "distinct"), "center_xyz": Tensor("B,M,3"), "transposed": False},
    "opbridge::householder_product": {"a": Tensor("N+2,N+1"), "tau": Tensor("N+1")},
    "aten::orgqr": {"self": Tensor("N+2,N+1"), "input2": Tensor("N+1")},
    "opbridge::ormqr": {"a": Tensor("N+2,N+1"), "tau": Tensor("N+1"), "C": Tensor("N+2,M"), "left": True},
    "opbridge::ldl_solve": _SQUARE | {"B": Tensor("N,M")},
    "opbridge::lu_solve": _SQUARE | {"B": Tensor("N,M"), "left": True},
    "opbridge::lu_unpack": _SQUARE,
    "opbridge::multi_scale_deformable_attention": _ATTENTION,
    "mmdeploy::MMCVMultiScaleDeformableAttention": _ATTENTION,
    "opbridge::nms": {"boxes": _BOXES, "scores": Tensor("N", "distinct"), "iou_threshold": _one_of(0.1, 0.5)},
    "opbridge::nms_match": {"dets": Tensor("N,5", "detections"), "iou_threshold": _one_of(0.1, 0.5)},
    "mmdeploy::NMSMatch": {
        "boxes": Tensor("B,N,4", "boxes"),
        "scores": Tensor("B,C,N", "distinct"),
        "iou_threshold": Tensor("1", "half"),
        "score_threshold": Tensor("1", "half"),
    },
    "opbridge::nms_rotated": {
        "dets": _ROTATED,
        "scores": Tensor("N", "distinct"),
        "iou_threshold": _one_of(0.1, 0.5),
        "labels": Tensor("N", "indices", "2", optional=True),
    },
    "mmdeploy::NMSRotated": {
        "boxes": Tensor("B,N,5", "rotated"),
        "scores": Tensor("B,C,N", "distinct"),
        "iou_threshold": _one_of(0.1, 0.5),
        "score_threshold": _one_of(0.0, 0.5),
    },
    "opbridge::points_in_boxes_part": {"points": Tensor("B,N,3"), "boxes": Tensor("B,M,7", "rotated")},
    "opbridge::points_in_boxes_all": {"points": Tensor("B,N,3"), "boxes": Tensor("B,M,7", "rotated")},
    "opbridge::ps_roi_align": _PS_ROIS,
    "opbridge::ps_roi_pool": _PS_ROIS,
    "opbridge::roi_align": _ROIS,
    "opbridge::roi_pool": _ROIS,
    "opbridge::roi_align_rotated": _ROIS
    | {"rois": Tensor("N,6", "rois", "B"), "output_size": [Number("P"), Number("Q")]},
    "mmdeploy::MMCVRoIAlignRotated": _ROIS
    | {"rois": Tensor("N,6", "rois", "B"), "output_height": Number("P"), "output_width": Number("Q")},
    "opbridge::soft_nms": {
        "boxes": _BOXES,
        "scores": Tensor("N", "distinct"),
        "method": _one_of("linear", "gaussian", "naive"),
    },
    "opbridge::three_interpolate": {
        "features": Tensor("B,C,N+1"),
        "indices": Tensor("B,M,3", "indices32", "N+1"),
        "weight": Tensor("B,M,3"),
    },
    "opbridge::three_nn": {"target": Tensor("B,N,3"), "source": Tensor("B,M+3,3", "distinct")},
    "opbridge::upfirdn2d": {"input": Tensor("B,C,H+2,W+2"), "filter": Tensor("2,3")},
    "opbridge::dynamic_voxelize": {
        "points": Tensor("N,4"),
        "voxel_size": [0.5, 1.0, 2.0],
        "coors_range": [-2.0, -2.0, -2.0, 2.0, 2.0, 2.0],
    },
    "opbridge::voxelize": {
        "points": Tensor("N,4"),
        "voxel_size": [0.5, 1.0, 2.0],
        "coors_range": [-2.0, -2.0, -2.0, 2.0, 2.0, 2.0],
        "max_points": _one_of(1, 35),
        "max_voxels": _one_of(1, 3, 20),
    },
    "aten::_amp_foreach_non_finite_check_and_unscale": {
        "self": [Tensor("N,M"), Tensor("K")],
        "found_inf": Tensor("1", "zeros32"),
        "inv_scale": Tensor("1", "positive"),
    },
    "aten::_amp_update_scale": {
        "self": Tensor("1", "positive"),
        "growth_tracker": Tensor("1", "integers"),
        "found_inf": _one_of(Tensor("1", "zeros32"), Tensor("1", "half")),
        "scale_growth_factor": 2.1,
        "growth_interval": _one_of(1, 4, 7),
    },
    "aten::_batch_norm_with_update_functional": _BATCH_NORM,
    "aten::_native_batch_norm_legit_no_training": _BATCH_NORM,
    "aten::_native_batch_norm_legit": _BATCH_NORM,
    "aten::_native_batch_norm_legit.no_stats": _BATCH_NORM,
    "aten::_native_batch_norm_legit_functional": _BATCH_NORM,
    "aten::native_batch_norm": _BATCH_NORM,
    "aten::_embedding_bag": _EMBEDDING_BAG,
    "aten::_embedding_bag_forward_only": _EMBEDDING_BAG,
    "aten::embedding_bag": _EMBEDDING_BAG,
    "aten::embedding_bag.padding_idx": _EMBEDDING_BAG,
    "aten::fake_quantize_per_channel_affine": _PER_CHANNEL,
    "aten::fake_quantize_per_channel_affine_cachemask": _PER_CHANNEL,
    "aten::fused_moving_avg_obs_fake_quant": _OBSERVED,
    "aten::_fused_moving_avg_obs_fq_helper": _OBSERVED,
    "aten::_fused_moving_avg_obs_fq_helper_functional": _OBSERVED,
    "aten::stft.center": {
        "self": Tensor("B,N+7"),
        "n_fft": _one_of(2, 4),
        "hop_length": _one_of(None, 1, 2),
        "win_length": None,
        "window": _one_of(None, Tensor("2", "unit"), Tensor("4", "unit")),
        "pad_mode": _one_of("reflect", "constant", "replicate"),
        "align_to_window": None,
    },
    "aten::_int_mm": {"self": Tensor("N+17,K*8", "bytes"), "mat2": Tensor("K*8,M*8", "bytes")},
    "aten::_upsample_bicubic2d_aa": _AA | {"output_size": [Number("P"), Number("Q")]},
    "aten::_upsample_bilinear2d_aa": _AA | {"output_size": [Number("P"), Number("Q")]},
    "aten::_upsample_bicubic2d_aa.vec": _AA | {"output_size": [Number("P"), Number("Q")], "scale_factors": None},
    "aten::_upsample_bilinear2d_aa.vec": _AA | {"output_size": None, "scale_factors": _one_of([0.5, 2.0], [1.3, 0.6])},
    "aten::affine_grid_generator": {
        "theta": Tensor("B,2,3"),
        "size": [Number("B"), Number("C"), Number("H"), Number("W")],
    },
    "aten::conv_tbc_backward": {
        "self": Tensor("T+1,B,M"),
        "input": Tensor("T+2,B,I"),
        "weight": Tensor("2,I,M"),
        "bias": Tensor("M"),
        "pad": 0,
    },
    "aten::matrix_exp_backward": {"self": Tensor("B,N,N", "matrix"), "grad": Tensor("B,N,N", "matrix")},
    "aten::_weight_norm_differentiable_backward": {
        "grad_w": Tensor("N,M"),
        "saved_v": Tensor("N,M"),
        "saved_g": Tensor("N,1", "unit"),
        "saved_norms": Tensor("N,1", "unit"),
        "dim": 0,
    },
    "aten::_fake_quantize_learnable_per_tensor_affine_backward": _LEARNED
    | {"scale": Tensor("1", "positive"), "zero_point": Tensor("1", "positive")},
    "aten::_fake_quantize_learnable_per_channel_affine_backward": _LEARNED
    | {"scale": Tensor("C", "positive"), "zero_point": Tensor("C", "positive"), "axis": 1},
    "aten::col2im": {
        "self": Tensor("B,C*6,(H+1)*W"),
        "output_size": [Number("H+2"), Number("W+2")],
        "kernel_size": [2, 3],
        "dilation": [1, 1],
        "padding": [0, 0],
        "stride": [1, 1],
    },
    "aten::conv_tbc": {"self": Tensor("T+2,B,I"), "weight": Tensor("2,I,M"), "bias": Tensor("M"), "pad": _one_of(0, 1)},
    "aten::gradient.tensorarrayint": {"self": Tensor("H+2"), "spacing": [Tensor("H+2", "ascending")], "dim": 0},
    "aten::gru_cell": _CELL | {"hx": Tensor("B,S"), "G": 3},
    "aten::rnn_relu_cell": _CELL | {"hx": Tensor("B,S"), "G": 1},
    "aten::rnn_tanh_cell": _CELL | {"hx": Tensor("B,S"), "G": 1},
    "aten::lstm_cell": _CELL | {"hx": [Tensor("B,S"), Tensor("B,S")], "G": 4},
    "aten::nll_loss2d": {
        "self": Tensor("B,K+1,H,W"),
        "target": Tensor("B,H,W", "indices", "K+1"),
        "weight": Tensor("K+1", "positive", optional=True),
    },
    "aten::nll_loss": {
        "self": Tensor("B,K+1"),
        "target": Tensor("B", "indices", "K+1"),
        "weight": Tensor("K+1", "positive", optional=True),
    },
    "aten::quantile": {"q": Tensor("2", "unit")},
    "aten::nanquantile": {"q": Tensor("2", "unit")},
    "aten::linalg_cond.p_str": {"self": Tensor("N+1,N+1", "matrix"), "p": _one_of("fro", "nuc")},
    "aten::bilinear": {
        "input1": Tensor("B,I"),
        "input2": Tensor("B,S"),
        "weight": Tensor("M,I,S"),
        "bias": Tensor("M"),
    },
} | {
    f"aten::_fused_{name}{overload}": arguments | rate
    for name, arguments in {"adam": _ADAM, "adamw": _ADAM, "sgd": _SGD, "adagrad": _ADAGRAD}.items()
    for overload, rate in _RATES.items()
}


def recurrent(rng: random.Random, name: str, dtype: torch.dtype) -> dict[str, Any]:
    """Arguments of ``lstm.input``, ``gru.data`` and similar overloads."""
    base, _, form = name.removeprefix("aten::").partition(".")
    gates = {"lstm": 4, "gru": 3}.get(base, 1)
    layers, directions, biases = rng.choice((1, 1, 2)), rng.choice((1, 2)), rng.random() < 0.7
    size, hidden, batch, steps = (rng.randint(1, 3) for _ in range(4))

    def tensor(*dims: int) -> TensorSpec:
        return draw_tensor(rng, dtype, dims, ("plain", "normal"), memory=rng.random() < 0.2)

    params = []
    for layer in range(layers):
        for _ in range(directions):
            params += [
                tensor(gates * hidden, size if layer == 0 else directions * hidden),
                tensor(gates * hidden, hidden),
            ]
            params += [tensor(gates * hidden), tensor(gates * hidden)] * biases
    state = [tensor(layers * directions, batch, hidden) for _ in range(2)]
    arguments: dict[str, Any] = {"hx": state if base == "lstm" else state[0], "params": params, "has_biases": biases}
    arguments |= {
        "num_layers": layers,
        "dropout": rng.choice((0.0, 0.5)),
        "train": False,
        "bidirectional": directions == 2,
    }
    if form == "data":
        lengths = sorted((rng.randint(1, steps) for _ in range(batch)), reverse=True)
        sizes = [sum(length > step for length in lengths) for step in range(lengths[0])]
        return {"data": tensor(sum(lengths), size), "batch_sizes": spec_of(torch.tensor(sizes))} | arguments
    first = rng.random() < 0.5
    arguments["batch_first"] = first
    return {"input": tensor(*((batch, steps) if first else (steps, batch)), size)} | arguments


def strategy(rng: random.Random, name: str, dtype: torch.dtype) -> dict[str, Any] | None:
    """Arguments that fit each other; None if there is no rule for the operator."""
    if name.partition(".")[0] in ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"):
        return recurrent(rng, name, dtype)
    known = STRATEGIES.get(name)
    if known is None:
        return None
    sizes: Sizes = {letter: rng.choices((0, 1, 2, 3, 4), (4, 30, 30, 20, 10))[0] for letter in "BCGHIKLMNPQSTW"}
    for letter in "BCGHIPQSW":
        sizes[letter] = max(sizes[letter], 1)
    sizes["K"] = max(sizes["K"], 2)
    if isinstance(known.get("G"), int):
        sizes["G"] = known["G"]
    made = {name: _made(rng, value, sizes, dtype) for name, value in known.items() if name != "G"}
    return {name: value for name, value in made.items() if value is not _LEFT_OUT}


_LEFT_OUT = object()


def _made(rng: random.Random, value: Any, sizes: Sizes, dtype: torch.dtype) -> Any:
    if isinstance(value, OneOf):
        return _made(rng, rng.choice(value.choices), sizes, dtype)
    if isinstance(value, Number):
        return _evaluated(value.text, sizes)
    if isinstance(value, Tensor):
        if value.optional and rng.random() < 0.4:
            return _LEFT_OUT
        return _tensor(rng, value, sizes, dtype)
    if isinstance(value, list):
        if value and all(isinstance(item, (list, int)) for item in value) and value in ([[2, 2], [1, 1]], [0, 4]):
            return spec_of(torch.tensor(value))
        return [_made(rng, item, sizes, dtype) for item in value]
    return value


def _evaluated(text: str, sizes: Sizes) -> int:
    return int(eval(text, {}, sizes))


def _tensor(rng: random.Random, wanted: Tensor, sizes: Sizes, dtype: torch.dtype) -> TensorSpec:
    size = tuple(_evaluated(dim, sizes) for dim in wanted.dims.split(","))
    if wanted.kind in ("values", "matrix", "distinct"):
        kinds = {"values": TAME, "matrix": ("normal",), "distinct": ("distinct",)}[wanted.kind]
        return draw_tensor(rng, dtype, size, kinds, memory=rng.random() < 0.3)
    count = math.prod(size)
    if wanted.kind in _INTEGERS:
        below = max(_evaluated(wanted.below, sizes), 1) if wanted.below else 3
        element, draw = _INTEGERS[wanted.kind]
        values = torch.tensor([draw(rng, below) for _ in range(count)], dtype=element)
        if wanted.kind == "offsets":
            values = values.sort().values - values.min() if count else values
        if wanted.kind == "pivots":
            values = torch.arange(1, count + 1, dtype=torch.int32)
        return spec_of(values.reshape(size))
    rows = [_FLOATS[wanted.kind](rng, size[-1], sizes) for _ in range(count // size[-1] if size[-1] else 0)]
    exact = torch.tensor(rows, dtype=torch.float64).reshape(size)
    if wanted.kind == "ascending":
        exact = (exact.abs() + 0.5).cumsum(-1) - 2
    keeps = wanted.kind in ("positive", "half", "zeros32")
    return spec_of(exact.to(torch.float32 if keeps or not dtype.is_floating_point else dtype))


_INTEGERS: dict[str, tuple[torch.dtype, Callable[[random.Random, int], int]]] = {
    "indices": (torch.int64, lambda rng, below: rng.randrange(below)),
    "indices32": (torch.int32, lambda rng, below: rng.randrange(below)),
    "labels": (torch.int64, lambda rng, below: rng.randint(1, below)),
    "full": (torch.int64, lambda rng, below: below),
    "offsets": (torch.int64, lambda rng, below: rng.randrange(below)),
    "integers": (torch.int32, lambda rng, below: rng.randint(0, 9)),
    "pivots": (torch.int32, lambda rng, below: 1),
    "zeros": (torch.int64, lambda rng, below: 0),
    "ones": (torch.int64, lambda rng, below: 1),
    "bytes": (torch.int8, lambda rng, below: rng.randint(-128, 127)),
}


def _boxes(rng: random.Random, count: int, sizes: Sizes) -> list[float]:
    x, y = rng.randint(-2, 8) / 2, rng.randint(-2, 8) / 2
    return [x, y, x + rng.randint(0, 8) / 2, y + rng.randint(1, 8) / 2]


def _rotated(rng: random.Random, count: int, sizes: Sizes) -> Sequence[float]:
    centers, extents = count // 2 if count > 5 else 2, count - 1 - (count // 2 if count > 5 else 2)
    return [
        *(rng.randint(-4, 8) / 2 for _ in range(centers)),
        *(rng.randint(1, 8) / 2 for _ in range(extents)),
        rng.choice((0.0, 0.3, 0.7, -0.5)),
    ]


_FLOATS: dict[str, Callable[[random.Random, int, Sizes], Sequence[float]]] = {
    "boxes": _boxes,
    "detections": lambda rng, count, sizes: [*_boxes(rng, 4, sizes), rng.random()],
    "rotated": _rotated,
    "rois": lambda rng, count, sizes: [
        float(rng.randrange(sizes["B"])),
        *(_boxes(rng, 4, sizes) if count == 5 else _rotated(rng, 5, sizes)),
    ],
    "unit": lambda rng, count, sizes: [rng.random() for _ in range(count)],
    "grid": lambda rng, count, sizes: [rng.uniform(-1.3, 1.3) for _ in range(count)],
    "positive": lambda rng, count, sizes: [rng.choice((0.1, 0.5, 1.0, 2.5)) for _ in range(count)],
    "half": lambda rng, count, sizes: [0.5] * count,
    "zeros32": lambda rng, count, sizes: [0.0] * count,
    "ascending": lambda rng, count, sizes: [rng.gauss(0, 1) for _ in range(count)],
}
