"""What the records say: totals on the terminal, and the table of operators in docs/coverage.md."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence
from typing import Any

from conformance.case import (
    CAPTURES,
    CRASH,
    ERROR,
    FUNCTION,
    KERNEL,
    PASS,
    PEERS,
    REFUSED,
    RESULTS,
    ROUNDING,
    RUNTIME_FAILURE,
    STANDARD,
    WRONG,
)

Record = dict[str, Any]

# Of an operator's samples the worst result is the operator's.
_WORST_FIRST = (WRONG, CRASH, RUNTIME_FAILURE, ERROR, REFUSED, ROUNDING, PASS)
_NAMES = {"export": 'opbridge, capture="export"', "trace": 'opbridge, capture="trace"'} | {
    "dynamo": "torch.onnx.export(dynamo=True)",
    "torchscript": "torch.onnx.export(dynamo=False)",
}


def print_summary(records: Sequence[Record], names: Sequence[str]) -> None:
    for title, count in (("operators", operator_totals), ("cases", case_totals)):
        print(f"\n{title:14}" + "".join(f"{result:>16}" for result in RESULTS))
        for exporter, totals in count(records).items():
            print(f"{exporter:14}" + "".join(f"{totals[result]:16}" for result in RESULTS))
    unmeasured = set(names) - {record["op"] for record in records}
    if unmeasured:
        print(f"\nno case of: {', '.join(sorted(unmeasured))}")
    by_dtype = collections.defaultdict(collections.Counter)
    for record in records:
        if record["exporter"] in CAPTURES:
            by_dtype[record["dtype"]][record["result"]] += 1
    print(f"\n{'both captures':14}" + "".join(f"{result:>16}" for result in RESULTS))
    for dtype, totals in by_dtype.items():
        print(f"{dtype:14}" + "".join(f"{totals[result]:16}" for result in RESULTS))
    print()
    for line in failures(records):
        print(line)


def operator_totals(records: Iterable[Record]) -> dict[str, collections.Counter[str]]:
    """By exporter: of how many operators the worst result is what."""
    totals: dict[str, collections.Counter[str]] = {}
    for (exporter, _), result in _results(records).items():
        totals.setdefault(exporter, collections.Counter())[result] += 1
    return totals


def case_totals(records: Iterable[Record]) -> dict[str, collections.Counter[str]]:
    totals: dict[str, collections.Counter[str]] = {}
    for record in records:
        totals.setdefault(record["exporter"], collections.Counter())[record["result"]] += 1
    return totals


def failures(records: Iterable[Record]) -> list[str]:
    """A line for each operator, capture and reason, the worst first."""
    reasons: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record["result"] != PASS and record["exporter"] in CAPTURES:
            reasons.setdefault((record["op"], record["result"], record["detail"]), []).append(record)
    ordered = sorted(reasons.items(), key=lambda item: (_WORST_FIRST.index(item[0][1]), item[0][0]))
    lines = []
    for (op, result, detail), cases in ordered:
        where = sorted({f"{case['exporter']}:{case['dtype']}" for case in cases})
        samples = sorted({case["sample"] for case in cases})
        lines.append(f"{op}\t{result}\t{len(cases)} ({','.join(where)}; samples {_some(samples)})\t{detail}")
    return lines


def _some(samples: list[int]) -> str:
    return ",".join(map(str, samples[:8])) + (",…" if len(samples) > 8 else "")


def _results(records: Iterable[Record]) -> dict[tuple[str, str], str]:
    results: dict[tuple[str, str], str] = {}
    for record in records:
        key = record["exporter"], record["op"]
        results[key] = min(results.get(key, PASS), record["result"], key=_WORST_FIRST.index)
    return results


def passing(records: Iterable[Record]) -> set[tuple[str, str]]:
    """Operators, each with an element type, of which every case passes."""
    records = list(records)
    failed = {(record["op"], record["dtype"]) for record in records if record["result"] != PASS}
    return {(record["op"], record["dtype"]) for record in records} - failed


def coverage(records: Sequence[Record], names: Sequence[str], what: str) -> str:
    """The page docs/coverage.md."""
    results = _results(records)
    exporters = [exporter for exporter in (*CAPTURES, *PEERS) if any(r["exporter"] == exporter for r in records)]
    heading = ["| | " + " | ".join(RESULTS) + " |", "|---|" + "---:|" * len(RESULTS)]
    lines = [
        "# Operators",
        "",
        "`make conformance` exports the calls of torch.testing's operator database, runs them in ONNX Runtime and",
        "compares values, shapes and element types with eager PyTorch, by the tolerances of",
        "`torch.testing.assert_close`. Where rounding takes eager PyTorch itself farther than that from its result in",
        "float64, ONNX Runtime's may lie as far from it as eager's. Apart from that, `rounding` is counted: an element",
        "is off by more, but none by more than eager's worst, or than four times that where float64 inputs pass.",
        f"This page: {what}.",
        "",
        "An operator has the worst result among its samples: `pass` means that all of them agree.",
        "",
        *heading,
    ]
    for exporter, totals in operator_totals(records).items():
        lines.append(f"| {_NAMES[exporter]} | " + " | ".join(str(totals[result]) for result in RESULTS) + " |")
    lines += ["", "The same by cases:", "", *heading]
    for exporter, totals in case_totals(records).items():
        lines.append(f"| {_NAMES[exporter]} | " + " | ".join(str(totals[result]) for result in RESULTS) + " |")
    made = {name: _made_of(name, records) for name in names}
    counts = collections.Counter(made.values())
    lines += [
        "",
        "What the operators become: " + ", ".join(f"{counts[kind]} {kind}" for kind in (*_KINDS, REFUSED)) + ".",
    ]
    lines += ["", "| operator | becomes | passing cases | " + " | ".join(exporters) + " |"]
    lines.append("|---|---|---:|" + "---|" * len(exporters))
    for name in sorted(names):
        cases = [r for r in records if r["op"] == name and r["exporter"] in CAPTURES]
        passing = f"{sum(r['result'] == PASS for r in cases)} of {len(cases)}"
        row = [results.get((exporter, name), "") for exporter in exporters]
        lines.append(f"| {name} | {made[name]} | {passing} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


_KINDS = (STANDARD, FUNCTION, KERNEL)


def _made_of(name: str, records: Iterable[Record]) -> str:
    """The furthest from standard ONNX that a passing case came to."""
    made = {r["by"] for r in records if r["op"] == name and r["result"] == PASS and r["exporter"] in CAPTURES}
    return max(made, key=_KINDS.index, default=REFUSED)
