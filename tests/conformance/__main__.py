"""Measures the operators: see ``python -m conformance --help``."""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import hashlib
import json
import os
import pathlib
import sys
import time
import warnings
import zlib
from typing import Any

import onnxruntime
import torch

from checking.pool import run_tasks
from checking.runtime import newest_opset
from conformance import report
from conformance.case import CAPTURES, CRASH, EXPORTERS, NOT_IN_EAGER, WITH_TORCH_SYMBOLICS, WRONG
from conformance.operators import DTYPES, QUICK_DTYPES, database, deterministic_operators, dtypes_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "conformance"
FINISHED = "finished"  # the last record of a task
# The operators and element types that the tests run: three samples of each passed with the named version of torch.
PASSING = pathlib.Path(__file__).with_name("passing.txt")


def main() -> int:
    options = parse_options()
    warnings.simplefilter("ignore")
    wanted = _passing() if options.expect else chosen(options)
    records = measure(wanted, options)
    report.print_summary(records, list(wanted))
    if options.coverage:
        page = report.coverage(_what(options), records, _beside(options), _dynamic(options), list(wanted))
        options.coverage.write_text(page)
    if options.write_passing:
        lines = (f"{op}\t{dtype}\n" for op, dtype in sorted(report.passing(records)))
        PASSING.write_text(f"torch {_torch_version()}\n" + "".join(lines))
    if options.expect:
        missed = {(op, dtype) for op, dtypes in wanted.items() for dtype in dtypes} - report.passing(records)
        for op, dtype in sorted(missed):
            print(f"{op} of {dtype} does not pass any more")
        return 1 if missed else 0
    return 1 if any(record["result"] == WRONG and record["exporter"] in CAPTURES for record in records) else 0


def _beside(options: argparse.Namespace) -> report.Rows:
    """Three samples of one element type of each operator: at other opsets, and by torch's own exporters."""
    quick = _quick(options)
    wanted = chosen(quick)
    by_opset: report.Rows = {}
    quick.exporters = "export"
    for quick.opset in (13, 17, newest_opset()):
        by_opset |= report.rows(measure(wanted, quick), f", opset {quick.opset}")
    quick.opset, quick.exporters = options.opset, ",".join(EXPORTERS)
    return report.rows(measure(wanted, quick)) | by_opset


def _dynamic(options: argparse.Namespace) -> report.Rows:
    quick = _quick(options)
    quick.dynamic, quick.exporters = True, "export,trace,dynamo"
    return report.rows(measure(chosen(quick), quick))


def _quick(options: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**vars(options) | {"quick": True, "three": True})


def _torch_version() -> str:
    """Major and minor version, such as 2.15: operators and their samples change between these."""
    return ".".join(torch.__version__.split(".")[:2])


def _passing() -> dict[str, list[str]]:
    """The operators of the list, each with its element types."""
    head, *lines = PASSING.read_text().splitlines()
    if head != f"torch {_torch_version()}":
        sys.exit(f"{PASSING.name} is of {head}, and torch {_torch_version()} is installed")
    wanted: dict[str, list[str]] = {}
    for op, dtype in (line.split("\t") for line in lines):
        wanted.setdefault(op, []).append(dtype)
    return wanted


def chosen(options: argparse.Namespace) -> dict[str, list[str]]:
    names = deterministic_operators(BUILD / f"operators-{torch.__version__}.txt")
    if options.ops:
        names = _matching(names, options.ops.split(","))
    return {name: _dtypes(name, options) for name in names}


def _matching(names: list[str], patterns: list[str]) -> list[str]:
    """The names that match a pattern. Patterns match names of the database (``nn.functional.hardtanh``,
    ``div.floor_rounding``) or of ATen (``hardtanh``, ``aten::hardtanh``)."""
    chosen: set[str] = set()
    for pattern in patterns:
        of_aten = pattern.removeprefix("aten::")
        found = [
            name
            for name in names
            if any(fnmatch.fnmatchcase(known, of_aten) for known in (name, *_names_in_aten(name)))
        ]
        if not found:
            close = difflib.get_close_matches(of_aten, names, cutoff=0.5)
            sys.exit(
                f"--ops: no operator of torch's database matches '{pattern}'"
                + (f"; did you mean {' or '.join(close)}?" if close else "")
            )
        chosen |= set(found)
    return [name for name in names if name in chosen]


def _names_in_aten(name: str) -> tuple[str, str]:
    """The names of an entry's operator. Some entries of the database are named after a Python function instead."""
    of_aten = database()[name].aten_name
    return of_aten, of_aten.removeprefix("nn.functional.")


def _what(options: argparse.Namespace) -> str:
    samples = "three samples" if options.three else "every sample"
    if options.quick:
        samples = "three samples of one element type of each operator"
    elif options.dtypes != ",".join(DTYPES):
        samples += f" of {options.dtypes.replace(',', ', ')}"
    if options.fraction != 1:
        samples += f", of one in {options.fraction} of the operators' element types"
    opset = f"opset {options.opset}" if options.opset else "opbridge's default opset"
    return f"{samples}, {opset}, torch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}"


def parse_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """``arguments``: those of the command line if not given."""
    parser = argparse.ArgumentParser(prog="conformance", description="Runs torch.testing's operators through opbridge.")
    parser.add_argument(
        "--ops",
        help="run only these operators, again: names or patterns of torch's database or ATen, separated by commas",
    )
    parser.add_argument("--three", action="store_true", help="three samples: the first, the middle one and the last")
    parser.add_argument("--quick", action="store_true", help="three samples of one dtype of each operator")
    parser.add_argument(
        "--dynamic",
        action="store_true",
        help="only calls that the database has at two sizes: exported at one with dynamic sizes, compared at both",
    )
    parser.add_argument("--fraction", type=int, default=1, metavar="N", help="a fixed Nth of operators and dtypes")
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="separated by commas")
    parser.add_argument(
        "--exporters", default="export,trace", help=f"some of {', '.join(EXPORTERS)}, {WITH_TORCH_SYMBOLICS}"
    )
    parser.add_argument("--peers", action="store_true", help="torch's own exporters too, for the report")
    parser.add_argument("--opset", type=int, help="target opset; opbridge's default if not given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of workers")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a case")
    parser.add_argument("--fresh", action="store_true", help="ignore the results of earlier runs")
    parser.add_argument(
        "--coverage",
        type=pathlib.Path,
        metavar="FILE",
        help="write the page of operators, with a quick pass at other opsets and by torch's own exporters",
    )
    parser.add_argument("--expect", action="store_true", help=f"run only {PASSING.name}, and fail unless all pass")
    parser.add_argument("--write-passing", action="store_true", help=f"write {PASSING.name}")
    options = parser.parse_args(arguments)
    options.three |= options.quick or options.expect
    if options.peers:
        options.exporters += ",dynamo,torchscript"
    return options


def measure(wanted: dict[str, list[str]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs the selected cases that are not yet in the file of this selection; returns their records."""
    exporters = options.exporters.split(",")
    file = _file_of(options)
    done = [] if options.fresh or options.ops or options.expect else _load(file)
    finished = {(r["op"], r["dtype"], r["exporter"]) for r in done if r["result"] == FINISHED}
    tasks = [
        {
            "op": name,
            "dtype": dtype,
            "exporter": exporter,
            "opset": options.opset,
            "samples": "three" if options.three else "all",
            "dynamic": options.dynamic,
            "from": 0,
        }
        for exporter in exporters
        for name, dtypes in wanted.items()
        for dtype in dtypes
        if (name, dtype, exporter) not in finished
    ]
    # A task that was stopped halfway runs again: its last record of a sample counts.
    records = {
        _key(r): r
        for r in done
        if r["result"] != FINISHED and _key(r)[:3] in finished and r["dtype"] in wanted.get(r["op"], ())
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with file.open("a" if done else "w") as out:
        if not done:
            out.write(json.dumps({"fingerprint": _fingerprint()}) + "\n")
        tasks_done = 0

        def keep(task: dict[str, Any], answer: dict[str, Any]) -> None:
            nonlocal tasks_done
            if "finished" in answer:
                answer = {"result": FINISHED}
            elif "died" in answer:
                sample = max(answer["case"], task["from"])
                answer = {"sample": sample, "result": CRASH, "detail": answer["died"], "by": "", "seconds": 0}
            record = {key: task[key] for key in ("op", "dtype", "exporter")} | answer
            out.write(json.dumps(record) + "\n")
            out.flush()
            if record["result"] != FINISHED:
                records[_key(record)] = record
                return
            tasks_done += 1
            if tasks_done % 100 == 0:
                print(f"{tasks_done} of {len(tasks)} tasks, {time.monotonic() - began:.0f} s", file=sys.stderr)

        run_tasks("conformance.worker", tasks, min(options.jobs, len(tasks)), options.timeout, keep)
    return [r for r in records.values() if r["result"] != NOT_IN_EAGER and r["exporter"] in exporters]


def _key(record: dict[str, Any]) -> tuple[str, str, str, int]:
    return record["op"], record["dtype"], record["exporter"], record.get("sample", -1)


def _dtypes(name: str, options: argparse.Namespace) -> list[str]:
    chosen = [dtype for dtype in dtypes_of(name) if dtype in options.dtypes.split(",")]
    if options.quick:
        chosen = next(([dtype] for dtype in QUICK_DTYPES if dtype in chosen), [])
    return [dtype for dtype in chosen if zlib.crc32(f"{name}/{dtype}".encode()) % options.fraction == 0]


def _file_of(options: argparse.Namespace) -> pathlib.Path:
    parts = ["ops" if options.ops else "quick" if options.quick else "three" if options.three else "full"]
    if options.expect:
        parts = ["expected"]
    if options.fraction != 1:
        parts.append(f"{options.fraction}th")
    if options.dynamic:
        parts.append("dynamic")
    if options.opset:
        parts.append(f"opset{options.opset}")
    return BUILD / f"{'-'.join(parts)}.jsonl"


def _load(file: pathlib.Path) -> list[dict[str, Any]]:
    """The records of an earlier run of the same opbridge; empty if there was none."""
    if not file.exists():
        return []
    lines = []
    for line in file.read_text().splitlines():
        try:
            lines.append(json.loads(line))
        except json.JSONDecodeError:  # the line at which the run was stopped
            break
    if not lines or lines[0].get("fingerprint") != _fingerprint():
        return []
    return lines[1:]


def _fingerprint() -> str:
    digest = hashlib.sha256(torch.__version__.encode())
    package = ROOT / "python" / "opbridge"
    for file in sorted([*package.rglob("*.py"), *package.rglob("*.so")]):
        digest.update(file.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
