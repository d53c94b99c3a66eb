"""Transformers' caches as inputs and outputs of a model, under both captures."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opbridge

transformers = pytest.importorskip("transformers")

LLAMA = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.fixture(params=["export", "trace"])
def capture(request: pytest.FixtureRequest) -> str:
    return request.param


def llama() -> nn.Module:
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)).eval()


def ids(count: int) -> torch.Tensor:
    return torch.randint(0, 128, (1, count))


def dynamic_cache(past: int, batch: int = 1) -> Any:
    shape = (batch, 2, past, 16)
    return transformers.DynamicCache([(torch.randn(shape), torch.randn(shape)) for _ in range(2)])


def inputs(new: int, cache: Any, past: int) -> dict[str, Any]:
    return {
        "input_ids": ids(new),
        "attention_mask": torch.ones(1, new + past, dtype=torch.long),
        "past_key_values": cache,
    }


def check(program: opbridge.ONNXProgram, model: nn.Module, kwargs: dict[str, Any]) -> None:
    """Compares the logits, and the cache that is returned; the caller's stays as it is."""
    ours = program(**copy.deepcopy(kwargs))
    with torch.no_grad():
        theirs = model(**copy.deepcopy(kwargs))
    expected = [theirs.logits, *torch.utils._pytree.tree_leaves(theirs.past_key_values)]
    for actual, tensor in zip(ours, expected, strict=False):
        torch.testing.assert_close(actual, tensor, rtol=1e-4, atol=1e-5)


def test_a_dynamic_cache(capture: str, tmp_path: Path) -> None:
    model = llama()
    layers = [{2: "past"}] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = opbridge.export(
            model,
            kwargs=inputs(3, dynamic_cache(5), 5),
            path=tmp_path / "m.onnx",
            dynamic_shapes={
                "input_ids": {1: "new"},
                "attention_mask": {1: "total"},
                "past_key_values": [layers, layers],
            },
            capture=capture,
            verify=True,
        )
    for new, past in ((1, 7), (4, 0), (1, 0), (2, 3)):
        check(program, model, inputs(new, dynamic_cache(past), past))


def test_a_dynamic_batch_of_one_in_the_example(capture: str, tmp_path: Path) -> None:
    model = llama()
    layers = [{0: "batch", 2: "past"}] * 2
    shapes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch", 1: "total"}, "past_key_values": [layers] * 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = inputs(1, dynamic_cache(5), 5)
        program = opbridge.export(model, kwargs=given, path=tmp_path / "m.onnx", dynamic_shapes=shapes, capture=capture)
    more = inputs(1, dynamic_cache(3, batch=4), 3)
    check(program, model, {**more, **{name: more[name].repeat(4, 1) for name in ("input_ids", "attention_mask")}})


def test_a_dynamic_cache_by_the_names_of_its_tensors(capture: str, tmp_path: Path) -> None:
    model = llama()
    names = [f"past_key_values_{kind}_cache_{i}" for kind in ("key", "value") for i in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = opbridge.export(
            model,
            kwargs=inputs(1, dynamic_cache(5), 5),
            path=tmp_path / "m.onnx",
            dynamic_axes={"attention_mask": {1: "total"}, **{name: {2: "past"} for name in names}},
            capture=capture,
        )
    check(program, model, inputs(1, dynamic_cache(9), 9))


def test_a_cache_with_a_sliding_window(capture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = transformers.MistralForCausalLM(transformers.MistralConfig(**LLAMA, sliding_window=8)).eval()
    drops = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids(5), past_key_values=drops)
    with pytest.raises(opbridge.UnsupportedError, match=r"make it without the configuration, DynamicCache\(\)"):
        opbridge.export(model, kwargs=inputs(1, drops, 5), path=tmp_path / "m.onnx", capture=capture)
    layers = [{2: "past"}] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = opbridge.export(
            model,
            kwargs=inputs(1, dynamic_cache(12), 12),
            path=tmp_path / "m.onnx",
            dynamic_shapes={"input_ids": None, "attention_mask": {1: "total"}, "past_key_values": [layers, layers]},
            capture=capture,
            verify=True,
        )
    for past in (20, 9, 8, 7, 3):
        check(program, model, inputs(1, dynamic_cache(past), past))


def static_cache(model: nn.Module, past: int) -> Any:
    cache = transformers.StaticCache(config=model.config, max_cache_len=16)
    cache.early_initialization(batch_size=1, num_heads=2, head_dim=16, dtype=torch.float32, device="cpu")
    if past:
        with torch.no_grad():
            model(input_ids=ids(past), past_key_values=cache)
    return cache


def test_a_static_cache(capture: str, tmp_path: Path) -> None:
    model = llama()
    program = opbridge.export(
        model,
        kwargs={"input_ids": ids(1), "past_key_values": static_cache(model, 5)},
        path=tmp_path / "m.onnx",
        mutations_as_outputs=True,
        capture=capture,
        verify=True,
    )
    for past in (0, 1, 7, 15):
        check(program, model, {"input_ids": ids(1), "past_key_values": static_cache(model, past)})


def test_a_static_cache_is_written_which_an_export_says(capture: str, tmp_path: Path) -> None:
    model = llama()
    with pytest.raises(opbridge.UnsupportedError, match=r"writes to the input .* or ask for mutations as outputs"):
        opbridge.export(
            model,
            kwargs={"input_ids": ids(1), "past_key_values": static_cache(model, 5)},
            path=tmp_path / "m.onnx",
            capture=capture,
        )


def test_static_caches_that_cannot_be_inputs(tmp_path: Path) -> None:
    model = llama()
    with pytest.raises(opbridge.UnsupportedError, match="early_initialization"):
        opbridge.export(
            model,
            kwargs={
                "input_ids": ids(1),
                "past_key_values": transformers.StaticCache(config=model.config, max_cache_len=16),
            },
            path=tmp_path / "m.onnx",
        )
    config = transformers.MistralConfig(**LLAMA, sliding_window=8)
    with pytest.raises(opbridge.UnsupportedError, match=r"StaticSlidingWindowLayer counts tokens in Python"):
        opbridge.export(
            transformers.MistralForCausalLM(config).eval(),
            kwargs={
                "input_ids": ids(1),
                "past_key_values": transformers.StaticCache(config=config, max_cache_len=16),
            },
            path=tmp_path / "m.onnx",
        )


def test_an_encoder_decoder_cache(capture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    model = transformers.T5ForConditionalGeneration(config).eval()
    encoded = (torch.randn(1, 6, 32),)

    def called(past: int) -> dict[str, Any]:
        with torch.no_grad():
            returned = model(encoder_outputs=encoded, decoder_input_ids=ids(past), use_cache=True)
        return {
            "encoder_outputs": encoded,
            "decoder_input_ids": ids(1),
            "past_key_values": returned.past_key_values,
            "use_cache": True,
        }

    layers, cross = [{2: "past"}] * 2, [{2: "source"}] * 2
    program = opbridge.export(
        model,
        kwargs=called(3),
        path=tmp_path / "m.onnx",
        dynamic_shapes={
            "encoder_outputs": ({1: "source"},),
            "past_key_values": [[layers, layers], [cross, cross]],
            "decoder_input_ids": None,
            "use_cache": None,
        },
        capture=capture,
        verify=True,
    )
    for past in (3, 1, 8):
        check(program, model, called(past))


def test_a_cache_that_the_model_makes_is_returned(capture: str, tmp_path: Path) -> None:
    model = llama()
    program = opbridge.export(
        model, kwargs={"input_ids": ids(4)}, path=tmp_path / "m.onnx", capture=capture, verify=True
    )
    assert len(program(input_ids=ids(4))) == 5  # logits, and keys and values of two layers


def test_caches_of_other_layers(capture: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=8)
    model = transformers.MambaForCausalLM(config).eval()
    with pytest.raises(opbridge.UnsupportedError, match=r"a cache with a \w+ cannot be .* use_cache=False"):
        opbridge.export(model, kwargs={"input_ids": torch.ones(1, 4, dtype=torch.long)}, capture=capture)


def test_a_cache_without_tensors(capture: str, tmp_path: Path) -> None:
    model = llama()
    program = opbridge.export(
        model,
        kwargs={"input_ids": ids(4), "past_key_values": transformers.DynamicCache()},
        capture=capture,
        verify=True,
    )
    check(program, model, {"input_ids": ids(4), "past_key_values": transformers.DynamicCache()})


class Held:
    def __init__(self) -> None:
        self.tensor = torch.ones(3)


class Holder:
    """A cache that torch does not know: its tensors are in other objects that it holds."""

    def __init__(self) -> None:
        self.layers = [Held(), Held()]
        self.itself = self


class Uses(nn.Module):
    def forward(self, x: torch.Tensor, holder: Any) -> torch.Tensor:
        return x + holder.layers[1].tensor


def test_tensors_in_objects_of_an_object_are_not_constants(capture: str, tmp_path: Path) -> None:
    with pytest.raises(opbridge.InvalidArgumentError, match="'holder' is a Holder that holds tensors"):
        opbridge.export(Uses(), (torch.ones(3), Holder()), tmp_path / "m.onnx", capture=capture)


class WritesAfterTo(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        same = x.to(x.device, torch.float32)  # the tensor itself, as in StaticCache
        same.add_(1)
        return x * 2


def test_a_tensor_moved_to_its_own_device_is_itself(capture: str, tmp_path: Path) -> None:
    x = torch.arange(3.0)
    program = opbridge.export(
        WritesAfterTo(), (x.clone(),), tmp_path / "m.onnx", capture=capture, mutations_as_outputs=True
    )
    doubled, written = program(x.clone())
    torch.testing.assert_close(doubled, 2 * (x + 1))
    torch.testing.assert_close(written, x + 1)
