"""Arguments of operators that PyTorch itself calls, many of them gradients, which hardly check what they are given."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hunt.defined import TAME
from hunt.samples import is_derivative
from hunt.tensors import FLOATS, TensorSpec, draw_dtype, draw_tensor, spec_of

Arguments = dict[str, Any]
aten = torch.ops.aten


class Draw:
    """Draws tensors of one floating-point type."""

    def __init__(self, rng: random.Random, dtype: torch.dtype) -> None:
        self.rng = rng
        self.dtype = dtype

    def size(self, low: int = 1, high: int = 4) -> int:
        return self.rng.randint(low, high)

    def sizes(self, count: int, low: int = 1, high: int = 4) -> list[int]:
        return [self.size(low, high) for _ in range(count)]

    def choice(self, *values: Any) -> Any:
        return self.rng.choice(values)

    def tensor(self, *size: int, dtype: torch.dtype | None = None, kinds: Sequence[str] = TAME) -> TensorSpec:
        return draw_tensor(self.rng, dtype or self.dtype, size, kinds, memory=False)

    def positive(self, *size: int) -> TensorSpec:
        return spec_of(self.tensor(*size, kinds=("normal",)).make().abs() + 0.25)

    def indices(self, below: int, *size: int) -> TensorSpec:
        return spec_of(torch.tensor([self.rng.randrange(below) for _ in range(_count(size))]).reshape(size))

    def mask(self, *size: int) -> TensorSpec:
        return draw_tensor(self.rng, torch.bool, size, memory=False)

    def flags(self, count: int) -> list[bool]:
        """At least one of which is True."""
        flags = [self.choice(True, False) for _ in range(count)]
        return flags if any(flags) else [True] * count


def _count(size: Sequence[int]) -> int:
    return int(torch.Size(size).numel())


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


def _ctc(d: Draw, tensors: bool) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    batch, classes, longest = d.size(1, 3), d.size(2, 4), d.size(1, 3)
    steps = 2 * longest + d.size(1, 3)
    log_probs = d.tensor(steps, batch, classes).make().log_softmax(-1)
    labels = d.indices(classes - 1, batch, longest).make() + 1
    lengths = [d.sizes(batch, longest, steps), d.sizes(batch, 0, longest)]
    given = [spec_of(torch.tensor(each)) for each in lengths] if tensors else lengths
    return {
        "log_probs": spec_of(log_probs),
        "targets": spec_of(labels),
        "input_lengths": given[0],
        "target_lengths": given[1],
        "blank": 0,
        "zero_infinity": d.choice(True, False),
    }


def _made(value: Any) -> Any:
    return value.make() if isinstance(value, TensorSpec) else value


def _ctc_backward(d: Draw, tensors: bool) -> Arguments:
    made = _ctc(d, tensors)
    loss, alpha = aten._ctc_loss(**{name: _made(value) for name, value in made.items()})
    return made | {"grad": d.tensor(*loss.shape), "neg_log_likelihood": spec_of(loss), "log_alpha": spec_of(alpha)}


def _bag(d: Draw) -> tuple[Arguments, list[torch.Tensor]]:
    """Arguments of _embedding_bag without weights, and its results."""
    d.dtype = d.choice(torch.float32, torch.float64)
    rows, width, count, bags = d.size(2, 4), d.size(1, 3), d.size(1, 5), d.size(1, 3)
    offsets = sorted([0, *d.sizes(bags - 1, 0, count)])
    made = {
        "weight": d.tensor(rows, width),
        "indices": d.indices(rows, count),
        "offsets": spec_of(torch.tensor(offsets)),
        "mode": d.choice(0, 1, 2),
        "padding_idx": d.choice(-1, 0),
    }
    return made, list(aten._embedding_bag(**{name: _made(value) for name, value in made.items()}))


def _embedding_bag_dense_backward(d: Draw) -> Arguments:
    made, results = _bag(d)
    weights = d.tensor(*made["indices"].size) if made["mode"] == 0 else None
    return {
        "grad": d.tensor(*results[0].shape),
        "indices": made["indices"],
        "offset2bag": spec_of(results[1]),
        "bag_size": spec_of(results[2]),
        "maximum_indices": spec_of(results[3]),
        "num_weights": made["weight"].size[0],
        "scale_grad_by_freq": made["mode"] != 2 and d.choice(True, False),
        "mode": made["mode"],
        "per_sample_weights": d.choice(None, weights),
        "padding_idx": made["padding_idx"],
    }


def _embedding_bag_weights_backward(d: Draw) -> Arguments:
    made, results = _bag(d)
    return made | {"mode": 0, "grad": d.tensor(*results[0].shape), "offset2bag": spec_of(results[1])}


def _embedding_backward(d: Draw) -> Arguments:
    rows, width, count = d.size(2, 4), d.size(), d.size()
    return {
        "grad": d.tensor(count, width),
        "indices": d.indices(rows, count),
        "num_weights": rows,
        "padding_idx": d.choice(-1, 0),
        "scale_grad_by_freq": d.choice(True, False),
        "sparse": False,
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


def _histogramdd_from_bin_tensors(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    edges = [spec_of(d.positive(d.size(2, 4)).make().cumsum(0) - 1.3) for _ in range(2)]
    count = d.size(1, 6)
    weight = d.choice(None, d.tensor(count))
    return {"self": d.tensor(count, 2), "bins": edges, "weight": weight, "density": d.choice(True, False)}


def _masked_softmax_backward(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    size = d.sizes(d.size(1, 4))
    dim = d.size(0, len(size) - 1)
    mask = d.mask(*size).make()
    output = d.tensor(*size).make().masked_fill(mask, -torch.inf).softmax(dim).nan_to_num(0)
    return {"grad_output": d.tensor(*size), "output": spec_of(output), "mask": spec_of(mask), "dim": dim}


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


def _lanczos(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    rows, columns = d.sizes(2, 2, 6)
    return {
        "input": d.tensor(*d.sizes(2), *d.sizes(2, 2, 5)),
        "output_size": [rows, columns],
        "align_corners": d.choice(True, False),
        "scale_factors": None,
    }


def _grouped_mm(d: Draw) -> Arguments:
    """Rows of matrices are multiples of 16 bytes."""
    d.dtype = d.choice(torch.float32, torch.bfloat16, torch.float16)
    groups, inner, columns = d.size(), 8 * d.size(1, 2), 8 * d.size(1, 2)
    sizes = d.sizes(groups, 0)
    by_rows = d.choice(True, True, False)
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    return {
        "self": d.tensor(sum(sizes), inner) if by_rows else d.tensor(groups, d.size(), inner),
        "mat2": d.tensor(groups, inner, columns),
        "offs": spec_of(ends) if by_rows else None,
    }


def _scaled_mm(d: Draw) -> Arguments:
    rows, inner, columns = d.size(), 16 * d.size(1, 2), 16 * d.size(1, 2)
    by_row = d.choice(True, False)
    d.dtype = torch.float32
    return {
        "self": spec_of(d.tensor(rows, inner).make().to(d.choice(torch.float8_e4m3fn, torch.float8_e5m2))),
        "mat2": spec_of(d.tensor(columns, inner).make().to(torch.float8_e4m3fn).t()),
        "scale_a": d.positive(*([rows, 1] if by_row else [])),
        "scale_b": d.positive(*([1, columns] if by_row else [])),
        "bias": d.choice(None, d.tensor(columns)),
        "out_dtype": torch.float32,
    }


def _weight_int8pack_mm(d: Draw) -> Arguments:
    """PyTorch reads out of bounds of other sizes. All sums are exact, because nothing is computed in float64."""
    d.dtype = d.choice(torch.float32, torch.bfloat16, torch.float16)
    inner, columns = 16 * d.size(1, 2), 8 * d.size(1, 2)
    return {
        "self": d.tensor(d.size(), inner, kinds=("plain",)),
        "mat2": d.tensor(columns, inner, dtype=torch.int8),
        "scales": spec_of(torch.tensor([d.choice(0.25, 0.5, 2.0) for _ in range(columns)], dtype=d.dtype)),
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


def _along_axis(d: Draw) -> tuple[list[int], int]:
    size = d.sizes(d.size(1, 3))
    return size, d.size(0, len(size) - 1)


def _cummaxmin_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    x = d.tensor(*size, kinds=("normal",))
    indices = torch.cummax(x.make(), dim)[1]
    return {"grad": d.tensor(*size), "input": x, "indices": spec_of(indices), "dim": dim}


def _cumprod_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    x = d.tensor(*size)
    return {"grad": d.tensor(*size), "input": x, "dim": dim, "output": spec_of(x.make().cumprod(dim))}


def _gather_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    picked = [d.size() if axis == dim else d.size(1, n) for axis, n in enumerate(size)]
    return {
        "grad": d.tensor(*picked),
        "self": d.tensor(*size),
        "dim": dim,
        "index": d.indices(size[dim], *picked),
        "sparse_grad": False,
    }


def _index_select_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    count = d.size()
    picked = [count if axis == dim else n for axis, n in enumerate(size)]
    return {"grad": d.tensor(*picked), "self_sizes": size, "dim": dim, "index": d.indices(size[dim], count)}


def _value_selecting_reduction_backward(d: Draw) -> Arguments:
    size, dim = _along_axis(d)
    keepdim = d.choice(True, False)
    left = [n for axis, n in enumerate(size) if axis != dim]
    kept = [1 if axis == dim else n for axis, n in enumerate(size)] if keepdim else left
    return {
        "grad": d.tensor(*kept),
        "dim": dim,
        "indices": d.indices(size[dim], *kept),
        "sizes": size,
        "keepdim": keepdim,
    }


def _trace_backward(d: Draw) -> Arguments:
    return {"grad": d.tensor(), "sizes": d.sizes(2)}


def _masked_gradient(d: Draw) -> Arguments:
    size = d.sizes(d.size(0, 3))
    return {"grad": d.tensor(*size), "mask": d.mask(*size)}


def _dropout_backward(d: Draw) -> Arguments:
    made = _masked_gradient(d)
    return {"grad_output": made["grad"], "mask": made["mask"], "scale": d.choice(1.0, 2.0, 1.25)}


def _gelu_backward(d: Draw) -> Arguments:
    size = d.sizes(d.size(0, 3))
    return {"grad": d.tensor(*size), "self": d.tensor(*size)}


def _factored(factor: Callable[..., Any], names: tuple[str, str]) -> Callable[[Draw], Arguments]:
    def rule(d: Draw) -> Arguments:
        d.dtype = d.choice(torch.float32, torch.float64)
        n = d.size()
        matrix = d.tensor(n, n, kinds=("normal",)).make() + 4 * torch.eye(n, dtype=d.dtype)
        factors = factor(matrix + matrix.mT)
        return {
            names[0]: spec_of(factors[0]),
            names[1]: spec_of(factors[1]),
            "B": d.tensor(n, d.size(), kinds=("normal",)),
        }

    return rule


def _cholesky_solve_helper(d: Draw) -> Arguments:
    d.dtype = d.choice(torch.float32, torch.float64)
    n, batch = d.size(), d.sizes(d.size(0, 1))
    matrix = d.tensor(*batch, n, n, kinds=("normal",)).make() + 4 * torch.eye(n, dtype=d.dtype)
    sides = d.tensor(*batch, n, d.size(), kinds=("normal",))
    return {"self": sides, "A": spec_of(matrix), "upper": d.choice(True, False)}


def _transform_bias_rescale_qkv(d: Draw) -> Arguments:
    heads = d.size()
    width = 3 * heads * d.size()
    return {"qkv": d.tensor(*d.sizes(2), width), "qkv_bias": d.tensor(width), "num_heads": heads}


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


def _attention(d: Draw, *inputs: str) -> tuple[Arguments, int]:
    """The tensors of an attention, its mask, and its width."""
    batch, length, heads = d.sizes(3)
    width = heads * d.size(1, 3)
    mask_type = d.choice(None, 0, 1, 2)
    of_scores = (batch, heads, length, length)
    size = {0: (length, length), 1: (batch, length)}.get(mask_type, of_scores)
    return {
        **{name: d.tensor(batch, length, width) for name in inputs},
        "embed_dim": width,
        "qkv_weight": d.tensor(3 * width, width),
        "qkv_bias": d.tensor(3 * width),
        "proj_weight": d.tensor(width, width),
        "proj_bias": d.tensor(width),
        "mask": d.choice(None, d.mask(*size), d.tensor(*size), d.mask(*of_scores)),
        "mask_type": mask_type,
        ("num_heads" if "src" in inputs else "num_head"): heads,
    }, width


def _mkldnn_rnn_layer(d: Draw) -> Arguments:
    d.dtype = torch.float32
    length, batch, features, hidden = d.sizes(4)
    weights = (4 * hidden, features), (4 * hidden, hidden), (4 * hidden,), (4 * hidden,)
    return {
        "input": d.tensor(length, batch, features),
        **{f"weight{i}": d.tensor(*size) for i, size in enumerate(weights)},
        "hx_": d.tensor(1, batch, hidden),
        "cx_": d.tensor(1, batch, hidden),
        "reverse": d.choice(True, False),
        "batch_sizes": [],
        "mode": 2,
        "hidden_size": hidden,
        "num_layers": 1,
        "has_biases": d.choice(True, False),
        "bidirectional": False,
        "batch_first": False,
        "train": False,
    }


def _native_multi_head_attention(d: Draw) -> Arguments:
    made, _ = _attention(d, "query", "key", "value")
    return made | {"need_weights": True, "average_attn_weights": d.choice(True, False)}


def _transformer_encoder_layer(d: Draw) -> Arguments:
    made, width = _attention(d, "src")
    hidden = d.size()
    sizes = {f"norm_{kind}_{i}": (width,) for kind in ("weight", "bias") for i in (1, 2)} | {
        "ffn_weight_1": (hidden, width),
        "ffn_bias_1": (hidden,),
        "ffn_weight_2": (width, hidden),
        "ffn_bias_2": (width,),
    }
    flags = {"use_gelu": d.choice(True, False), "norm_first": d.choice(True, False), "eps": d.choice(1e-5, 0.5)}
    return made | flags | {name: d.tensor(*size) for name, size in sizes.items()}


UNCHECKED: dict[str, Callable[[Draw], Arguments]] = {
    "aten::_batch_norm_no_update": _batch_norm_no_update,
    "aten::_cholesky_solve_helper": _cholesky_solve_helper,
    "aten::_convolution": _convolution,
    "aten::_convolution.deprecated": _convolution_deprecated,
    "aten::_convolution_double_backward": _convolution_double_backward,
    "aten::_convolution_mode": _convolution_mode,
    "aten::_ctc_loss": lambda d: _ctc(d, tensors=False),
    "aten::_ctc_loss.Tensor": lambda d: _ctc(d, tensors=True),
    "aten::_ctc_loss_backward": lambda d: _ctc_backward(d, tensors=False),
    "aten::_ctc_loss_backward.Tensor": lambda d: _ctc_backward(d, tensors=True),
    "aten::_embedding_bag_dense_backward": _embedding_bag_dense_backward,
    "aten::_embedding_bag_per_sample_weights_backward": _embedding_bag_weights_backward,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_grid_sampler_2d_cpu_fallback_backward": _grid_sampler_backward,
    "aten::_histogramdd_from_bin_tensors": _histogramdd_from_bin_tensors,
    "aten::_masked_softmax_backward": _masked_softmax_backward,
    "aten::_native_multi_head_attention": _native_multi_head_attention,
    "aten::_scaled_mm": _scaled_mm,
    "aten::_slow_conv2d_backward.output_mask": _slow_conv2d_backward,
    "aten::_transform_bias_rescale_qkv": _transform_bias_rescale_qkv,
    "aten::_transformer_encoder_layer_fwd": _transformer_encoder_layer,
    "aten::_upsample_bicubic2d_aa_backward": _antialiased_backward,
    "aten::_upsample_lanczos2d_aa_backward": _antialiased_backward,
    "aten::_upsample_lanczos2d_aa.vec": _lanczos,
    "aten::_weight_int8pack_mm": _weight_int8pack_mm,
    "aten::_weight_norm_interface": _weight_norm,
    "aten::_weight_norm_interface_backward": _weight_norm_backward,
    "aten::batch_norm_backward": _batch_norm_backward,
    "aten::cummaxmin_backward": _cummaxmin_backward,
    "aten::cumprod_backward": _cumprod_backward,
    "aten::embedding_backward": _embedding_backward,
    "aten::fake_quantize_per_channel_affine_cachemask_backward": _masked_gradient,
    "aten::fake_quantize_per_tensor_affine_cachemask_backward": _masked_gradient,
    "aten::gather_backward": _gather_backward,
    "aten::index_select_backward": _index_select_backward,
    "aten::infinitely_differentiable_gelu_backward": _gelu_backward,
    "aten::linalg_ldl_solve": _factored(torch.linalg.ldl_factor, ("LD", "pivots")),
    "aten::linalg_lu_solve": _factored(torch.linalg.lu_factor, ("LU", "pivots")),
    "aten::mkldnn_convolution": _mkldnn_convolution,
    "aten::mkldnn_rnn_layer": _mkldnn_rnn_layer,
    "aten::native_dropout_backward": _dropout_backward,
    "aten::nll_loss2d_forward": _nll_loss2d_forward,
    "aten::slow_conv3d": _slow_convolution(3, "stride", "padding"),
    "aten::slow_conv3d_forward": _slow_convolution(3, "stride", "padding"),
    "aten::slow_conv_dilated2d": _slow_convolution(2, "stride", "padding", "dilation"),
    "aten::slow_conv_dilated3d": _slow_convolution(3, "stride", "padding", "dilation"),
    "aten::slow_conv_transpose2d": _slow_transposed_convolution(2),
    "aten::slow_conv_transpose3d": _slow_transposed_convolution(3),
    "aten::trace_backward": _trace_backward,
    "aten::value_selecting_reduction_backward": _value_selecting_reduction_backward,
}


# strategies.py draws the arguments of optimizers, and defined.py knows those of _weight_norm.
_DRAWN_ELSEWHERE = {"_weight_norm", *(f"_fused_{name}" for name in ("adam", "adamw", "sgd", "adagrad"))}


def must_fit(name: str) -> bool:
    """Whether PyTorch may read or write out of bounds if the arguments of an operator do not fit each other."""
    base = name.partition("::")[2].partition(".")[0]
    return name in UNCHECKED or is_derivative(base) or base in _DRAWN_ELSEWHERE


def arguments_of_unchecked(rng: random.Random, name: str) -> Arguments | None:
    """None if there is no rule for the operator."""
    rule = UNCHECKED.get(name)
    return rule(Draw(rng, rng.choice((torch.float32, draw_dtype(rng, FLOATS))))) if rule else None
