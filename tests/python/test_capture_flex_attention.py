"""flex_attention with functions of scores and indices, by both captures."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import opbridge

pytestmark = pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile.*")

Tensor = torch.Tensor
HEADS, LENGTH = 4, 128
SLOPES, BIAS = torch.rand(HEADS), torch.randn(HEADS, LENGTH, LENGTH)
DOCUMENTS = torch.arange(LENGTH) // 50


class Attention(nn.Module):
    def __init__(self, score_mod: Any = None, block_mask: Any = None, **options: Any) -> None:
        super().__init__()
        self.score_mod, self.block_mask, self.options = score_mod, block_mask, options
        self.register_buffer("slopes", SLOPES)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Any:
        return flex_attention(query, key, value, self.score_mod, self.block_mask, **self.options)


def mask(function: Callable[..., Tensor]) -> Any:
    return create_block_mask(function, None, None, LENGTH, LENGTH, device="cpu")


MODELS: dict[str, Callable[[], Attention]] = {
    "plain": Attention,
    "scale": lambda: Attention(scale=0.7),
    "relative": lambda: Attention(lambda score, b, h, q, k: score - (q - k).abs() * 0.1),
    "slopes": lambda: Attention(lambda score, b, h, q, k: score + SLOPES[h] * (k - q)),
    "bias": lambda: Attention(lambda score, b, h, q, k: score + BIAS[h, q, k]),
    "capped": lambda: Attention(lambda score, b, h, q, k: torch.tanh(score / 20) * 20),
    "causal by score": lambda: Attention(lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf"))),
    "causal": lambda: Attention(block_mask=mask(lambda b, h, q, k: q >= k)),
    "window": lambda: Attention(block_mask=mask(lambda b, h, q, k: (q >= k) & ((q - k) <= 20))),
    "documents": lambda: Attention(block_mask=mask(lambda b, h, q, k: DOCUMENTS[q] == DOCUMENTS[k])),
    "some keys": lambda: Attention(block_mask=mask(lambda b, h, q, k: k < 100)),
    "every key": lambda: Attention(block_mask=mask(lambda b, h, q, k: b >= 0)),
    "by indices alone": lambda: Attention(lambda score, b, h, q, k: -(q - k).abs()),
    "by queries alone": lambda: Attention(lambda score, b, h, q, k: q * 0.1),
    "nothing seen": lambda: Attention(block_mask=mask(lambda b, h, q, k: (q > k) & (h > 0))),
    "mask and score": lambda: Attention(lambda score, b, h, q, k: score * 2 - h, mask(lambda b, h, q, k: q >= k)),
    "nothing seen, and a score": lambda: Attention(lambda score, b, h, q, k: score * 2, mask(lambda b, h, q, k: q > k)),
    "sums": lambda: Attention(lambda score, b, h, q, k: score + b, return_lse=True),
}


def inputs(batch: int, key_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    heads = HEADS, key_heads, key_heads
    query, key, value = (torch.randn(batch, count, LENGTH, 8) for count in heads)
    return query, key, value


@pytest.mark.parametrize("capture", ["export", "trace"])
@pytest.mark.parametrize("name", MODELS)
def test_flex_attention(name: str, capture: str, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(0)
    model, path = MODELS[name](), tmp_path / "model.onnx"
    shapes = ({0: Dim.DYNAMIC},) * 3
    opbridge.export(model, inputs(2), path, dynamic_shapes=shapes, verify=True, capture=capture)
    opbridge.verify(path, model, inputs(3))


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_few_heads_of_keys(capture: str, tmp_path: pathlib.Path) -> None:
    model = Attention(block_mask=mask(lambda b, h, q, k: q >= k), enable_gqa=True)
    opbridge.export(model, inputs(2, key_heads=2), tmp_path / "model.onnx", verify=True, capture=capture)


@pytest.mark.parametrize(
    "function",
    [
        lambda score, b, h, q, k: score - score.max(),
        lambda score, b, h, q, k: score + BIAS[h].sum(),
        lambda score, b, h, q, k: score + BIAS[h][q][k],
        lambda score, b, h, q, k: score.softmax(-1),
        lambda score, b, h, q, k: score + SLOPES.mean(),
    ],
)
def test_operations_that_are_not_elementwise_are_refused(function: Any, tmp_path: pathlib.Path) -> None:
    for capture in ("export", "trace"):
        with pytest.raises(opbridge.UnsupportedError, match="not an elementwise operation"):
            opbridge.export(Attention(function), inputs(1), tmp_path / "model.onnx", capture=capture)
