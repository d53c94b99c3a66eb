"""Attention that is causal by a condition on sizes, as ``is_causal=mask is not None and length > 1``, or by torch's
class of causal masks."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention.bias import CausalBias

from opbridge.capture.patching import patch, patch_attributes
from opbridge.torch_compat import without_modes
from opbridge.torch_compat.patch_points import (
    ATTENTION_OF_CAUSAL_BIAS,
    MAKING_OF_CAUSAL_BIAS,
    make_subclass,
    mask_of_bias,
)

_NAME = functional.scaled_dot_product_attention.__name__


@contextlib.contextmanager
def patch_causal_attention() -> Iterator[None]:
    """Makes ``scaled_dot_product_attention`` take a symbol for ``is_causal``, in all modules that have imported it:
    torch's own refuses the symbol before a mode sees the call."""
    attention = functional.scaled_dot_product_attention

    def call(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: Any = False,
        **others: Any,
    ) -> torch.Tensor:
        if isinstance(attn_mask, CausalBias):  # it compares the called function with the one that is replaced
            attn_mask = mask_of_bias(attn_mask, query.device)
        if isinstance(is_causal, torch.SymBool) and attn_mask is None:
            rows = torch.arange(query.shape[-2], device=query.device)
            columns = torch.arange(key.shape[-2], device=query.device)
            attn_mask, is_causal = (columns <= rows[:, None]) | ~torch.tensor(is_causal), False
        return attention(query, key, value, attn_mask, dropout_p, is_causal, **others)

    with contextlib.ExitStack() as until_the_end:
        for name, module in list(sys.modules.items()):
            # torch finds the function for a mode in its own extension module.
            if not name.startswith("torch._C") and getattr(module, "__dict__", {}).get(_NAME) is attention:
                until_the_end.enter_context(patch_attributes(module, **{_NAME: call}))
        yield


@contextlib.contextmanager
def patch_causal_bias() -> Iterator[None]:
    """Makes the masks of the class ``CausalBias`` outside of the modes, in which the class of a new tensor is decided.
    They hold only their sizes. Attention takes the mask itself, where torch's own branches by the sizes."""

    def new(kind: type[CausalBias], *_: Any) -> Any:
        with without_modes():
            return make_subclass(kind, torch.empty(0))

    def dispatch(
        query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any, *args: Any, **others: Any
    ) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            query, key, value, mask_of_bias(attn_mask, query.device), *args, **others
        )

    with patch(MAKING_OF_CAUSAL_BIAS, new), patch(ATTENTION_OF_CAUSAL_BIAS, staticmethod(dispatch)):
        yield
