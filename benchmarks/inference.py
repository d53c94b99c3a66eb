"""Times models exported by opbridge and models exported and optimized by torch.onnx.export(dynamo=True).

    PYTHONPATH=python:tests python benchmarks/inference.py [PATTERN ...]

Both run in turn in ONNX Runtime with its default optimizations and one thread. PATTERN selects models
of `python -m zoo`. If dynamo fails or differs from PyTorch, the model is listed without a ratio.
"""

from __future__ import annotations

import fnmatch
import importlib
import logging
import math
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from contest import race
from torch.utils import _pytree as pytree

import opbridge
from zoo.check import largest_relative
from zoo.entry import Entry

SECONDS = 3  # per pair of models
ROUNDS = 15  # at least, even if they take longer
MOST_ROUNDS = 200
CLOSE = 1e-3  # largest accepted difference, relative to the largest magnitude of the output
MODELS = [
    *("torchvision/resnet18", "torchvision/resnet50", "torchvision/mobilenet_v2", "torchvision/mobilenet_v3_small"),
    *("torchvision/efficientnet_b0", "torchvision/convnext_tiny", "torchvision/densenet121"),
    *("torchvision/regnet_y_400mf", "torchvision/googlenet", "torchvision/vit_b_32", "torchvision/swin_t"),
    *("torchvision/swin_v2_t", "torchvision/maxvit_t", "torchvision/deeplabv3_mobilenet_v3_large"),
    *("transformers/Bert", "transformers/DistilBert", "transformers/ModernBert", "transformers/Deberta"),
    *("transformers/GPT2", "transformers/Llama", "transformers/Mistral", "transformers/Qwen2", "transformers/Gemma2"),
    *("transformers/T5", "transformers/Bart", "transformers/ViT", "transformers/Swin", "transformers/Wav2Vec2"),
]  # fmt: skip


class Contender:
    """An exported model, ready to run on the example inputs."""

    def __init__(self, path: Path, tensors: list[torch.Tensor]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.nodes = len(onnx.load(path, load_external_data=False).graph.node)
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [value.name for value in self._session.get_inputs()]
        self._feeds = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}

    def run(self) -> list[Any]:
        return self._session.run(None, self._feeds)


def compare(entry: Entry, folder: Path) -> tuple[list[str], float]:
    """The row of the table, and the ratio of opbridge's time to dynamo's; NaN if dynamo's model cannot be compared."""
    torch.manual_seed(0)
    model, kwargs = entry.build().eval(), entry.inputs(0)
    tensors = [leaf for leaf in pytree.tree_leaves(kwargs) if isinstance(leaf, torch.Tensor)]
    with torch.no_grad():
        expected = [leaf for leaf in pytree.tree_leaves(model(**kwargs)) if isinstance(leaf, torch.Tensor)]
    opbridge.export(model, (), folder / "opbridge.onnx", kwargs=kwargs)
    ours = Contender(folder / "opbridge.onnx", tensors)
    try:
        torch.onnx.export(model, (), folder / "dynamo.onnx", kwargs=kwargs, dynamo=True, verbose=False)
        theirs = Contender(folder / "dynamo.onnx", tensors)
        actual = [torch.from_numpy(array) for array in theirs.run()]
    except Exception as error:
        return [entry.name, str(ours.nodes), "", "", "", f"dynamo fails: {type(error).__name__}"], math.nan
    if largest_relative(actual, expected) > CLOSE:
        return [entry.name, str(ours.nodes), str(theirs.nodes), "", "", "dynamo's differs from PyTorch"], math.nan
    start = time.perf_counter()
    theirs.run()
    rounds = max(ROUNDS, int(SECONDS / (4 * (time.perf_counter() - start))))
    times = race({"opbridge": ours.run, "dynamo": theirs.run}, min(rounds, MOST_ROUNDS))
    ratio = times["opbridge"] / times["dynamo"]
    more = "" if ours.nodes <= theirs.nodes else "more nodes"
    nodes = [str(ours.nodes), str(theirs.nodes)]
    return [entry.name, *nodes, *(f"{times[name]:.2f} ms" for name in times), f"{ratio:.2f}  {more}".strip()], ratio


def main(patterns: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    libraries = ("torchvision", "timm", "transformers")
    entries = {e.name: e for library in libraries for e in importlib.import_module(f"zoo.{library}_models").entries()}
    chosen = [name for name in entries if any(fnmatch.fnmatchcase(name, p) for p in patterns)] if patterns else MODELS
    if not chosen:
        sys.exit(f"no model of `python -m zoo` matches {' '.join(patterns)}; names are like torchvision/resnet18")
    ratios = []
    print(f"{'model':44}  nodes  dynamo's  opbridge    dynamo      ratio")
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as quiet:
        for name in chosen:
            stdout, sys.stdout = sys.stdout, quiet  # dynamo prints to stdout
            try:
                row, ratio = compare(entries[name], Path(folder))
            finally:
                sys.stdout = stdout
            print(f"{row[0]:44}  {row[1]:>5}  {row[2]:>8}  {row[3]:>10}  {row[4]:>10}  {row[5]}", flush=True)
            ratios.append(ratio)
    ratios = [ratio for ratio in ratios if not math.isnan(ratio)]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\n{len(ratios)} models: geometric mean {mean:.3f} (≤ 1.0), largest {max(ratios):.2f} (≤ 1.1)")


if __name__ == "__main__":
    main(sys.argv[1:])
