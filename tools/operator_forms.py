"""Writes what each PyTorch operator becomes at each opset, for the site. The argument is the file to write.

The script captures three kinds of calls once and lowers them to every opset: those of torch.testing's operator
database, written examples (operator_examples.py), and random calls of operators that these do not call. The file is
JSON: a dict from the key of a mapping to the first opset at which it holds, ``[opset, nodes]`` wherever its nodes
change, and the reason if there are none. A mapping that no call reaches must have a reason in operator_examples.py. The
file is written anew only if the core has changed.
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
from opbridge.errors import UnsupportedError
from opbridge.symbolics.arguments import schema_of_name
from opbridge.symbolics.registry import registry, registry_for

OPSETS = range(9, onnx.defs.onnx_opset_version() + 1)
CALLS = 2  # the first and the last of the random calls
DRAWN = 24
SEEDS = 5  # of random calls
OF_ANOTHER_TORCH = "not an operator of the PyTorch with which this table was made"
# Mappings of arithmetic on sizes. It becomes expressions, whose nodes depend on the operator that reads the size.
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
    """The forms of the operators in the calls of one entry of the database."""
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
    return {name: _forms_in_example(name, *call) for name, call in operator_examples.examples().items()}


def _forms_in_example(name: str, model: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> dict[int, list[str]]:
    """The forms in the program of torch.export, or else in a trace, since torch.export decomposes some operators and
    refuses others."""
    for how in (None, "trace"):
        forms: Forms = {}
        with contextlib.suppress(UnsupportedError):
            _add(forms, lambda how=how: capture(model, args, how=how), random=True)
        if name in forms:
            return forms[name]
    raise LookupError(f"the example of {name} has no call of it that becomes nodes")


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
    """The forms of an operator in the first random call that becomes nodes, or else in the first that can be lowered;
    calls of float32 come first. If the capture replaces the operator, the forms are those of the replacement."""
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


def _add(forms: Forms, captured: Callable[[], Program], *, random: bool = False) -> None:
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
            random=random,
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
    """The forms of all names, measured by workers, in an order that does not depend on the workers."""
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
    """The table of all mappings except those of sizes. It includes mappings that no call reaches."""
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
        # Where other calls are refused, a call that needs no node, such as a sum of one number, says nothing about the
        # operator.
        with_nodes = {at: nodes for at, nodes in by_opset.items() if nodes}
        for at, nodes in sorted((with_nodes or by_opset).items()):
            if not changes or changes[-1][1] != nodes:
                changes.append((at, nodes))
        result[key] = {"since": opset, "becomes": changes, "reason": _reason(key, [nodes for _, nodes in changes])}
    return result


def _reason(key: str, forms: list[list[str]]) -> str:
    """Why no form has nodes, or why there is no form; empty if there are nodes."""
    if not forms:
        return operator_examples.UNREACHED.get(key, "" if _is_of_this_torch(key) else OF_ANOTHER_TORCH)
    if any(forms):
        return ""
    schema: Any = schema_of_name(key)
    # An argument named like is read for its sizes alone.
    takes_values = schema is None or any(
        "Tensor" in str(each.type) and each.name != "like" for each in schema.arguments
    )
    return "the value itself" if takes_values else "a constant"


def _is_of_this_torch(key: str) -> bool:
    """Whether the operator is registered, or an overload of it if the mapping serves them all."""
    return schema_of_name(key) is not None or ("." not in key and bool(torch._C._jit_get_schemas_for_operator(key)))


def check_reasons(rows: dict[str, dict[str, Any]]) -> None:
    """Raises LookupError if a row is empty without a reason, or has a reason although it is not empty."""
    if empty := [key for key, each in rows.items() if not each["becomes"] and not each["reason"]]:
        raise LookupError(
            f"no call reaches {', '.join(empty)}: write examples, or the reason into UNREACHED, in "
            f"{operator_examples.__file__}"
        )
    if reached := [key for key in operator_examples.UNREACHED if rows[key]["becomes"]]:
        raise LookupError(f"a call reaches {', '.join(reached)}: remove what it reaches from UNREACHED")


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
    rows = table(forms)
    check_reasons(rows)
    content = {"core": core, "opsets": list(OPSETS), "mappings": rows, "bodies": _core.standard_bodies()}
    file.write_text(json.dumps(content))


with contextlib.suppress(ImportError):
    importlib.import_module("torchvision")  # registers its operators
if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        logging.disable()
        serve(_run)
