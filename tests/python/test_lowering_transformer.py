"""The kernels by which PyTorch runs attention and encoder layers in evaluation, where a model calls them itself."""

from __future__ import annotations

import itertools
import pathlib
from typing import Any

import pytest
import torch
from functionalize_check import Model
from lowering_check import check

import opbridge

aten = torch.ops.aten
WIDTH, HEADS = 8, 2
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    return {"rtol": 5e-2, "atol": 5e-2} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}


def oldest(dtype: torch.dtype) -> int:
    """The first opset with the operators that the tests need."""
    return 13 if dtype == torch.bfloat16 else 11


def parameters(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """The weights of an attention: of query, key and value, and of the output, with their biases."""
    sizes = ((3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,))
    return tuple(0.3 * torch.randn(size, dtype=dtype) for size in sizes)


def layer_parameters(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """The weights of an encoder layer after those of its attention."""
    sizes = ((WIDTH,), (WIDTH,), (WIDTH,), (WIDTH,), (12, WIDTH), (12,), (WIDTH, 12), (WIDTH,))
    return tuple(torch.randn(size, dtype=dtype) for size in sizes)


def attention(
    mask_type: int | None = None, need_weights: bool = True, average: bool = True, is_masked: bool = True
) -> Any:
    """Of a query, a key, a value, the weights and perhaps a mask."""

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: torch.Tensor) -> Any:
        *weights, mask = rest if is_masked else (*rest, None)
        result = aten._native_multi_head_attention(
            q, k, v, WIDTH, HEADS, *weights, mask, need_weights, average, mask_type
        )
        return result if need_weights else result[0]

    return run


def attention_to_itself(*args: Any, **kwargs: Any) -> Any:
    function = attention(*args, **kwargs)
    return lambda x, *rest: function(x, x, x, *rest)


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(dtype: torch.dtype) -> None:
    functions = {
        str(flags): attention(None, *flags, is_masked=False) for flags in itertools.product([True, False], repeat=2)
    }
    q, k, v = (torch.randn(2, 5, WIDTH, dtype=dtype) for _ in range(3))
    check(functions, q, k, v, *parameters(dtype), **tolerance(dtype))
    of_pairs = {name: lambda q, k, *rest, f=f: f(q, k, k, *rest) for name, f in functions.items()}
    check(of_pairs, q, k, *parameters(dtype), **tolerance(dtype))
    of_one = {name: lambda q, *rest, f=f: f(q, q, q, *rest) for name, f in functions.items()}
    check(of_one, q, *parameters(dtype), **tolerance(dtype))
    check(of_one, q, *parameters(dtype), opset=oldest(dtype), **tolerance(dtype))


MASKS = {
    "of pairs": (0, (5, 5)),
    "of keys": (1, (2, 5)),
    "of scores": (2, (2, HEADS, 5, 5)),
    "of scores, as of pairs": (0, (2, HEADS, 5, 5)),
    "of scores, as of keys": (1, (2, HEADS, 5, 5)),
    "of scores, without a type": (None, (2, HEADS, 5, 5)),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    mask_type, size = MASKS[name]
    functions = {
        "average": attention_to_itself(mask_type),
        "heads": attention_to_itself(mask_type, average=False),
        "no weights": attention_to_itself(mask_type, need_weights=False),
    }
    x, numbers = torch.randn(2, 5, WIDTH), torch.randn(size)
    hides_rows = numbers > 0.2
    hides_rows[0] = True  # whole rows, whose results are NaN
    for mask in (hides_rows, numbers > 0.8, numbers.relu(), torch.where(numbers > 0.8, -torch.inf, 0.0)):
        check(functions, x, *parameters(), mask, **tolerance(x.dtype))


@pytest.mark.parametrize("name", MASKS)
def test_attention_with_dynamic_sizes(name: str) -> None:
    mask_type, size = MASKS[name]

    def inputs(batch: int, length: int) -> tuple[torch.Tensor, ...]:
        sizes = [
            {2: batch, 5: length}.get(each, each) if each != HEADS or i == 0 else each for i, each in enumerate(size)
        ]
        return torch.randn(batch, length, WIDTH), *weights, torch.rand(sizes) > 0.7

    weights = parameters()
    of_mask = {"of pairs": {0: "length", 1: "length"}, "of keys": {0: "batch", 1: "length"}}
    dynamic = [
        {0: "batch", 1: "length"},
        *[{} for _ in weights],
        of_mask.get(name, {0: "batch", 2: "length", 3: "length"}),
    ]
    functions = {"average": attention_to_itself(mask_type), "heads": attention_to_itself(mask_type, average=False)}
    check(functions, *inputs(2, 5), dynamic=dynamic, also=[inputs(3, 7), inputs(1, 1)], **tolerance(torch.float32))


def test_a_trace_of_attention_without_weights(tmp_path: pathlib.Path) -> None:
    """Its call has no second result, unlike one that torch.export captures."""
    function = attention_to_itself(need_weights=False, is_masked=False)
    args = torch.randn(2, 5, WIDTH), *parameters()
    opbridge.export(Model(function), args, tmp_path / "model.onnx", capture="trace", verify=True)


def test_what_attention_leaves_open_is_refused() -> None:
    x, weights = torch.randn(2, 5, WIDTH), parameters()
    refused = {
        "a mask has two dims, with mask_type 0 or 1": (attention_to_itself(2), torch.zeros(5, 5)),
        "a mask of four dims has other sizes": (attention_to_itself(2), torch.zeros(2, 1, 5, 5)),
        r"of mask_type 1 \(B, T\)": (attention_to_itself(1), torch.zeros(5, 5)),
    }
    for message, (function, mask) in refused.items():
        with pytest.raises(opbridge.UnsupportedError, match=message):
            check(function, x, *weights, mask)
    with pytest.raises(opbridge.UnsupportedError, match="the input has no elements"):
        check(attention_to_itself(is_masked=False), torch.randn(0, 5, WIDTH), *weights)


def encoder_layer(use_gelu: bool, norm_first: bool, mask_type: int | None = None) -> Any:
    def run(x: torch.Tensor, *rest: torch.Tensor) -> Any:
        of_attention, of_layer, mask = rest[:4], rest[4:12], rest[12:]
        return aten._transformer_encoder_layer_fwd(
            x, WIDTH, HEADS, *of_attention, use_gelu, norm_first, 1e-4, *of_layer, *(mask or (None,)), mask_type
        )

    return run


def layers(mask_type: int | None = None) -> dict[str, Any]:
    return {
        f"gelu {use_gelu}, norm first {norm_first}": encoder_layer(use_gelu, norm_first, mask_type)
        for use_gelu, norm_first in itertools.product([True, False], repeat=2)
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_encoder_layer(dtype: torch.dtype) -> None:
    inputs = torch.randn(2, 5, WIDTH, dtype=dtype), *parameters(dtype), *layer_parameters(dtype)
    check(layers(), *inputs, **tolerance(dtype))
    check(layers(), *inputs, opset=oldest(dtype), **tolerance(dtype))


@pytest.mark.parametrize("name", MASKS)
def test_masks_of_an_encoder_layer(name: str) -> None:
    mask_type, size = MASKS[name]
    mask = torch.rand(size) > 0.7
    mask[0] = True  # whole rows, whose results are NaN
    check(
        layers(mask_type),
        torch.randn(2, 5, WIDTH),
        *parameters(),
        *layer_parameters(),
        mask,
        **tolerance(torch.float32),
    )


def test_encoder_layer_with_dynamic_sizes() -> None:
    rest = *parameters(), *layer_parameters()

    def inputs(batch: int, length: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(batch, length, WIDTH), *rest, torch.rand(batch, length) > 0.7

    sizes = {0: "batch", 1: "length"}
    dynamic = [sizes, *[{} for _ in rest], sizes]
    check(layers(1), *inputs(2, 5), dynamic=dynamic, also=[inputs(3, 7), inputs(1, 1)], **tolerance(torch.float32))
