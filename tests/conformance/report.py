"""Reports of the records: totals on the terminal, and the table of operators in docs/coverage.md."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from conformance import unmapped
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
Rows = dict[str, list[Record]]

# The result of an operator is the worst of its samples.
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
    """For each exporter, the number of operators by their worst result."""
    totals: dict[str, collections.Counter[str]] = {}
    for (exporter, _), result in results_by_operator(records).items():
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


def results_by_operator(records: Iterable[Record]) -> dict[tuple[str, str], str]:
    """The worst result of each exporter and operator."""
    results: dict[tuple[str, str], str] = {}
    for record in records:
        key = record["exporter"], record["op"]
        results[key] = min(results.get(key, PASS), record["result"], key=_WORST_FIRST.index)
    return results


def passing(records: Iterable[Record]) -> set[tuple[str, str]]:
    """The pairs of operator and element type of which every case passes."""
    records = list(records)
    failed = {(record["op"], record["dtype"]) for record in records if record["result"] != PASS}
    return {(record["op"], record["dtype"]) for record in records} - failed


def rows(records: Iterable[Record], suffix: str = "") -> Rows:
    """The records by the exporter's name in the table."""
    rows: Rows = {}
    for record in records:
        rows.setdefault(_NAMES[record["exporter"]] + suffix, []).append(record)
    return rows


def coverage(what: str, records: Sequence[Record], beside: Rows, dynamic: Rows, names: Sequence[str]) -> str:
    """The page docs/coverage.md: the ``records``, described by ``what``; then ``beside``, on three samples each, and
    ``dynamic``, at two sizes."""
    made = {name: _made_of(name, records) for name in names}
    counts = collections.Counter(made.values())
    lines = [
        "# Operators",
        "",
        "`make conformance` exports the calls of torch.testing's operator database, runs them in ONNX Runtime and",
        "compares values, shapes and element types with eager PyTorch, with the tolerances of",
        "`torch.testing.assert_close`. If rounding moves eager PyTorch itself further than that from its result in",
        "float64 (for Bessel functions, from that of mpmath), ONNX Runtime may be as far from it as eager PyTorch is.",
        "`rounding` counts what exceeds these limits slightly: an element is off by more, but none by more than",
        "eager's worst error, or than four times that if float64 inputs pass.",
        f"This page: {what}.",
        "",
        "An operator has the worst result among its samples: `pass` means that all of them agree.",
        "",
        *_table(operator_totals, rows(records)),
        "",
        "The same by cases:",
        "",
        *_table(case_totals, rows(records)),
        "",
        "What the operators become: " + ", ".join(f"{counts[kind]} {kind}" for kind in (*_KINDS, REFUSED)) + ".",
        "",
        "With other opsets and exporters, on three samples of one element type of each operator:",
        "",
        *_table(operator_totals, beside),
        "",
        "With dynamic sizes, on three calls of each operator that the database calls at two sizes: exported at",
        "one, compared at both:",
        "",
        *_table(operator_totals, dynamic),
        "",
        *unmapped.section(),
        "",
        "## By operator",
        "",
        "For each operator, every sample; for torch's own exporters, three samples:",
        "",
    ]
    results = results_by_operator(records) | results_by_operator(
        r for row in beside.values() for r in row if r["exporter"] in PEERS
    )
    exporters = [exporter for exporter in (*CAPTURES, *PEERS) if any(key[0] == exporter for key in results)]
    lines.append("| operator | becomes | passing cases | " + " | ".join(exporters) + " |")
    lines.append("|---|---|---:|" + "---|" * len(exporters))
    for name in sorted(names):
        cases = [r for r in records if r["op"] == name and r["exporter"] in CAPTURES]
        passing = f"{sum(r['result'] == PASS for r in cases)} of {len(cases)}"
        row = [results.get((exporter, name), "") for exporter in exporters]
        lines.append(f"| {name} | {made[name]} | {passing} | " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _table(count: Callable[[Iterable[Record]], dict[str, collections.Counter[str]]], rows: Rows) -> list[str]:
    lines = ["| | " + " | ".join(RESULTS) + " |", "|---|" + "---:|" * len(RESULTS)]
    for name, records in rows.items():
        totals = sum(count(records).values(), collections.Counter())
        lines.append(f"| {name} | " + " | ".join(str(totals[result]) for result in RESULTS) + " |")
    return lines


_KINDS = (STANDARD, FUNCTION, KERNEL)


def _made_of(name: str, records: Iterable[Record]) -> str:
    """The kind of nodes of the passing case that is furthest from standard ONNX."""
    made = {r["by"] for r in records if r["op"] == name and r["result"] == PASS and r["exporter"] in CAPTURES}
    return max(made, key=_KINDS.index, default=REFUSED)
