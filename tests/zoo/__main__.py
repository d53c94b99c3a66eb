"""Exports whole models and compares them: see ``python -m zoo --help``."""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import importlib
import json
import multiprocessing
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import onnxruntime
import torch

from zoo.check import check
from zoo.entry import Entry

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDS = ROOT / "build" / "zoo.jsonl"
LIBRARIES = ("torchvision", "timm", "transformers", "half")
CAPTURES = ("export", "trace")


def main() -> int:
    options = _options()
    torch.set_num_threads(1)
    entries = {
        entry.name: entry
        for library in LIBRARIES
        for entry in importlib.import_module(f"zoo.{library}_models").entries()
        if not options.models or any(fnmatch.fnmatchcase(entry.name, f"*{p}*") for p in options.models.split(","))
    }
    done = {} if options.fresh or options.models else {(row["name"], row["capture"]): row for row in _load()}
    captures = options.captures.split(",")
    waiting = [(e, c) for e in entries.values() for c in captures if (e.name, c) not in done]
    RECORDS.parent.mkdir(exist_ok=True)
    with (
        RECORDS.open("w" if options.fresh else "a") as records,
        concurrent.futures.ThreadPoolExecutor(options.jobs) as pool,
    ):
        for row in pool.map(lambda task: _isolated(*task, options.timeout), waiting):
            records.write(json.dumps(row) + "\n")
            records.flush()
            done[row["name"], row["capture"]] = row
            print(_line(row), flush=True)
    rows = [done[name, capture] for name in entries for capture in captures]
    print("\n".join(_totals(rows)))
    if options.table:
        options.table.write_text(_table(rows, captures))
    return 1 if any(row["result"] == "DIFFERS" for row in rows) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="zoo", description="Exports torchvision's, timm's and transformers' models.")
    parser.add_argument("--models", help="run only these models, again: patterns of names, separated by commas")
    parser.add_argument("--captures", default=",".join(CAPTURES), help="separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one model and capture")
    parser.add_argument("--fresh", action="store_true", help="ignore the results of earlier runs")
    parser.add_argument("--table", type=pathlib.Path, metavar="FILE", help="write the table")
    return parser.parse_args()


def _isolated(entry: Entry, capture: str, timeout: float) -> dict[str, Any]:
    """Runs the check in a process of its own, forked so that it need not load the libraries again."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        torch.set_num_threads(1)
        sender.send(check(entry, capture))

    process = context.Process(target=work)
    process.start()
    sender.close()
    row = {"name": entry.name, "capture": capture, "result": "fails"}
    try:
        row = receiver.recv() if receiver.poll(timeout) else row | {"detail": f"no result in {timeout:g} s"}
    except EOFError:
        process.join()
        row |= {"detail": f"the process ended with status {process.exitcode}"}
    process.kill()
    process.join()
    return row


def _load() -> Iterator[dict[str, Any]]:
    if RECORDS.exists():
        for line in RECORDS.read_text().splitlines():
            yield json.loads(line)


def _line(row: dict[str, Any]) -> str:
    measured = f"{row['relative']:.1e}" if "relative" in row else ""
    return f"{row['name']:60} {row['capture']:7} {row['result']:8} {measured:8} {row['detail']}"


def _totals(rows: list[dict[str, Any]]) -> list[str]:
    lines = []
    for library in LIBRARIES:
        own = [row for row in rows if row["name"].startswith(f"{library}/")]
        if not own:
            continue
        names = {row["name"] for row in own}
        agree = {c: sum(r["result"] == "agrees" for r in own if r["capture"] == c) for c in CAPTURES}
        either = len({row["name"] for row in own if row["result"] == "agrees"})
        run = {row["capture"] for row in own}
        counts = ", ".join(f"{agree[capture]} by {capture}" for capture in CAPTURES if capture in run)
        lines.append(f"{library}: {len(names)} models, {either} agree with PyTorch ({counts})")
    return lines


def _table(rows: list[dict[str, Any]], captures: list[str]) -> str:
    lines = [
        "# Models",
        "",
        "Written by `make models`: every model is exported with seeded random weights, run in ONNX Runtime and",
        "compared with eager PyTorch, in float32 unless its name says otherwise. Image and language models have a",
        "dynamic batch: exported at 1, compared at 1 and 2. Detection models are compared on a second image too. The",
        "figure for a mask is the share of its pixels that differ by more than 1e-3. Other figures are the",
        "largest difference of an output relative to that output's largest magnitude, and the time of the export;",
        "the limits are 1e-3, and four times the machine epsilon in float16 and bfloat16.",
        f"torch {torch.__version__}, ONNX Runtime {onnxruntime.__version__}.",
        "",
        *(f"- {line}" for line in _totals(rows)),
        "",
        f"| model | {' | '.join(captures)} | nodes |",
        "|---|---|" + "---|" * len(captures),
    ]
    by_name: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["name"], {})[row["capture"]] = row
    for name, of_model in by_name.items():
        nodes = next((str(row["nodes"]) for row in of_model.values() if row["result"] == "agrees"), "")
        lines.append(f"| {name} | {' | '.join(_cell(of_model[capture]) for capture in captures)} | {nodes} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any]) -> str:
    if row["result"] == "agrees":
        return f"{row['relative']:.0e}, {row['seconds']:.1f} s"
    detail = row["detail"].replace("|", "\\|")[:160]
    return f"**{row['result']}** {detail}"


if __name__ == "__main__":
    sys.exit(main())
