"""The fast paths of ``nn.MultiheadAttention``, ``nn.TransformerEncoderLayer`` and ``nn.TransformerEncoder``.

In evaluation mode without gradients, eager PyTorch runs these modules with private kernels, which return other values
if there are masks: a row that may attend to nothing is NaN, a floating-point mask counts as a boolean one, a hint that
a mask is causal is ignored, and padded rows of an encoder are zeros. A capture would take the ordinary paths. Here the
modules choose as in eager mode.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from opbridge.capture.patching import patch
from opbridge.torch_compat import disabled_torch_function
from opbridge.torch_compat import patch_points as points


@contextlib.contextmanager
def patch_fast_paths() -> Iterator[None]:
    with (
        patch(points.FAST_ATTENTION, _without_unwanted_weights(points.FAST_ATTENTION.original)),
        patch(points.ATTENTION, _as_in_eager(points.ATTENTION.original, "attn_mask", "key_padding_mask")),
        patch(points.ENCODER_LAYER, _as_in_eager(points.ENCODER_LAYER.original, "src_mask", "src_key_padding_mask")),
        patch(points.ENCODER, _encoder(points.ENCODER.original)),
        patch(points.CAUSAL_MASK, _is_causal),
    ):
        yield


def _is_causal(mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Never reads the mask, which may depend on dynamic sizes or on inputs: the mask is applied in any case."""
    return is_causal is True


def _without_unwanted_weights(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns None for weights that are not wanted, as eager mode does; torch's shape rule returns an empty tensor."""
    needs_weights = 10  # the position of its argument

    def run(*args: Any, **kwargs: Any) -> Any:
        result, weights = kernel(*args, **kwargs)
        wanted = args[needs_weights] if len(args) > needs_weights else kwargs.get("need_weights", True)
        return result, weights if wanted else None

    return run


def _as_in_eager(forward: Callable[..., Any], *masks: str) -> Callable[..., Any]:
    """Makes ``forward`` choose its path as in eager mode if the results of the paths may differ: with masks, or with
    the hint."""
    parameters = inspect.signature(forward)
    differing = (*masks, "is_causal")

    @functools.wraps(forward)
    def run(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():  # in torch.cond, where Dynamo sees no modes
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
