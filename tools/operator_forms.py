"""Writes what each PyTorch operator becomes at each opset, for the site, into a file that is the argument.

Calls of torch.testing's operator database are captured once and lowered to every opset.
The file is JSON: by the key of the mapping, the first opset at which it holds, and ``[opset, nodes]`` wherever its
nodes change. It is written anew only if the core has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import multiprocessing
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch

from conformance.operators import QUICK_DTYPES, database, dtypes_of, samples
from opbridge import _core
from opbridge.capture import capture
from opbridge.symbolics.registry import registry, registry_for

OPSETS = range(9, onnx.defs.onnx_opset_version() + 1)
CALLS = 2  # the first and the last one of those that are drawn
DRAWN = 24

Forms = dict[str, dict[int, list[str]]]  # key: opset: nodes, in the order of appearance


class _Call(torch.nn.Module):
    def __init__(self, sample: Any) -> None:
        super().__init__()
        self.call = sample.call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


def forms_of(name: str) -> Forms:
    """Those of the operators that the calls of one entry of the database consist of."""
    forms: Forms = {}
    dtype = next((dtype for dtype in QUICK_DTYPES if dtype in dtypes_of(name)), None)
    with contextlib.suppress(Exception):  # the database has calls that PyTorch itself refuses
        drawn = list(itertools.islice(samples(name, dtype), DRAWN)) if dtype else []
        for sample in drawn[:: max(1, len(drawn) - 1)][:CALLS]:
            model, args = _Call(sample).eval(), tuple(sample.tensors)
            with contextlib.suppress(Exception):
                _add(forms, torch.export.export(model, args, strict=False))
    return forms


def _add(forms: Forms, exported: torch.export.ExportedProgram) -> None:
    mappings: Any = None
    for opset in OPSETS:
        program = capture(exported)
        mappings = mappings or registry_for(program, opset)
        _, report, _ = _core.diagnose_graph(
            program.graph,
            mappings,
            name="",
            target="onnxruntime",
            opset=opset,
            schema_of=lambda op: None,
            json=True,
            mappings="",
            projects="",
        )
        for each in json.loads(report)["operators"]:
            if not each["refused"]:
                nodes = forms.setdefault(each["operator"], {}).setdefault(opset, [])
                nodes += [node for node in each["becomes"] if node not in nodes]


def _be_silent() -> None:
    """torch prints the programs that it cannot capture."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def merged(parts: list[Forms]) -> Forms:
    forms: Forms = {}
    for part in parts:
        for key, by_opset in part.items():
            for opset, nodes in by_opset.items():
                known = forms.setdefault(key, {}).setdefault(opset, [])
                known += [node for node in nodes if node not in known]
    return forms


def table(forms: Forms) -> dict[str, dict[str, Any]]:
    """Of all mappings, also those that no call of the database has."""
    first: dict[str, int] = {}
    for key, opset, *_ in registry().entries():
        first[key] = min(opset, first.get(key, opset))
    result = {}
    for key, opset in sorted(first.items()):
        changes: list[tuple[int, list[str]]] = []
        by_opset: dict[int, list[str]] = {}
        for each, nodes in forms.items():  # the mapping of a name serves its overloads
            if each == key or (each.partition(".")[0] == key and each not in first):
                by_opset = merged([{key: by_opset}, {key: nodes}])[key]
        for at, nodes in sorted(by_opset.items()):
            if nodes and (not changes or changes[-1][1] != nodes):
                changes.append((at, nodes))
        result[key] = {"since": opset, "becomes": changes}
    return result


def main() -> None:
    file = Path(sys.argv[1])
    core = hashlib.sha256(Path(_core.__file__).read_bytes() + Path(__file__).read_bytes()).hexdigest()
    if file.exists() and json.loads(file.read_text())["core"] == core:
        return
    print("opbridge: lowering the calls of torch's operator database to every opset, which takes a minute or two")
    warnings.simplefilter("ignore")
    logging.disable()
    torch.set_num_threads(1)
    names = list(database())
    with multiprocessing.get_context("fork").Pool(min(8, os.cpu_count() or 1), _be_silent) as pool:
        forms = merged(pool.map(forms_of, names, chunksize=4))
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"core": core, "opsets": list(OPSETS), "mappings": table(forms), "bodies": _core.standard_bodies()}
    file.write_text(json.dumps(content))


if __name__ == "__main__":
    main()
