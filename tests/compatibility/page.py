"""The page docs/compatibility.md."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance.case import BY_TORCH_SYMBOLICS, PASS, RESULTS, WITH_TORCH_SYMBOLICS
from conformance.report import results_by_operator

Record = dict[str, Any]


def page(projects: Mapping[str, Sequence[tuple[str, str]]], records: Sequence[Record], what: str) -> str:
    """``projects``: for each the functions, with the result of the comparison."""
    results = results_by_operator(records)
    reached = sorted({each["op"] for each in records if each["by"] == BY_TORCH_SYMBOLICS})
    pairs = {op: (results["torchscript", op], results[WITH_TORCH_SYMBOLICS, op]) for op in reached}
    right = [op for op, (by_torch, _) in pairs.items() if by_torch == PASS]
    lost = [op for op in right if pairs[op][1] != PASS]
    lines = [
        "# Symbolic functions that are written for torch.onnx",
        "",
        "`python -m compatibility` registers such functions as a user does, and exports models that call them with",
        "`torch.onnx.export(dynamo=False)` and with opbridge. This page is written by it.",
        "",
        "## torch's own functions",
        "",
        "The operators of torch.testing's database, with the functions by which torch.onnx itself maps operators:",
        f"{what}. An operator has the worst result among its samples.",
        "",
        f"These functions are called for {len(reached)} operators:",
        "",
        "| | " + " | ".join(RESULTS) + " |",
        "|---|" + "---:|" * len(RESULTS),
        *_totals("torch.onnx.export(dynamo=False)", (by_torch for by_torch, _ in pairs.values())),
        *_totals("opbridge, with torch's functions", (ours for _, ours in pairs.values())),
        "",
        f"Of the {len(right)} operators that torch.onnx exports rightly, {len(right) - len(lost)} are right here."
        + (f" The others: {', '.join(lost)}." if lost else ""),
        "",
        "## Functions of other projects",
        "",
        "`same nodes`: both models have the same nodes, with the same attributes and constants.",
        "",
    ]
    for name, functions in projects.items():
        lines += [f"| {name} | |", "|---|---|", *(f"| {function} | {result} |" for function, result in functions), ""]
    return "\n".join(lines[:-1]) + "\n"


def _totals(name: str, results: Iterable[str]) -> list[str]:
    totals = collections.Counter(results)
    return [f"| {name} | " + " | ".join(str(totals[result]) for result in RESULTS) + " |"]
