"""Scenario 7: language models with a cache, from files of weights, that generate text in ONNX Runtime."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from scenario import Row, summary, table

import opbridge
from opbridge.capture import Capture

PROMPT = [[17, 4, 91, 55, 8]]
NEW_TOKENS = 24


def configurations() -> dict[str, Any]:
    """Small models with the structure of large ones."""
    from transformers import GPT2Config, LlamaConfig

    common = {"vocab_size": 1000, "bos_token_id": 0, "eos_token_id": None}
    return {
        "Llama": LlamaConfig(
            num_hidden_layers=2, hidden_size=128, intermediate_size=256, num_attention_heads=8, num_key_value_heads=4,
            initializer_range=0.3, **common,
        ),
        "GPT-2": GPT2Config(n_layer=2, n_embd=128, n_head=4, initializer_range=0.3, **common),
    }  # fmt: skip


# --8<-- [start:export]
def export(folder: Path, capture: Capture) -> Path:
    """Exports the model of a folder that ``save_pretrained`` wrote. The weights stay in its .safetensors file."""
    from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

    config = AutoConfig.from_pretrained(folder)
    with opbridge.meta_parameters():
        model = AutoModelForCausalLM.from_config(config)
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    layers, head_size = config.num_hidden_layers, config.hidden_size // config.num_attention_heads
    past = [(torch.zeros(1, heads, 4, head_size), torch.zeros(1, heads, 4, head_size)) for _ in range(layers)]
    new, seen = 3, 4
    path = folder / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers compares sizes, to leave out masks that hide nothing
        opbridge.export(
            model,
            kwargs={
                "input_ids": torch.ones(1, new, dtype=torch.long),
                "attention_mask": torch.ones(1, seen + new, dtype=torch.long),
                "past_key_values": DynamicCache(past),
            },
            f=path,
            dynamic_shapes={
                "input_ids": {1: "new"},
                "attention_mask": {1: "total"},
                "past_key_values": [[{2: "past"}] * layers, [{2: "past"}] * layers],  # of the keys, of the values
            },
            weights=folder,
            external_data="reference",
            capture=capture,
        )
    return path


def generate(path: Path, prompt: list[list[int]], count: int) -> Iterator[np.ndarray]:
    """The logits of each new token, which is the token with the greatest logit."""
    session = opbridge.session(path)
    caches = [value for value in session.get_inputs() if value.name.startswith("past_key_values")]
    past = {
        value.name: np.zeros([0 if isinstance(size, str) else size for size in value.shape], np.float32)
        for value in caches
    }
    tokens = np.array(prompt)
    seen = 0
    for _ in range(count):
        seen += tokens.shape[1]
        feeds = {"input_ids": tokens, "attention_mask": np.ones((1, seen), np.int64), **past}
        logits, *present = session.run(None, feeds)
        past = dict(zip(past, present, strict=True))
        tokens = logits[:, -1:].argmax(-1)
        yield logits[:, -1]


# --8<-- [end:export]


def row(name: str, config: Any, capture: Capture) -> Row:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    expected = model.generate(
        torch.tensor(PROMPT),
        max_new_tokens=NEW_TOKENS,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        model.save_pretrained(folder)
        start = time.perf_counter()
        path = export(folder, capture)
        seconds = time.perf_counter() - start
        nodes = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
        logits = np.concatenate(list(generate(path, PROMPT, NEW_TOKENS)))
    tokens = expected.sequences[0, len(PROMPT[0]) :].tolist()
    assert logits.argmax(-1).tolist() == tokens, "the text differs from that of model.generate"
    assert len(set(tokens)) > NEW_TOKENS // 2, "the model repeats itself, which proves little"
    theirs = torch.cat(expected.logits).numpy()
    difference = float(np.abs(logits - theirs).max())
    return Row(
        f"{name} generates {NEW_TOKENS} tokens ({capture})",
        "none missing",
        summary(nodes),
        difference,
        difference / float(np.abs(theirs).max()),
        seconds,
    )


def rows() -> list[Row]:
    from transformers.utils import logging

    logging.disable_progress_bar()
    return [row(name, config, capture) for name, config in configurations().items() for capture in ("export", "trace")]


if __name__ == "__main__":
    print(table(rows()))
