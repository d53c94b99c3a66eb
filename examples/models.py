"""Real models with seeded random weights, exported by both captures and compared with PyTorch.

Each is exported with constant sizes, and with a dynamic batch that is also run at another batch size.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import torch
from scenario import Row, check, table
from torch import nn


@dataclasses.dataclass(frozen=True)
class Example:
    """How to make a model, its inputs at a batch size, and the batch axes."""

    model: Callable[[], nn.Module]
    inputs: Callable[[int], dict[str, torch.Tensor]]
    batch_axes: dict[str, int]


def _images(size: int) -> Callable[[int], dict[str, torch.Tensor]]:
    return lambda batch: {"x": torch.rand(batch, 3, size, size)}


def _tokens(batch: int) -> dict[str, torch.Tensor]:
    return {"input_ids": torch.randint(0, 1000, (batch, 16)), "attention_mask": torch.ones(batch, 16, dtype=torch.long)}


_TOKEN_AXES = {"input_ids": 0, "attention_mask": 0}


class LanguageModel(nn.Module):
    """A model of transformers that takes and returns only tensors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False)[0]


def _vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        import torchvision

        model = torchvision.models.get_model(name, weights=None, **options)
        if name == "vit_b_16":  # torchvision initializes the head to zero, which would hide all differences
            nn.init.normal_(model.heads.head.weight, std=0.02)
        return model

    return build


class _Segmentation(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.model = _vision("deeplabv3_resnet50", weights_backbone=None)()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)["out"]


def _bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = BertModel(BertConfig(num_hidden_layers=2))

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=input_ids, attention_mask=attention_mask)[0]

    return Bert()


def _gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    return LanguageModel(GPT2LMHeadModel(GPT2Config(n_layer=2)))


def _llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        num_hidden_layers=2, hidden_size=128, intermediate_size=256, num_attention_heads=8, num_key_value_heads=4,
        vocab_size=1000,
    )  # fmt: skip
    return LanguageModel(LlamaForCausalLM(config))


EXAMPLES: dict[str, Example] = {
    "resnet50": Example(_vision("resnet50"), _images(224), {"x": 0}),
    "mobilenet_v2": Example(_vision("mobilenet_v2"), _images(224), {"x": 0}),
    "vit_b_16": Example(_vision("vit_b_16"), _images(224), {"x": 0}),
    "swin_t": Example(_vision("swin_t"), _images(224), {"x": 0}),
    "deeplabv3_resnet50": Example(_Segmentation, _images(128), {"x": 0}),
    "BERT, 2 layers": Example(_bert, _tokens, _TOKEN_AXES),
    "GPT-2, 2 layers": Example(_gpt2, _tokens, _TOKEN_AXES),
    "Llama, small": Example(_llama, _tokens, _TOKEN_AXES),
    "nn.LSTM": Example(
        lambda: nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True),
        lambda b: {"input": torch.rand(b, 5, 8)},
        {"input": 0},
    ),
    "nn.GRU": Example(
        lambda: nn.GRU(8, 16, 2, bidirectional=True), lambda b: {"input": torch.rand(5, b, 8)}, {"input": 1}
    ),
    "nn.Transformer": Example(
        lambda: nn.Transformer(32, 4, 2, 2, 64, batch_first=True),
        lambda b: {"src": torch.rand(b, 5, 32), "tgt": torch.rand(b, 6, 32)},
        {"src": 0, "tgt": 0},
    ),
}


def row(name: str, capture: str, dynamic: bool) -> Row:
    example = EXAMPLES[name]
    torch.manual_seed(0)
    model = example.model().eval()
    options: dict[str, Any] = {}
    if dynamic:
        batch = torch.export.Dim("batch")
        options["dynamic_shapes"] = {key: {axis: batch} for key, axis in example.batch_axes.items()}
        options["verify_on"] = ((), example.inputs(3))
    title = f"{name} ({capture}{', dynamic batch' if dynamic else ''})"
    return check(title, "none missing", model, (), kwargs=example.inputs(2), capture=capture, atol=1e-4, **options)


def rows() -> list[Row]:
    result = []
    for name in EXAMPLES:
        for capture in ("export", "trace"):
            for dynamic in (False, True):
                result.append(row(name, capture, dynamic))
                print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)
    return result


if __name__ == "__main__":
    print(table(rows()))
