"""Compares export times of opbridge with those of both exporters of torch.onnx: medians, ratios, targets.

    python benchmarks/run.py [MODEL ...]

Every model is exported several times by all exporters in turn. "between" is the work between capture and the writing of
weights: the export of a captured ExportedProgram minus the time of writing. dynamo does not report the latter, so a
plain write of the same bytes is subtracted instead. Files are in memory if the system allows it, so that no disk is
measured.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROUNDS = 3
MODELS = ("resnet50", "mobilenet_v2", "vit_b_16", "bert_base", "swin_t")


def build(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    if name == "bert_base":
        from transformers import BertConfig, BertModel

        class Bert(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = BertModel(BertConfig())

            def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
                return self.model(input_ids=ids, attention_mask=mask)[0]

        return Bert().eval(), (torch.randint(0, 1000, (1, 128)), torch.ones(1, 128, dtype=torch.long))
    import torchvision

    return torchvision.models.get_model(name, weights=None).eval(), (torch.rand(1, 3, 224, 224),)


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@dataclasses.dataclass(frozen=True)
class Target:
    figure: str
    ratio: float
    bound: float
    at_least: bool

    def row(self, model: str) -> tuple[str, ...]:
        reached = self.ratio >= self.bound if self.at_least else self.ratio <= self.bound
        sign = "≥" if self.at_least else "≤"
        return (model, self.figure, f"{self.ratio:.2f}", f"{sign} {self.bound:g}", "yes" if reached else "NOT REACHED")


def measure(name: str, folder: Path) -> tuple[list[tuple[str, ...]], list[Target]]:
    import opbridge
    from opbridge import _core
    from opbridge.capture.exported.bridge import bridge
    from opbridge.capture.program import Program
    from opbridge.symbolics.registry import registry_for

    model, args = build(name)
    path = folder / "model.onnx"
    captured = torch.export.export(model, args)
    opbridge.export(model, args, path)  # warm: imports, caches
    payload = path.read_bytes()

    def plain_write() -> None:
        with open(folder / "plain", "wb") as file:
            file.write(payload)

    def convert() -> None:
        program = Program(bridge(captured))
        report = _core.export_graph(
            program.graph, str(path), registry_for(program, 21), opset=21, custom_opsets={}, external_data="automatic",
            source_lines=True, simplify=True, input_names=[], output_names=[],
        )  # fmt: skip
        times["opbridge write"].append(report[-1])

    actions: dict[str, Callable[[], Any]] = {
        "plain write": plain_write,
        "opbridge": lambda: opbridge.export(model, args, path),
        "opbridge trace": lambda: opbridge.export(model, args, path, capture="trace"),
        "opbridge after capture": convert,
        "dynamo": lambda: torch.onnx.export(model, args, path, dynamo=True, verbose=False),
        "dynamo after capture": lambda: torch.onnx.export(captured, (), path, dynamo=True, verbose=False),
        "TorchScript": lambda: torch.onnx.export(model, args, path, dynamo=False),
    }
    pt2 = folder / "model.pt2"
    command = Path(__file__).parents[1] / "build" / "release" / "opbridge"
    torch.export.save(captured, pt2)
    actions["opbridge convert"] = lambda: subprocess.run(
        [command, "convert", pt2, folder / "cli.onnx"], check=True, stdout=subprocess.DEVNULL
    )
    actions["dd"] = lambda: subprocess.run(
        ["dd", f"if={folder / 'plain'}", f"of={folder / 'copy'}", "bs=1M"], check=True, stderr=subprocess.DEVNULL
    )
    times: dict[str, list[float]] = {key: [] for key in [*actions, "opbridge write"]}
    with open(os.devnull, "w") as quiet:
        for _ in range(ROUNDS):
            for key, action in actions.items():
                stdout, sys.stdout = sys.stdout, quiet
                try:
                    times[key].append(seconds(action))
                finally:
                    sys.stdout = stdout
    median = {key: statistics.median(values) for key, values in times.items()}
    between = median["opbridge after capture"] - median["opbridge write"]
    between_dynamo = median["dynamo after capture"] - median["plain write"]
    targets = [
        Target("between capture and weights: dynamo / opbridge", between_dynamo / between, 30, True),
        Target("writing / plain write of the same bytes", median["opbridge write"] / median["plain write"], 1.2, False),
        Target("whole export: dynamo / opbridge", median["dynamo"] / median["opbridge"], 4, True),
        Target("whole export: TorchScript / trace", median["TorchScript"] / median["opbridge trace"], 1.5, True),
        Target("convert of a .pt2 / (2 dd + 30 ms)", median["opbridge convert"] / (2 * median["dd"] + 0.03), 1, False),
        Target("peak memory above the captured model, MB", peak_memory(name), 100, False),
    ]
    return [(name, key, f"{value * 1000:.1f} ms") for key, value in median.items()], targets


def peak_memory(name: str) -> float:
    """Megabytes that bridging, converting and writing add to the peak of a process that has captured the model."""
    result = subprocess.run(
        [sys.executable, __file__, "--memory", name], check=True, capture_output=True, text=True
    )  # fmt: skip
    return float(result.stdout.splitlines()[-1])


def memory_of(name: str) -> None:
    import opbridge
    from opbridge import _core
    from opbridge.capture.exported.bridge import bridge
    from opbridge.capture.program import Program
    from opbridge.symbolics.registry import registry_for

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    model, args = build(name)
    captured = torch.export.export(model, args)
    with tempfile.TemporaryDirectory() as folder:
        opbridge.export(torch.nn.ReLU(), torch.rand(1), Path(folder) / "warm.onnx")
        before = peak()
        program = Program(bridge(captured))
        _core.export_graph(
            program.graph, str(Path(folder) / "m.onnx"), registry_for(program, 21), opset=21, custom_opsets={},
            external_data="automatic", source_lines=True, simplify=True, input_names=[], output_names=[],
        )  # fmt: skip
        print(peak() - before)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]]
    return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    times: list[tuple[str, ...]] = []
    ratios: list[tuple[str, ...]] = []
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for name in names or MODELS:
            print(f"{name} …", file=sys.stderr, flush=True)
            rows, targets = measure(name, Path(folder))
            times += rows
            ratios += [target.row(name) for target in targets]
    print(table(("model", "what", "median"), times))
    print()
    print(table(("model", "figure", "measured", "target", "reached"), ratios))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        memory_of(sys.argv[2])
    else:
        main(sys.argv[1:])
