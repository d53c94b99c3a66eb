"""Rules of torch.vmap that keep the size of the batch symbolic. torch's own rules for these operators read it as a
number, or there is none, and torch calls the operator for each sample."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge.capture.operators import aten_overload
from opbridge.capture.rewrites.batch_rules import single_operators as single
from opbridge.capture.rewrites.batch_rules.convolutions import convolution, convolution_backward
from opbridge.capture.rewrites.batch_rules.rules import along, broadcast, by_sample
from opbridge.capture.rewrites.operator_families import (
    ADAPTIVE_MAX_POOLS,
    LOSSES,
    MAX_POOLS,
    PADS,
    POOLS,
    UPSAMPLES,
    backward,
)
from opbridge.torch_compat.batching import BatchRule, add_batch_rule, decompose_batches, write_batches
from opbridge.torch_compat.symbols import scoped_library


@contextlib.contextmanager
def keep_batches_symbolic() -> Iterator[None]:
    """Replaces the rules, for all threads: they are right for any call."""
    with scoped_library("aten", "IMPL") as library:
        for name, make in _RULES.items():
            operator = aten_overload(name)
            add_batch_rule(library, operator, make(operator))
        for name in _DECOMPOSED:
            decompose_batches(library, aten_overload(name))
        for name in _IN_PLACE:
            pure = getattr(torch.ops.aten, name.partition(".")[0].removesuffix("_"))
            write_batches(library, aten_overload(name), pure)
        yield


def _trains_statistics(*args: Any) -> bool:
    return bool(args[5]) and args[3] is not None


_POLYNOMIALS = (
    *(f"chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *(f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"),
    *("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"),
)
_SPECIAL = (
    *(f"aten::special_{name}{form}" for name in _POLYNOMIALS for form in ("", ".n_scalar", ".x_scalar")),
    *("aten::special_log_ndtr", "aten::special_airy_ai"),
)
_OPERANDS = ("Scalar", "Tensor")
_RULES: dict[str, Callable[[Any], BatchRule]] = {
    **dict.fromkeys((*POOLS, *MAX_POOLS, *ADAPTIVE_MAX_POOLS, *UPSAMPLES, *PADS), by_sample(0)),
    "aten::convolution": convolution,
    "aten::convolution_backward": convolution_backward,
    **dict.fromkeys(backward(POOLS, PADS), by_sample(0, 1)),
    **dict.fromkeys(backward(MAX_POOLS), by_sample(0, 1, 7)),
    **dict.fromkeys(backward(ADAPTIVE_MAX_POOLS), by_sample(0, 1, 2)),
    **dict.fromkeys(backward(UPSAMPLES), by_sample(0, sizes=2)),
    **dict.fromkeys(("aten::grid_sampler_2d", "aten::grid_sampler_3d"), by_sample(0, 1)),
    **dict.fromkeys(("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"), by_sample(0, 1, 2)),
    "aten::native_batch_norm": single.by_channel(5, unless=_trains_statistics),
    "aten::_native_batch_norm_legit_no_training": single.by_channel(5),
    "aten::native_batch_norm_backward": single.by_channel(7),
    **dict.fromkeys(("aten::gru_cell", "aten::rnn_relu_cell", "aten::rnn_tanh_cell"), by_sample(0, 1)),
    "aten::_trilinear": single.trilinear,
    "aten::bilinear": along(same={2, 3}),
    "aten::_scaled_dot_product_flash_attention_for_cpu": by_sample(0, 1, 2),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": by_sample(0, 1, 2, 3, 4, 5),
    "aten::native_group_norm": single.group_norm,
    "aten::nll_loss_forward": single.nll_loss,
    **dict.fromkeys(LOSSES, single.loss),
    "aten::native_layer_norm": along(same={2, 3}),
    "aten::native_layer_norm_backward": single.layer_norm_backward,
    **dict.fromkeys(
        (
            "aten::cat",
            "aten::gather",
            "aten::scatter.src",
            "aten::scatter.value",
            "aten::scatter.reduce",
            "aten::scatter_add",
            "aten::scatter_reduce.two",
        ),
        along(1),
    ),
    "aten::index_add": single.index_add,
    "aten::index_copy": single.index_copy,
    "aten::index_reduce": along(1, same={2}),
    "aten::gelu_backward": along(),
    "aten::glu_backward": along(2),
    "aten::glu_jvp": along(3),
    "aten::glu_backward_jvp": along(5),
    "aten::new_empty_strided": single.new_empty_strided,
    **dict.fromkeys(("aten::slice_backward", "aten::unfold_backward"), along(2, sizes=1)),
    "aten::diagonal_backward": along(3, 4, sizes=1),
    "aten::_linalg_solve_ex": single.solve,
    **dict.fromkeys(("aten::im2col", "aten::col2im", "aten::channel_shuffle"), by_sample(0)),
    **dict.fromkeys(("aten::max_unpool2d", "aten::max_unpool3d"), by_sample(0, 1)),
    **dict.fromkeys(("aten::pixel_shuffle", "aten::pixel_unshuffle", "aten::linalg_lu"), along()),
    "aten::diagonal_scatter": along(3, 4, shorter=1),
    **dict.fromkeys(
        (
            "aten::linalg_lu_solve",
            "aten::linalg_ldl_solve",
            "aten::linalg_householder_product",
            "aten::ormqr",
        ),
        along(shorter=1),
    ),
    **dict.fromkeys((*_SPECIAL, "aten::_conj_physical"), broadcast()),
    "aten::isin.Tensor_Tensor": broadcast(same={1}),
    "aten::linalg_cross": single.cross,
    "aten::embedding": single.embedding,
    "aten::embedding_dense_backward": single.embedding_dense_backward,
    "aten::masked_scatter": single.masked_scatter,
    "aten::masked_scatter_backward": single.masked_scatter_backward,
    "aten::put": single.put,
    "aten::searchsorted.Tensor": single.searchsorted,
}
_DECOMPOSED = (
    *("quantile", "quantile.scalar", "nanquantile", "nanquantile.scalar"),
    *("stft", "stft.center", "fft_ihfft2", "fft_ihfftn"),
    *("kl_div", "margin_ranking_loss", "triplet_margin_loss", "multilabel_margin_loss"),
    *("binary_cross_entropy", "binary_cross_entropy_backward", "soft_margin_loss", "soft_margin_loss_backward"),
    *("multi_margin_loss", "multilabel_margin_loss_forward", "mish_backward"),
    *("isclose", "diagflat", "linalg_tensorsolve", "lu_solve", "renorm", "take", "block_diag", "affine_grid_generator"),
    *(f"_upsample_nearest_exact{rank}d.vec" for rank in (1, 2, 3)),
)
# Operators in place whose other forms alone have rules.
_IN_PLACE = (
    *("addbmm_", "addcdiv_", "addcmul_", "addmm_", "addmv_", "addr_", "baddbmm_", "clamp_", "clamp_.Tensor"),
    *("cumprod_", "cumsum_", "floor_divide_.Tensor", "heaviside_", "hypot_", "index_add_", "index_copy_"),
    *("lerp_.Scalar", "lerp_.Tensor", "masked_scatter_", "nextafter_", "pow_.Tensor", "put_", "renorm_"),
    *("scatter_.src", "scatter_.value", "scatter_add_", "scatter_reduce_.two", "tril_", "triu_", "xlogy_.Tensor"),
    *(f"{name}_.{form}" for name in ("eq", "ge", "gt", "le", "lt", "ne", "fmod", "remainder") for form in _OPERANDS),
)
