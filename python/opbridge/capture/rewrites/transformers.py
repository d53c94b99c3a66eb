"""The fast paths of ``nn.MultiheadAttention``, ``nn.TransformerEncoderLayer`` and ``nn.TransformerEncoder``.

In evaluation mode without gradients, eager PyTorch runs these modules with private kernels, which return other values
if there are masks: a row that may attend to nothing is NaN, a floating-point mask counts as a boolean one, a hint that
a mask is causal is ignored, and padded rows of an encoder are zeros. A capture would take the ordinary paths. Here the
modules choose as in eager mode, and the kernels are replaced by operators that compute the same.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from opbridge.capture.patching import patch
from opbridge.torch_compat import (
    MULTI_HEAD_ATTENTION,
    TRANSFORMER_ENCODER_LAYER,
    disabled_torch_function,
)
from opbridge.torch_compat import patch_points as points


@contextlib.contextmanager
def patch_fast_paths() -> Iterator[None]:
    with (
        patch(points.FAST_ATTENTION, _attention),
        patch(points.FAST_ENCODER_LAYER, _encoder_layer),
        patch(points.ATTENTION, _as_in_eager(points.ATTENTION.original, "attn_mask", "key_padding_mask")),
        patch(points.ENCODER_LAYER, _as_in_eager(points.ENCODER_LAYER.original, "src_mask", "src_key_padding_mask")),
        patch(points.ENCODER, _encoder(points.ENCODER.original)),
        patch(points.CAUSAL_MASK, _is_causal),
    ):
        yield


def _is_causal(mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Never reads the mask, which may depend on dynamic sizes or on inputs: the mask is applied in any case."""
    return is_causal is True


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """``aten::_native_multi_head_attention``, for query, key and value that are the same, as the modules call it."""
    width = embed_dim // num_head
    projected = F.linear(query, qkv_weight, qkv_bias)
    q, k, v = projected.view(*query.shape[:2], 3, num_head, width).permute(2, 0, 3, 1, 4)
    scores = (q / math.sqrt(width)) @ k.transpose(-2, -1)
    if mask is not None:
        blocked = mask.to(torch.bool)
        scores = scores.masked_fill(blocked[:, None, None] if mask_type == 1 else blocked, -math.inf)
    weights = scores.softmax(-1)
    result = F.linear((weights @ v).transpose(1, 2).flatten(2), proj_weight, proj_bias)
    return result, (weights.mean(1) if average_attn_weights else weights) if need_weights else None


def _encoder_layer(
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """``aten::_transformer_encoder_layer_fwd``."""

    def attended(x: torch.Tensor) -> torch.Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        return _attention(x, x, x, embed_dim, num_heads, *projections, mask, False, mask_type=mask_type)[0]

    def fed_forward(x: torch.Tensor) -> torch.Tensor:
        activated = (F.gelu if use_gelu else F.relu)(F.linear(x, ffn_weight_1, ffn_bias_1))
        return F.linear(activated, ffn_weight_2, ffn_bias_2)

    def norm_1(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def norm_2(x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attended(norm_1(src))
        return src + fed_forward(norm_2(src))
    src = norm_1(src + attended(src))
    return norm_2(src + fed_forward(src))


# The kernels as operators, as TorchScript calls them.
KERNELS: dict[Any, Callable[..., Any]] = {
    MULTI_HEAD_ATTENTION: _attention,
    TRANSFORMER_ENCODER_LAYER: _encoder_layer,
}


def _as_in_eager(forward: Callable[..., Any], *masks: str) -> Callable[..., Any]:
    """Makes ``forward`` choose its path as in eager mode if the results of the paths may differ: with masks, or with
    the hint."""
    parameters = inspect.signature(forward)
    differing = (*masks, "is_causal")

    @functools.wraps(forward)
    def run(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():  # in torch.cond, where Dynamo sees no modes; kernels are replaced
            return forward(module, *args, **kwargs)
        given = parameters.bind(module, *args, **kwargs).arguments
        if all(given.get(name) is None or given.get(name) is False for name in differing):
            return forward(module, *args, **kwargs)
        with (
            patch(points.OVERRIDES, _overrides),
            patch(points.IS_TRACED_BY_FX, lambda: False),
        ):
            return forward(module, *args, **kwargs)

    return run


def _overrides(tensors: Sequence[Any]) -> bool:
    """Whether a tensor's class overrides torch's functions. The modes of the capture, which always do, do not count."""
    disabled = disabled_torch_function
    own = (getattr(type(tensor), "__torch_function__", disabled) for tensor in tensors if type(tensor) not in _PLAIN)
    return any(function is not disabled for function in own)


_PLAIN = (torch.Tensor, nn.Parameter)


def _encoder(forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(forward)
    def run(
        encoder: nn.TransformerEncoder,
        src: torch.Tensor,
        mask: torch.Tensor | None = None,
        src_key_padding_mask: torch.Tensor | None = None,
        is_causal: bool | None = None,
    ) -> torch.Tensor:
        if src_key_padding_mask is None or mask is not None or not _nests(encoder, src):
            return forward(encoder, src, mask, src_key_padding_mask, is_causal)
        padded = src_key_padding_mask.to(torch.bool)
        lengths = padded.logical_not().sum(1, keepdim=True)
        at_the_end = torch.arange(src.shape[1], device=src.device) >= lengths
        if getattr(encoder, "mask_check", True):  # eager mode nests only if all sequences are padded at the end
            zeros = padded & (padded == at_the_end).all()
        else:  # eager mode reads only the lengths from the mask
            padded = zeros = at_the_end
        for layer in encoder.layers:
            src = layer(src, src_key_padding_mask=padded, is_causal=bool(is_causal))
        src = src.masked_fill(zeros.unsqueeze(-1), 0.0)
        return src if encoder.norm is None else encoder.norm(src)

    return run


def _nests(encoder: nn.TransformerEncoder, src: torch.Tensor) -> bool:
    """Whether eager mode passes nested tensors to the layers, if the mask allows it."""
    if not (torch.backends.mha.get_fastpath_enabled() and getattr(encoder, "use_nested_tensor", False)):
        return False
    layer: Any = encoder.layers[0]
    tensors = [src, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias]
    parts = (layer.self_attn.out_proj, layer.norm1, layer.norm2, layer.linear1, layer.linear2)
    tensors += [tensor for part in parts for tensor in (part.weight, part.bias)]
    return not (
        layer.training
        or src.dim() != 3
        or torch.is_autocast_enabled()
        or _overrides(tensors)
        or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
    )
