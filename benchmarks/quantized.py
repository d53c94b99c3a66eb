"""Times one step of decoding of a Llama that torchao quantizes, against the float32 model.

    PYTHONPATH=python:tests python benchmarks/quantized.py [KIND ...]

All models run in turn in ONNX Runtime with its default options and one thread: the quantized one as exported by
opbridge, the float32 one as exported by opbridge and by torch.onnx.export(dynamo=True). "weights" is the size of the
linear layers' weights in the file, as a fraction of their float32 size. "difference" is the largest difference from the
quantized model in PyTorch, relative to the largest logit.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from contest import race
from torchao.quantization import (
    Int8DynamicActivationInt8WeightConfig,
    Int8DynamicActivationIntxWeightConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    PerGroup,
    quantize_,
)
from transformers import LlamaConfig, LlamaForCausalLM

import opbridge

ROUNDS = 40
KINDS: dict[str, Any] = {
    "int4": lambda: IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
    "int4, 8-bit activations": lambda: Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    ),
    "int8": Int8WeightOnlyConfig,
    "int8, 8-bit activations": Int8DynamicActivationInt8WeightConfig,
}
TOKENS = torch.tensor([[17]])


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        config = LlamaConfig(
            num_hidden_layers=4,
            hidden_size=1024,
            intermediate_size=2816,
            num_attention_heads=16,
            vocab_size=1000,
            use_cache=False,
        )
        self.model = LlamaForCausalLM(config).eval()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids).logits


def runner(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: TOKENS.numpy()}
    return lambda: session.run(None, feeds)


def linear_part(path: Path, model: torch.nn.Module) -> float:
    """The size of the weights without the table of the embedding, which is not quantized."""
    table = model.model.model.embed_tokens.weight
    tensors = onnx.load(path).graph.initializer
    stored = sum(len(tensor.raw_data) for tensor in tensors if len(tensor.raw_data) > 2048) - table.nbytes
    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    return stored / sum(layer.in_features * layer.out_features * 4 for layer in layers)


def main(kinds: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    print(f"{'weights of':26}  weights  difference  {'opbridge':>9}  {'float32':>9}  {'torch.onnx':>10}  ratio to both")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        full = Decoder()
        opbridge.export(full, (TOKENS,), folder / "float.onnx")
        with open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
            torch.onnx.export(full, (TOKENS,), folder / "torch.onnx", dynamo=True, verbose=False)
        for kind in kinds or list(KINDS):
            model = Decoder()
            quantize_(model, KINDS[kind]())
            opbridge.export(model, (TOKENS,), folder / "quantized.onnx")
            run = runner(folder / "quantized.onnx")
            with torch.no_grad():
                expected = model(TOKENS)
            difference = (torch.from_numpy(run()[0]) - expected).abs().max() / expected.abs().max()
            times = race(
                {"quantized": run, "float32": runner(folder / "float.onnx"), "torch": runner(folder / "torch.onnx")},
                ROUNDS,
            )
            ours, theirs = (times["quantized"] / times[other] for other in ("float32", "torch"))
            print(
                f"{kind:26}  {linear_part(folder / 'quantized.onnx', model):7.3f}  {difference:10.1e}  "
                + "  ".join(f"{times[which]:6.2f} ms" for which in times)
                + f"   {ours:.2f}  {theirs:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
