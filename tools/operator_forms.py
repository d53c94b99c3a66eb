"""Writes what each PyTorch operator becomes at each opset, for the site, into a file that is the argument.

Calls of torch.testing's operator database, written examples (operator_examples.py), and calls drawn at random of
operators that these do not call, are captured once and lowered to every opset. The file is JSON: by the key of the
mapping, the first opset at which it holds, and ``[opset, nodes]`` wherever its nodes change. It is written anew only if
the core has changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import onnx
import operator_examples
import torch
from torch.utils import _pytree as pytree

from checking.pool import run_tasks
from checking.worker import Answer, serve
from conformance.operators import QUICK_DTYPES, database, dtypes_of, samples
from hunt.calls import Call, draw_call, overloads
from hunt.tensors import TensorSpec
from opbridge import _core
from opbridge.capture import capture
from opbridge.capture.program import Program
from opbridge.symbolics.registry import registry, registry_for

OPSETS = range(9, onnx.defs.onnx_opset_version() + 1)
CALLS = 2  # the first and the last one of those that are drawn
DRAWN = 24
SEEDS = 5  # of random calls
# Mappings of arithmetic on sizes, which becomes expressions: the nodes of these depend on what reads the size.
OF_SIZES = ("_operator::", "builtins::", "math::", "torch::")
CHUNK = 8
TIMEOUT = 60

_SOURCES = [Path(file) for file in (_core.__file__, __file__, operator_examples.__file__)]

Forms = dict[str, dict[int, list[str]]]  # key: opset: nodes, in the order of appearance


class _Call(torch.nn.Module):
    def __init__(self, sample: Any) -> None:
        super().__init__()
        self.call = sample.call

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.call(*tensors)


def forms_of(name: str) -> Forms:
    """The forms of the operators that the calls of one entry of the database consist of."""
    forms: Forms = {}
    dtype = next((dtype for dtype in QUICK_DTYPES if dtype in dtypes_of(name)), None)
    with contextlib.suppress(Exception):  # the database has calls that PyTorch itself refuses
        drawn = list(itertools.islice(samples(name, dtype), DRAWN)) if dtype else []
        for sample in drawn[:: max(1, len(drawn) - 1)][:CALLS]:
            model, args = _Call(sample).eval(), tuple(sample.tensors)
            with contextlib.suppress(Exception):
                exported = torch.export.export(model, args, strict=False)
                _add(forms, lambda exported=exported: capture(exported))
    return forms


def example_forms() -> Forms:
    """The forms of the operators that the database does not call, in written examples."""
    forms: Forms = {}
    for name, (model, args) in operator_examples.examples().items():
        found: Forms = {}
        _add(found, lambda model=model, args=args: capture(model, args))
        forms[name] = found[name]
    return forms


class _Drawn(torch.nn.Module):
    """A call with its tensors as inputs."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.op = call.op
        self.leaves, self.spec = pytree.tree_flatten(call.arguments)

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, TensorSpec) else leaf for leaf in self.leaves]
        return self.op(**pytree.tree_unflatten(leaves, self.spec))


def drawn_forms_of(name: str) -> Forms:
    """The forms of an operator in the first random call that becomes nodes, or else that can be lowered, preferably of
    float32. If the capture replaces the operator, they are those of its replacement."""
    overload = next(overload for overload in overloads() if overload.name == name)
    calls = []
    for seed in range(SEEDS):
        with contextlib.suppress(Exception):  # some operators have no samples to draw from
            calls += [call for call in [draw_call(seed, overload)] if call is not None]
    without_nodes: Forms = {}
    for call in sorted(calls, key=lambda call: sum(spec.dtype != torch.float32 for spec in call.specs)):
        forms: Forms = {}
        with contextlib.suppress(Exception):  # a call that torch.export does not capture
            args = tuple(spec.make() for spec in call.specs)
            exported = torch.export.export(_Drawn(call).eval(), args, strict=False)
            _add(forms, lambda exported=exported: capture(exported))
        if not forms:
            continue
        found = forms[name] if name in forms else merged([{name: each} for each in forms.values()])[name]
        if any(found.values()):
            return {name: found}
        without_nodes = {name: found}
    return without_nodes


def _add(forms: Forms, captured: Callable[[], Program]) -> None:
    mappings: Any = None
    for opset in OPSETS:
        program = captured()
        mappings = mappings or registry_for(program, opset)
        _, report, _ = _core.diagnose_graph(
            program.graph,
            mappings,
            name="",
            target="onnxruntime",
            opset=opset,
            json=True,
            mappings="",
            projects="",
        )
        for each in json.loads(report)["operators"]:
            if each["mapping"] is not None and not each["refused"]:
                nodes = forms.setdefault(each["operator"], {}).setdefault(opset, [])
                nodes += [node for node in each["becomes"] if node not in nodes]


def _run(task: dict[str, Any], answer: Answer) -> None:
    """In a worker: random calls may crash the kernels of PyTorch."""
    for index, name in enumerate(task["names"]):
        if index >= task["from"]:
            answer({"start": index})
            answer({"forms": (drawn_forms_of if task["drawn"] else forms_of)(name)})


def _measured(names: Iterable[str], *, drawn: bool) -> Forms:
    """The forms of all names, by workers; in an order that does not depend on these."""
    ordered = sorted(names)
    tasks = [{"names": ordered[i : i + CHUNK], "drawn": drawn, "from": 0} for i in range(0, len(ordered), CHUNK)]
    parts: list[tuple[str, int, Forms]] = []

    def keep(task: dict[str, Any], answer: dict[str, Any]) -> None:
        if "forms" in answer:
            found = {key: {int(at): nodes for at, nodes in each.items()} for key, each in answer["forms"].items()}
            parts.append((task["names"][0], task["from"], found))

    run_tasks("operator_forms", tasks, min(8, os.cpu_count() or 1), TIMEOUT, keep)
    return merged([found for _, _, found in sorted(parts, key=lambda part: part[:2])])


def merged(parts: list[Forms]) -> Forms:
    forms: Forms = {}
    for part in parts:
        for key, by_opset in part.items():
            for opset, nodes in by_opset.items():
                known = forms.setdefault(key, {}).setdefault(opset, [])
                known += [node for node in nodes if node not in known]
    return forms


def table(forms: Forms) -> dict[str, dict[str, Any]]:
    """The table of all mappings but those of sizes, also of those that no call has."""
    first: dict[str, int] = {}
    for key, opset, *_ in registry().entries():
        if key.startswith(OF_SIZES):
            continue
        first[key] = min(opset, first.get(key, opset))
    result = {}
    for key, opset in sorted(first.items()):
        changes: list[tuple[int, list[str]]] = []
        by_opset: dict[int, list[str]] = {}
        for each, nodes in forms.items():  # the mapping of a name serves its overloads
            if each == key or (each.partition(".")[0] == key and each not in first):
                by_opset = merged([{key: by_opset}, {key: nodes}])[key]
        for at, nodes in sorted(by_opset.items()):
            if not changes or changes[-1][1] != nodes:
                changes.append((at, nodes))
        result[key] = {"since": opset, "becomes": changes}
    return result


def main() -> None:
    file = Path(sys.argv[1])
    core = hashlib.sha256(b"".join(file.read_bytes() for file in _SOURCES)).hexdigest()
    if file.exists() and json.loads(file.read_text())["core"] == core:
        return
    print("opbridge: lowering the calls of torch's operator database to every opset, which takes some minutes")
    forms = merged([_measured(database(), drawn=False), example_forms()])
    drawn = {overload.name for overload in overloads()}
    missing = [
        key for key, each in table(forms).items() if not any(nodes for _, nodes in each["becomes"]) and key in drawn
    ]
    forms = merged([forms, _measured(missing, drawn=True)])
    file.parent.mkdir(parents=True, exist_ok=True)
    content = {"core": core, "opsets": list(OPSETS), "mappings": table(forms), "bodies": _core.standard_bodies()}
    file.write_text(json.dumps(content))


with contextlib.suppress(ImportError):
    importlib.import_module("torchvision")  # which registers its operators
if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        logging.disable()
        serve(_run)
