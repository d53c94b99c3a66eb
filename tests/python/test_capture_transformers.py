"""Transformer layers compute the same as eager PyTorch in evaluation mode, which uses special kernels for masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opbridge
from checking.runtime import run_plain

BATCH, LENGTH, WIDTH = 3, 4, 8


def boolean(rows: list[list[int]]) -> torch.Tensor:
    return torch.tensor(rows).bool()


PADDING = {
    "none": boolean([[0] * 4] * 3),
    "at the end": boolean([[0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]]),
    "a whole sequence": boolean([[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]]),
    "elsewhere": boolean([[0, 0, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]]),
    "numbers": torch.tensor([[0, 0, 0, 0], [0, 0, 0.5, -1], [0, 0, 0, 3.0]]),
}
MASKS = {
    "causal": torch.triu(torch.ones(4, 4), 1).bool(),
    "a whole row": boolean([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0]]),
    "numbers": torch.tensor([[0, 0.5, 0, 0], [0, 0, 2, 0], [0, 0, 0, -1], [0, 0, 0, 0]]),
    "infinite numbers": torch.triu(torch.full((4, 4), float("-inf")), 1),
}


def layer(width: int = WIDTH, heads: int = 2, **options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(width, heads, 16, batch_first=True, **options)


class Called(nn.Module):
    def __init__(self, module: nn.Module, mask: str, inputs: int = 1, **options: Any) -> None:
        super().__init__()
        self.module, self.mask, self.inputs, self.options = module, mask, inputs, options

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return self.module(*[x] * self.inputs, **{self.mask: mask}, **self.options)


def encoder(inner: nn.TransformerEncoderLayer, *args: Any, **options: Any) -> Called:
    return Called(nn.TransformerEncoder(inner, 2, *args, **options), "src_key_padding_mask")


def attention(mask: str, **options: Any) -> Called:
    return Called(nn.MultiheadAttention(WIDTH, 2, batch_first=True), mask, 3, **options)


PADDED = {
    "encoder": lambda: encoder(layer()),
    "encoder with a norm": lambda: encoder(layer(activation="gelu"), nn.LayerNorm(WIDTH)),
    "encoder that trusts the mask": lambda: encoder(layer(), mask_check=False),
    "encoder without nested tensors": lambda: encoder(layer(), enable_nested_tensor=False),
    "encoder of layers that begin with a norm": lambda: encoder(layer(norm_first=True)),
    "encoder without biases": lambda: encoder(layer(bias=False)),
    "encoder of three heads": lambda: encoder(layer(9, 3)),
    "layer": lambda: Called(layer(), "src_key_padding_mask"),
    "attention": lambda: attention("key_padding_mask"),
    "attention of each head": lambda: attention("key_padding_mask", average_attn_weights=False),
    "attention without weights": lambda: attention("key_padding_mask", need_weights=False),
}
MASKED = {
    "layer": lambda: Called(layer(), "src_mask"),
    "layer that begins with a norm": lambda: Called(layer(norm_first=True, activation="gelu"), "src_mask"),
    "attention": lambda: attention("attn_mask", need_weights=False),
    "attention with a hint": lambda: attention("attn_mask", is_causal=True),
}
CAPTURES = pytest.mark.parametrize(("capture", "dynamic"), [("export", False), ("trace", True)])


def agrees(model: Called, mask: torch.Tensor, capture: Any, shapes: Any, path: Path) -> None:
    torch.manual_seed(0)
    model.eval()
    x = torch.rand(BATCH, LENGTH, 9 if "embed_dim=9" in repr(model) or "in_features=9" in repr(model) else WIDTH)
    opbridge.export(model, (x, mask), path, capture=capture, dynamic_shapes=shapes)
    with torch.no_grad():
        returned = model(x, mask)
    expected = [each for each in (returned if isinstance(returned, tuple) else [returned]) if each is not None]
    actual = run_plain(path, x, mask)
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(a), e, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert opbridge.verify(path, model, (x, mask)).ok


@CAPTURES
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("name", PADDED)
def test_padding(name: str, padding: str, capture: Any, dynamic: bool, tmp_path: Path) -> None:
    shapes = [{0: "n", 1: "length"}, {0: "n", 1: "length"}] if dynamic else None
    agrees(PADDED[name](), PADDING[padding], capture, shapes, tmp_path / "m.onnx")


@CAPTURES
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MASKED)
def test_masks(name: str, mask: str, capture: Any, dynamic: bool, tmp_path: Path) -> None:
    agrees(MASKED[name](), MASKS[mask], capture, [{0: "n"}, None] if dynamic else None, tmp_path / "m.onnx")


def test_padded_rows_are_zeros_at_other_sizes(tmp_path: Path) -> None:
    model = encoder(layer()).eval()
    shapes = [{0: "n", 1: "length"}, {0: "n", 1: "length"}]
    opbridge.export(model, (torch.rand(3, 4, WIDTH), PADDING["none"]), tmp_path / "m.onnx", dynamic_shapes=shapes)
    for mask in (boolean([[0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]]), boolean([[0, 1, 0]])):
        x = torch.rand(*mask.shape, WIDTH)
        (actual,) = run_plain(tmp_path / "m.onnx", x, mask)
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(actual), model(x, mask), rtol=1e-4, atol=1e-5)


def test_verify_sees_padded_rows_that_are_no_zeros(tmp_path: Path) -> None:
    """torch.backends.mha switches the fast paths off; the exported model then differs from one that takes them."""
    model, args = encoder(layer()).eval(), (torch.rand(3, 4, WIDTH), PADDING["at the end"])
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        opbridge.export(model, args, tmp_path / "m.onnx", verify=True)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    with pytest.raises(opbridge.VerificationError, match="differ"):
        opbridge.verify(tmp_path / "m.onnx", model, args)


@pytest.mark.parametrize("mask", [None, "causal", "a whole row"])
def test_torchscript_calls_the_kernels_itself(mask: str | None, tmp_path: Path) -> None:
    scripted: Any = torch.jit.script(layer().eval())  # type: ignore[no-untyped-call]
    args = (torch.rand(BATCH, LENGTH, WIDTH), *([] if mask is None else [MASKS[mask]]))
    shapes = [{0: "n", 1: "length"}] if mask is None else None  # with masks, TorchScript makes the batch an int
    opbridge.export(scripted, args, tmp_path / "m.onnx", capture="trace", dynamic_shapes=shapes, verify=True)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_masks_made_by_a_dynamic_length(capture: Any, tmp_path: Path) -> None:
    """torch compares a mask with the causal one, which no capture can do for every length."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Transformer(WIDTH, 2, 1, 1, 16, batch_first=True)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1])
            return self.model(x, y, tgt_mask=mask), self.model.encoder(y, mask=mask)

    torch.manual_seed(0)
    model, axes = Model().eval(), {0: "n", 1: "length"}
    inputs = [(torch.randn(n, 3, WIDTH), torch.randn(n, length, WIDTH)) for n, length in ((2, 4), (3, 7), (1, 2))]
    opbridge.export(model, inputs[0], tmp_path / "m.onnx", capture=capture, dynamic_shapes=({0: "n"}, axes))
    for each in inputs:
        opbridge.verify(tmp_path / "m.onnx", model, each)


@pytest.mark.parametrize("capture", ["export", "trace"])
def test_the_kernel_of_attention_takes_different_tensors(capture: str, tmp_path: Path) -> None:
    class Model(nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *weights: torch.Tensor) -> Any:
            return torch._native_multi_head_attention(q, k, v, WIDTH, 2, *weights)

    sizes = [*[(BATCH, LENGTH, WIDTH)] * 3, (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)]
    args = tuple(torch.randn(size) for size in sizes)
    opbridge.export(Model(), args, tmp_path / "model.onnx", capture=capture, verify=True)
