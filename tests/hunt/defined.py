"""Cases that are not drawn because PyTorch or C++ does not define their results, each with its reason."""

from __future__ import annotations

import cmath
import math
import re
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from hunt.tensors import EXTREME, VALUE_KINDS, TensorSpec

FINITE = ("plain", "plain", "plain", "normal", "normal", "wide", "few", "zeros")
TAME = ("plain", "plain", "normal", "normal", "few", "zeros")

# LAPACK, FFTs and convolutions do not specify results for NaN and infinities, which depend on the algorithm, such as
# whether it multiplies the zeros of a margin.
_FINITE_ONLY = re.compile(
    "_?linalg_|_?lu_|svd|chol|qr|inverse|det|slogdet|logdet|pinverse|triangular_solve|matrix_exp|ormqr|orgqr|geqrf"
    "|_?fft_|stft|istft|corrcoef|cov|eig|solve|ldl_|householder|_?cdist|_?pdist|_euclidean_dist|conv"
)
# The results for singular matrices depend on rounding.
_MATRICES = re.compile(".*(solve|inv|lu_|det|ldl_|cholesky|rank|cond|eig|lu$|determinant|matrix_power|qr|householder)")
_LOSING_DIGITS = re.compile(
    "_?(linalg_)?(l(dl|u)_factor|slogdet|logdet|tensorinv|inv|solve|lu_solve|ldl_solve|cholesky_inverse|cholesky_solve|cond|tensorsolve)"
)
# Operators that convert numbers to integers internally, which C++ leaves undefined for numbers out of range.
_TAME_ONLY = re.compile(
    "_?grid_sample|(ps_)?roi_|deform_conv|_?fake_quantize_(learnable_)?per_channel|quantize|dequantize|_?fused_moving_avg|histc|histogram|bincount"
    "|affine_grid|one_hot|(dynamic_)?voxelize|multi_scale|MMCV|correlation|carafe|heatmaps|points_in_boxes|upfirdn2d"
    "|soft_nms|nms|batched_nms|NMS|box_iou|knn|three_|ball_query|furthest|_?upsample"
)
# For a row of scores that are all NaN, ATen's flash attention returns 0 or NaN depending on the number of keys.
_TAME_ATTENTION = re.compile("_?scaled_dot_product")
# Operators for which it is not defined which of equal elements they return.
_NO_TIES = ("sort", "argsort", "topk", "kthvalue", "median.dim", "nanmedian.dim", "mode", "nms", "NMS", "batched_nms")
# If an index is written to twice, it is not defined which write is the last.
_NO_REPEATED_INDICES = (
    "scatter.src",
    "scatter.reduce",
    "index_put",
    "_index_put_impl",
    "_unsafe_index_put",
    "index_copy",
    "put",
)
# Arguments that operators write to in training mode, although their schemas do not say so.
_WRITTEN = ("running_mean", "running_var")
# Arguments whose values must ascend, by operator.
_ASCENDING = {"searchsorted": "sorted_sequence", "bucketize": "boundaries", "histogram": "bins"}
# Operators that convert numbers to integers before they clamp them to their range.
_BY_CHANNEL = re.compile("fake_quant.*per_channel|fused_moving_avg_obs")
_REMAINDERS = ("remainder", "fmod", "floor_divide")
_MAX_POOLS = re.compile("(adaptive_|fractional_)?max_pool")
_LARGE = 100
# Operators that return the mean, which ATen updates number by number, and gradients that it computes from sums.
_MEANS = ("std_mean", "var_mean", "native_layer_norm", "native_group_norm")
_GRADIENTS_FROM_SUMS = (
    "native_batch_norm_backward",
    "native_layer_norm_backward",
    "native_group_norm_backward",
    "multilabel_margin_loss_backward",
)
_PIECEWISE = (
    "_add_relu",
    "elu_backward",
    "hardshrink_backward",
    "hardswish_backward",
    "hardtanh_backward",
    "logit_backward",
    "softshrink_backward",
)
# Arguments that PyTorch's kernels take for contiguous.
_PACKED = {"_masked_softmax": "self", "_transform_bias_rescale_qkv": "qkv_bias", "_embedding_bag": "indices"}
_LARGEST_LENGTH = 1 << 16
_WAVES = ("special_bessel_j0", "special_bessel_j1", "special_bessel_y0", "special_bessel_y1", "special_airy_ai")
_NO_PHASE = 1e5
_LEAST_NORMAL = sys.float_info.min


def value_kinds(op: Any) -> tuple[str, ...]:
    """The kinds of values that are drawn for an operator."""
    name = op._schema.name.partition("::")[2]
    if _MATRICES.match(name):
        return ("normal",)
    if _TAME_ONLY.match(name) or _TAME_ATTENTION.match(name):
        return TAME
    if _FINITE_ONLY.match(name):
        return FINITE
    return EXTREME if torch.Tag.pointwise in op.tags else VALUE_KINDS


def may_overlap(op: Any) -> bool:
    """Whether to draw elements that share memory: they make matrices singular."""
    return not _MATRICES.match(op._schema.name.partition("::")[2])


def undefined(op: Any, name: str, arguments: dict[str, Any]) -> str:
    """Why the call has no unique result; empty if it has. ``name`` is without namespace."""
    for argument in op._schema.arguments:
        written = argument.name in _WRITTEN or (argument.alias_info is not None and argument.alias_info.is_write)
        value = arguments.get(argument.name)
        if written and isinstance(value, TensorSpec) and _overlaps(value):
            return "elements that share memory are written to"
    base = name.partition(".")[0].rstrip("_")
    if misfit := _misfit(base, arguments):
        return misfit
    if base.endswith("_aa") and _is_column(arguments):
        return "an image of one column, for which ATen's antialiasing fills all rows with the first"
    specs = [leaf for leaf in pytree.tree_leaves(list(arguments.values())) if isinstance(leaf, TensorSpec)]
    numbers = [value for spec in specs for value in _floats(spec)]
    scalars = [value for value in arguments.values() if isinstance(value, (float, complex))]
    if any(spec.dtype.is_complex for spec in specs) and not all(math.isfinite(abs(value)) for value in scalars):
        return "products of complex numbers that are not finite, which C leaves open"
    if base == "_unique2" and arguments.get("return_inverse") and sum(map(math.isnan, numbers)) > 1:
        return "several NaN, which PyTorch sorts in no order"
    if base == "mode" and any(map(math.isnan, numbers)):
        return "numbers beside NaN, which PyTorch sorts as if NaN were equal to all"
    if _MAX_POOLS.match(base) and any(math.isnan(number) or number == -math.inf for number in numbers):
        return "maxima of NaN and -inf, which ONNX Runtime's pools do not return (README.md says so)"
    if base in ("lstm", "gru") and not all(map(math.isfinite, numbers)):
        return "NaN and infinities, which ONNX Runtime's LSTM and GRU turn into numbers (README.md says so)"
    if base in _PIECEWISE and any(map(cmath.isnan, [*numbers, *scalars])):
        return "NaN, for which ATen chooses one piece for whole vectors and another one for the elements left over"
    if base == "_add_relu" and not all(map(cmath.isfinite, [*numbers, *scalars])):
        return "a sum that may be NaN, for which ATen chooses likewise"
    if base in _MEANS and not all(map(math.isfinite, numbers)):
        return "a mean that ATen updates number by number, and that is infinite or NaN depending on their order"
    if base == "logit_backward" and any(v == 0 and math.copysign(1, v) < 0 for v in _floats(arguments["self"])):
        return "-0, for which ATen returns infinities of both signs: one in whole vectors, one in what is left over"
    if base in _GRADIENTS_FROM_SUMS and not all(map(math.isfinite, numbers)):
        return "a sum of infinite terms, or of 0 by rounding times infinity, which depends on the order of operations"
    degree = arguments.get("n", arguments.get("other"))
    if base.endswith("matrix_power") and abs(arguments["n"]) > _LARGE:
        return "powers beyond the range of the element type, for which rounding decides where infinity becomes NaN"
    if "lanczos" in base and any(value is not None for name, value in arguments.items() if name.startswith("scale")):
        return "pixels beyond the image, where the filter's weights are rounding errors of 0"
    if "polynomial" in base and any(abs(value) > _LARGE for value in _numbers({"n": degree})):
        return "a degree that keeps PyTorch busy for minutes"
    if base in _WAVES and any(abs(value) > _NO_PHASE for value in _numbers(arguments)):
        return "a wave at a number so large that float32 has no digit of its phase"
    if base in _WAVES and any(5 < abs(value) < 8 for value in numbers) and specs[0].dtype == torch.float64:
        return "PyTorch's approximation of Bessel functions has an error of up to 8e-7 a little above 5"
    if base == "special_airy_ai" and any(value < -2 for value in _numbers(arguments)):
        return "PyTorch's approximation of Ai has an error of 3e-7 below -2 (operators/special/README.md)"
    if base in ("igamma", "igammac") and any(0 < value < _LEAST_NORMAL for value in _numbers(arguments)):
        return "a subnormal number, by which PyTorch divides: the quotient overflows"
    floors = base in _REMAINDERS or arguments.get("rounding_mode") == "floor"
    if floors and _quotient_overflows(numbers):
        return "a remainder of an infinite quotient, for which ATen's result depends on the layout of the tensors"
    if _BY_CHANNEL.search(base) and _has_zero(arguments.get("scale")):
        return "a scale of 0, for which NaN is converted to an integer"
    to_integers = any(isinstance(v, torch.dtype) and _is_integer(v) and v != torch.bool for v in arguments.values())
    if base in ("type_as", "to", "_to_copy", "copy"):
        to_integers |= any(_is_integer(spec.dtype) for spec in specs)
    if to_integers and not all(
        _in_range(value) for spec in specs if not _is_integer(spec.dtype) for value in spec.values
    ):
        return "floating-point numbers beyond the integers' range"
    least = any(_is_integer(spec.dtype) and _least(spec) in spec.values for spec in specs)
    if least and (base == "lcm" or (_rounds_quotients(base, arguments) and -1 in _numbers(arguments))):
        return "the least integer divided by -1, which ends PyTorch's process"
    if (base in _NO_TIES or name in _NO_TIES) and not arguments.get("stable"):
        data = next(iter(specs), None)
        if data is not None and _has_ties(data.make().reshape(-1).tolist()):
            return "equal elements"
    writes_by_index = base in _NO_REPEATED_INDICES or name in _NO_REPEATED_INDICES
    if writes_by_index and not arguments.get("accumulate") and _repeats_indices(arguments):
        return "an index that is written to twice"
    if base in _ASCENDING and _descends(arguments):
        return "boundaries that do not ascend"
    if base == "isin" and arguments.get("assume_unique") and any(_has_ties(list(spec.values)) for spec in specs):
        return "equal elements despite assume_unique: PyTorch sorts both sets together and mixes them up"
    return ""


# Internal operators of PyTorch that do not check whether their arguments fit, unlike public ones.
_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
# They write to a copy that has the strides of the original, unless one is 0.
_KEEPING_STRIDES = ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter")
_VECTORS = ("weight", "bias", "running_mean", "running_var")


def _misfit(base: str, arguments: dict[str, Any]) -> str:
    """The values that a kernel reads without a bounds check; empty if there are none."""
    if base == "_local_scalar_dense" and math.prod(arguments["self"].size) != 1:
        return "one number of several"
    image = arguments.get("input")
    if "batch_norm" in base and any(
        isinstance(arguments.get(name), TensorSpec) and arguments[name].size != image.size[1:2] for name in _VECTORS
    ):
        return "statistics of another number of channels"
    if base == "_native_batch_norm_legit" and "running_mean" not in arguments and not arguments["training"]:
        return "no statistics, which PyTorch reads"
    variance = arguments.get("running_var")
    if "batch_norm" in base and arguments.get("eps") == 0 and isinstance(variance, TensorSpec) and 0 in variance.values:
        return "a variance of 0, for which infinity or NaN results, by the layout of the tensors"
    if base in ("instance_norm", "group_norm", "native_group_norm") and _hides_deviations(base, arguments):
        return (
            "numbers whose mean is 10,000 times their deviation: PyTorch scales before it subtracts, and is off by 1e-3"
        )
    if base == "_fft_c2r" and arguments["self"].size[arguments["dim"][-1]] != arguments["last_dim_size"] // 2 + 1:
        return "a spectrum that is not that of so many numbers"
    if base == "_weight_norm":
        v, g = arguments["v"], arguments["g"]
        dim = arguments.get("dim", 0)
        if list(g.size) != [m if axis == dim else 1 for axis, m in enumerate(v.size)]:
            return "magnitudes that fit no dim, which are read out of bounds"
    if base in ("nll_loss", "nll_loss2d") and len(arguments["target"].size) != max(len(arguments["self"].size) - 1, 0):
        return "targets of another number of dims"
    if base == "cholesky_inverse" and arguments["self"].dtype.is_complex:
        return "a factor whose diagonal is not real: one step of LAPACK reads all of it, another only the real part"
    by_limit = "pinv" in base or "matrix_rank" in base
    if by_limit and _is_nearly_singular(next(iter(arguments.values()))) and _has_tiny_limit(arguments):
        return "singular values that are nonzero only by rounding"
    if _LOSING_DIGITS.match(base) and any(map(_is_square_and_singular, arguments.values())):
        return "a nearly singular matrix, whose inverse or logarithm has no digit that does not depend on rounding"
    if base == "unique_dim" and any(map(math.isnan, _floats(arguments["self"]))):
        return "slices with NaN, which PyTorch's comparison leaves in no order"
    if base == "linalg_solve_triangular" and arguments["self"].dtype != arguments["B"].dtype:
        return "sides of different element types, which PyTorch reads as one"
    if base == "linalg_polar" and _is_nearly_singular(arguments["A"]):
        return "a matrix of lower rank, which has several polar decompositions"
    if base == "lerp" and any(math.isfinite(value) and abs(value) > 1e37 for value in _numbers(arguments)):
        return "a product that overflows unless it is fused with the sum, by the layout of the tensors"
    spacing = arguments.get("spacing")
    if base == "gradient" and arguments["self"].dtype.is_complex and 0 in _numbers({"spacing": spacing}):
        return "complex numbers divided by 0, for which C leaves open which of infinity and NaN results"
    if base.startswith("conv") and "weight" in arguments and 0 in arguments["weight"].size[:2]:
        return "a convolution without channels, for which PyTorch returns another number of channels than it declares"
    if "triangular" in base and any(map(_divides_complex_by_zero, arguments.values())):
        return "complex numbers divided by 0, for which C leaves open which of infinity and NaN results"
    batch_sizes = arguments.get("batch_sizes")
    if base in _RECURRENT and batch_sizes is not None and list(batch_sizes.values) != sorted(batch_sizes.values)[::-1]:
        return "packed sequences whose batch sizes increase, for which PyTorch reads its own results"
    if "histogram" in base and not arguments.get("range") and len(set(arguments["self"].values)) == 1:
        return "one number, in the middle of its range: rounding decides on which side of an edge it is"
    if base == "histogram" and isinstance(arguments.get("bins", 100), int) and _on_inner_edge(arguments):
        return "a number on an edge within the range, whose rounding depends on the width of vectors"
    data, params = arguments.get("data", arguments.get("input")), arguments.get("params")
    if base in _RECURRENT and params and params[0].size[1:] != data.size[-1:]:
        return "weights that do not fit the input, which PyTorch does not check"
    if base == "lstm" and params and any(len(x.size) == 1 and x.size != params[0].size[:1] for x in params):
        return "biases that do not fit the weights, which oneDNN reads out of bounds"
    from_both_ends = base == "embedding_renorm" and min(arguments["indices"].values, default=0) < 0
    if from_both_ends and (arguments["max_norm"] < 0 or arguments["norm_type"] == 0):
        return "rows indexed twice, from both ends, which PyTorch scales twice"
    if base == "max_pool2d_with_indices_backward":
        count = math.prod(arguments["self"].size[-2:])
        if any(not 0 <= index < count for index in arguments["indices"].values):
            return "indices out of the image, to which PyTorch writes"
    if base in _KEEPING_STRIDES and _overlaps(arguments["self"]) and 0 not in arguments["self"].stride:
        return "elements that share memory are written to"
    if base == "_scaled_dot_product_flash_attention_for_cpu" and (
        arguments["key"].size != arguments["value"].size or arguments["key"].size[:2] != arguments["query"].size[:2]
    ):
        return "queries, keys and values of different sizes, which are read out of bounds"
    if "scaled_dot_product" in base and arguments.get("scale") is None and arguments["query"].size[-1:] == (0,):
        return "heads of size 0, whose scores are NaN: PyTorch gives 0 or NaN by the number of keys"
    if "scaled_dot_product" in base and arguments["key"].size[-2:-1] != arguments["value"].size[-2:-1]:
        return "keys and values of different lengths, which are read out of bounds"
    sequences = arguments.get("sequences")
    if base == "pad_sequence" and len({spec.size[1:] for spec in sequences}) > 1:
        return "sequences of different elements"
    if base.startswith("affine_grid") and not arguments["theta"].dtype.is_floating_point:
        return "a grid of integers"
    internal = base.startswith("_linalg_") or base in ("lu_unpack", "linalg_lu_solve", "linalg_ldl_solve")
    matrices = [value for name, value in arguments.items() if isinstance(value, TensorSpec) and "pivots" not in name]
    if internal and any(_is_integer(matrix.dtype) for matrix in matrices):
        return "matrices of integers"
    if base.endswith("_backward_data") and arguments["grad_output"].size != arguments["output"].size:
        return "gradients of another size"
    if base == "_pdist_forward" and len(arguments["self"].size) != 2:
        return "rows that are not vectors: PyTorch reads their first two sizes"
    pivots = arguments.get("pivots", arguments.get("LU_pivots"))
    if isinstance(pivots, TensorSpec) and not _are_rows(pivots):
        return "pivots that are not rows"
    offsets = arguments.get("offsets")
    packed = [arguments.get(name) for kernel, name in _PACKED.items() if base.startswith(kernel)]
    if any(isinstance(spec, TensorSpec) and not spec.make().is_contiguous() for spec in packed):
        return "a tensor that is not contiguous, which PyTorch's kernel takes for one that is"
    if "embedding_bag" in base and offsets is not None and list(offsets.values) != sorted(offsets.values):
        return "bags that end before they begin"
    ends = arguments.get("include_last_offset") and offsets is not None and list(offsets.values[-1:])
    if "embedding_bag" in base and ends and ends != [*arguments["indices"].size[:1]]:
        return "a last bag that does not end with the indices, for which PyTorch writes out of bounds"
    if "embedding_bag" in base and offsets is not None and offsets.size == (0,) and arguments["indices"].size != (0,):
        return "indices without bags, for which PyTorch writes out of bounds"
    rows = arguments.get({"nonzero_static": "size", "eye": "n"}.get(base, ""), 0)
    if rows > _LARGEST_LENGTH:
        return "more rows than memory holds; without columns PyTorch allocates none"
    if base == "bincount" and arguments.get("weights") is not None and 0 in arguments["self"].size:
        return "no numbers, whose counts are integers whatever the weights; a model's result has one element type"
    if base == "addmv" and arguments["mat"].size[:1] == (0,) and math.prod(arguments["self"].size) == 1:
        return "a matrix without rows, for which PyTorch returns as many elements as are added, against its shape rule"
    if base == "normal" and any(
        not arguments[name].dtype.is_floating_point
        for name in ("mean", "std")
        if isinstance(arguments.get(name), TensorSpec)
    ):
        return "integers, which PyTorch takes if there are none, and then returns as such against its shape rule"
    if base == "bernoulli" and isinstance(arguments.get("p"), TensorSpec) and 0 in arguments["self"].size:
        return "no numbers to draw, for which PyTorch does not compare the sizes"
    counts = arguments.get("repeats")
    if (
        base == "repeat_interleave"
        and isinstance(counts, TensorSpec)
        and arguments.get("output_size")
        not in (
            None,
            sum(counts.values),
        )
    ):
        return "another number of repeated elements than the counts add up to, which PyTorch does not check"
    if base == "native_dropout" and 0 in arguments["input"].size:
        return "no numbers, whose mask has their type in eager mode, and bool by PyTorch's shape rule"
    size, stride = arguments.get("size", []), arguments.get("stride", [])
    if base == "as_strided_scatter" and len(size) == len(stride) and _share_memory(size, stride):
        return "elements that are written to several times, in no order"
    tensors = arguments.get("tensors", [])
    if base == "_stack" and len(tensors) == 1 and not tensors[0].make().is_contiguous():
        return "a single tensor, whose memory PyTorch copies in order"
    if base == "einsum" and any(1 in x.size and _is_integer(x.dtype) and x.dtype != torch.int64 for x in tensors):
        return "integers along an axis of size 1, which PyTorch does not sum, so that their type depends on the size"
    if base == "copy" and _overlaps(arguments["self"]):
        return "elements that share memory are written to"
    if base in ("median", "nanmedian", "kthvalue") and _overlaps(arguments["self"]):
        return "PyTorch sorts elements in the memory that they share"
    if base == "cov" and math.prod(arguments["self"].size) == 1:
        return "PyTorch writes to the input, against its schema"
    return ""


def _lines(spec: TensorSpec) -> list[list[Any]]:
    """The elements along the last dim."""
    lines: list[list[Any]] = spec.make().reshape(-1, spec.size[-1] if spec.size else 1).tolist() if spec.values else []
    return lines


def _are_rows(pivots: TensorSpec) -> bool:
    """Whether each row, counted from 1, is exchanged with itself or a later one."""
    if not _is_integer(pivots.dtype):
        return False
    return all(row <= pivot <= len(line) for line in _lines(pivots) for row, pivot in enumerate(line, 1))


def _rounds_quotients(base: str, arguments: dict[str, Any]) -> bool:
    return base in _REMAINDERS or arguments.get("rounding_mode") is not None


def _quotient_overflows(numbers: list[float]) -> bool:
    logs = [math.log2(abs(value)) for value in numbers if value and math.isfinite(value)]
    return bool(logs) and max(logs) - min(logs) > 1022


def _is_nearly_singular(spec: Any) -> bool:
    """Whether rounding to float32 may reduce the rank of a matrix, or of one in a batch."""
    if not isinstance(spec, TensorSpec) or len(spec.size) < 2 or 0 in spec.size:
        return False
    matrix = spec.make().to(torch.complex128 if spec.dtype.is_complex else torch.float64)
    if not bool(matrix.isfinite().all()):
        return False
    values = torch.linalg.svdvals(matrix)
    return bool((values[..., -1] <= 1e-5 * values[..., 0]).any())


def _is_square_and_singular(spec: Any) -> bool:
    return isinstance(spec, TensorSpec) and spec.size[-1:] == spec.size[-2:-1] and _is_nearly_singular(spec)


def _divides_complex_by_zero(spec: Any) -> bool:
    """Whether the diagonal of a complex triangle has a 0."""
    if not isinstance(spec, TensorSpec) or not spec.dtype.is_complex or len(spec.size) < 2:
        return False
    return bool((spec.make().diagonal(dim1=-2, dim2=-1) == 0).any())


def _has_tiny_limit(arguments: dict[str, Any]) -> bool:
    """Whether singular values are kept that are no greater than their rounding error."""
    limits = {name: arguments[name] for name in ("rcond", "rtol", "atol", "tol") if arguments.get(name) is not None}
    return any(value < 1e-5 for value in _numbers(limits))


def _hides_deviations(base: str, arguments: dict[str, Any]) -> bool:
    """Whether the numbers that are normalized together differ from each other by little, compared with their mean."""
    spec = next(iter(arguments.values()))
    if spec.dtype.is_complex or len(spec.size) < 2:
        return False
    groups = spec.size[1] if base == "instance_norm" else arguments.get("num_groups", arguments.get("group"))
    rows = spec.size[0] * groups
    if rows <= 0 or math.prod(spec.size) % rows:
        return False
    x = spec.make().double().reshape(rows, -1)
    deviations = (x.var(1, unbiased=False) + abs(arguments.get("eps", 1e-5))).sqrt()
    return bool((x.mean(1).abs() > 1e4 * deviations).any())


def _has_zero(scale: Any) -> bool:
    return scale == 0 or (isinstance(scale, TensorSpec) and 0 in scale.values)


def _is_column(arguments: dict[str, Any]) -> bool:
    """Whether an image is resized to one column of several pixels."""
    image = arguments[next(iter(arguments))].size
    if len(image) < 2:
        return False
    height, width = image[-2:]
    size = arguments.get("output_size")
    scales = arguments.get("scale_factors")
    if size is None and scales is not None:
        size = [int(height * scales[0]), int(width * scales[-1])]
    return bool(size) and size[-1] == 1 and size[0] > 1


def _numbers(arguments: dict[str, Any]) -> list[Any]:
    """The numbers among the arguments and in their tensors."""
    leaves = pytree.tree_leaves(list(arguments.values()))
    values = [value for leaf in leaves if isinstance(leaf, TensorSpec) for value in leaf.values]
    return [value for value in (*leaves, *values) if isinstance(value, (int, float))]


def _floats(spec: TensorSpec) -> list[float]:
    return [value for value in spec.values if isinstance(value, float)]


def _on_inner_edge(arguments: dict[str, Any]) -> bool:
    """Whether a number is on an edge between two of the bins, of one size, of a histogram."""
    numbers, bins = [v for v in arguments["self"].values if math.isfinite(v)], arguments.get("bins", 100)
    limits = arguments.get("range") or [min(numbers, default=0), max(numbers, default=0)]
    if len(limits) != 2:
        return False
    low, high = limits
    places = [(number - low) / (high - low) * bins for number in numbers if low < number < high]
    return any(abs(place - round(place)) < 1e-4 and 0 < round(place) < bins for place in places)


def _overlaps(spec: TensorSpec) -> bool:
    """Whether two elements share memory."""
    return _share_memory(spec.size, spec.stride)


def _share_memory(size: Sequence[int], stride: Sequence[int]) -> bool:
    if 0 in size or min((*size, *stride), default=0) < 0:
        return False
    reach = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    indices = torch.arange(reach).as_strided(size, stride).reshape(-1)
    return len(indices.unique()) < len(indices)


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def _least(spec: TensorSpec) -> int | None:
    return None if spec.dtype == torch.bool else torch.iinfo(spec.dtype).min or None


def _in_range(value: Any) -> bool:
    return math.isfinite(value) and 0 <= abs(value) < 100


def _has_ties(values: list[Any]) -> bool:
    known = [0.0 if value == 0 else value for value in values]
    return len(set(map(str, known))) < len(known)


def _repeats_indices(arguments: dict[str, Any]) -> bool:
    index = arguments.get("index", arguments.get("indices"))
    if isinstance(index, TensorSpec) and "dim" in arguments and len(index.size) > 1:
        indices = index.make()
        dim = arguments["dim"]
        if indices.is_complex() or not -indices.dim() <= dim < indices.dim() or not indices.numel():
            return False
        lines = indices.movedim(dim, -1).reshape(-1, indices.shape[dim]).tolist()
        return any(len({value % (1 << 20) for value in line}) < len(line) for line in lines) or bool(
            (indices < 0).any()
        )
    specs = [leaf for leaf in pytree.tree_leaves(index) if isinstance(leaf, TensorSpec)]
    if any(spec.dtype == torch.bool for spec in specs):
        return False
    values = [leaf.make().reshape(-1) for leaf in specs]
    if any(bool((v < 0).any()) for v in values):
        return True
    try:
        indices = list(zip(*(v.tolist() for v in torch.broadcast_tensors(*values)), strict=True)) if values else []
    except RuntimeError:
        return True
    return len(set(indices)) < len(indices)


def _descends(arguments: dict[str, Any]) -> bool:
    for name in _ASCENDING.values():
        spec = arguments.get(name)
        if isinstance(spec, TensorSpec) and spec.size and not spec.dtype.is_complex and not arguments.get("sorter"):
            lines = spec.make().reshape(-1, spec.size[-1] or 1)
            if not bool((lines[:, 1:] >= lines[:, :-1]).all()):
                return True
    return False
