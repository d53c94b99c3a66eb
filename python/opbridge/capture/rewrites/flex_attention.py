"""torch.nn.attention.flex_attention, whose score and mask functions take single elements.

torch applies them with vmap. Here they are called once, on all scores and on index tensors that broadcast with them.
For functions made of elementwise operations this is the same; others are refused.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from opbridge.capture.patching import patch
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import flex_attention_if_loaded, pytree, safe_softmax


@contextlib.contextmanager
def patch_flex_attention() -> Iterator[None]:
    flex = flex_attention_if_loaded()
    if flex is None:
        yield
        return
    no_mask = flex.empty_block_mask(torch.empty(0), torch.empty(0))  # made outside of the capture, since it uses vmap
    with (
        patch(flex.OPERATOR, _attention),
        patch(flex.EMPTY_BLOCK_MASK, lambda query, key: no_mask),
        patch(flex.RUNS_UNCOMPILED, True),
    ):
        yield


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Any,
    block_mask: tuple[Any, ...],
    scale: float,
    kernel_options: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the result (batch, heads, queries, width of values), and for each row of scores the logarithm of the sum
    of exponentials and the maximum, both divided by log(2)."""
    flex = flex_attention_if_loaded()
    mask_mod = block_mask[-1]
    heads, width = query.shape[1] // key.shape[1], torch.float64 if query.dtype == torch.float64 else torch.float32
    keys = key.repeat_interleave(heads, 1) if heads > 1 else key
    values = value.repeat_interleave(heads, 1) if heads > 1 else value
    scores = (query.to(width) @ keys.to(width).transpose(-2, -1) * scale).to(width)
    size = scores.shape
    indices = [torch.arange(size[axis], device=query.device).reshape(-1, *[1] * (3 - axis)) for axis in range(4)]

    mask = None
    if mask_mod is not flex.no_mask:
        mask = _applied(mask_mod, *indices)
        mask = mask if mask.dim() >= 2 else mask.expand(size[2:])
    if score_mod is not flex.no_score:
        scores = _applied(score_mod, scores, *indices).expand(size).to(width)
    if mask is not None:
        scores = torch.where(mask, scores, -math.inf)
    if score_mod is flex.no_score:
        result = F.scaled_dot_product_attention(query, keys, values, mask, scale=scale)
    else:
        result = safe_softmax(scores, -1).to(query.dtype) @ values
    return result, scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)


def _applied(function: Any, *args: torch.Tensor) -> torch.Tensor:
    with _SingleElements(args):
        result: torch.Tensor = function(*args)
    return result


class _SingleElements(TorchFunctionMode):
    """Allows only elementwise operations, and indexing of a tensor along all its axes."""

    def __init__(self, elements: tuple[torch.Tensor, ...]) -> None:
        super().__init__()
        self._elements = list(elements)  # tensors of single elements; kept alive, since they are compared by identity

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        result = func(*args, **(kwargs or {}))
        if name == "__get__" or not isinstance(result, torch.Tensor):
            return result
        if name == "__getitem__":
            chosen = args[1] if isinstance(args[1], tuple) else (args[1],)
            holds = not self._is_element(args[0]) and len(chosen) == args[0].dim()
            holds &= all(isinstance(index, int) or self._is_element(index) for index in chosen)
        else:
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            holds = _is_pointwise(name, len(tensors)) and all(self._is_element(tensor) for tensor in tensors)
        if not holds:
            raise UnsupportedError(
                f"a function passed to flex_attention calls {name}, which is not an elementwise operation; it may "
                "only use elementwise operations, and index other tensors along all their axes at once"
            )
        self._elements.append(result)
        return result

    def _is_element(self, value: Any) -> bool:
        if not isinstance(value, torch.Tensor):
            return False
        return value.dim() == 0 or any(value is element for element in self._elements)


# Python's names of operators that have other names in torch.
_NAMES = {
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
}
_CONVERSIONS = frozenset({"to", "type_as", "float", "double", "half", "bfloat16", "int", "long", "bool"})
# Their forms with one tensor are not elementwise: they are reductions, or do not return a tensor.
_OF_TWO = frozenset({"max", "min", "where"})


def _is_pointwise(name: str, tensors: int) -> bool:
    """Whether a function or method of torch is elementwise: ``sub``, ``__rsub__`` and ``__isub__`` are ``sub``."""
    plain = name.strip("_")
    for stem in (plain, plain[1:]):
        stem = _NAMES.get(stem, stem)
        packet: Any = getattr(torch.ops.aten, stem, None)
        if stem in _CONVERSIONS or (stem in _OF_TWO and tensors < 2):
            return stem in _CONVERSIONS
        if hasattr(packet, "overloads"):
            return any(torch.Tag.pointwise in getattr(packet, form).tags for form in packet.overloads())
    return False
