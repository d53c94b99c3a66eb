"""Counts the programs of another compiler's tests that are exported correctly: see ``python -m peers --help``."""

from __future__ import annotations

import argparse
import collections
import fnmatch
import pathlib
import sys
from typing import Any

import torch

from checking.pool import run_tasks
from peers.suites import SUITES, programs

EXPORTERS = ("export", "trace", "torch.onnx")
RESULTS = ("right", "refused", "wrong", "error", "crash", "random", "not run")
PROGRAMS_PER_TASK = 20


def main() -> int:
    options = _options()
    names = [program.name for program in programs(options.suite, options.root)]
    if options.only:
        names = [name for name in names if any(fnmatch.fnmatchcase(name, p) for p in options.only.split(","))]
    if not names:
        print(f"{options.root} has no such program of {options.suite}", file=sys.stderr)
        return 1
    names = names[:: options.every]
    exporters = options.exporters.split(",")
    tasks = [
        {
            "suite": options.suite,
            "root": str(options.root.resolve()),
            "exporter": exporter,
            "names": names[first : first + PROGRAMS_PER_TASK],
        }
        for first in range(0, len(names), PROGRAMS_PER_TASK)
        for exporter in exporters
    ]
    found: dict[str, dict[str, tuple[str, str]]] = {exporter: {} for exporter in exporters}

    def keep(task: dict[str, Any], answer: dict[str, Any]) -> None:
        of_exporter = found[task["exporter"]]
        if "name" in answer:
            of_exporter[answer["name"]] = (answer["result"], answer["detail"])
        elif "died" in answer and answer["case"] >= 0:
            of_exporter[task["names"][answer["case"]]] = ("crash", answer["died"])

    run_tasks("peers.worker", tasks, options.jobs, options.timeout, keep)
    text = _table(options.suite, names, found)
    print(text)
    if options.out:
        options.out.write_text(text)
    return 1 if any(_count(found[e], "wrong") for e in exporters if e != "torch.onnx") else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers", description="Runs the tests of other compilers through opbridge.")
    parser.add_argument("--suite", choices=SUITES, required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="the checkout of its repository")
    parser.add_argument("--only", help="patterns of names, separated by commas")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth program")
    parser.add_argument("--exporters", default=",".join(EXPORTERS), help=f"separated by commas: {', '.join(EXPORTERS)}")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one program")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write the table")
    return parser.parse_args()


def _count(results: dict[str, tuple[str, str]], result: str) -> int:
    return sum(kind == result for kind, _ in results.values())


def _table(suite: str, names: list[str], found: dict[str, dict[str, tuple[str, str]]]) -> str:
    lines = [f"# {suite}: {len(names)} programs, torch {torch.__version__}", ""]
    lines += [f"| | {' | '.join(RESULTS)} |", "|---|" + "---:|" * len(RESULTS)]
    for exporter, results in found.items():
        name = exporter if exporter == "torch.onnx" else f'opbridge, capture="{exporter}"'
        lines.append(f"| {name} | {' | '.join(str(_count(results, result)) for result in RESULTS)} |")
    for exporter, results in found.items():
        if exporter == "torch.onnx":
            continue
        for kind in ("wrong", "error", "crash", "refused"):
            by_detail: dict[str, list[str]] = collections.defaultdict(list)
            for name, (result, detail) in results.items():
                if result == kind:
                    by_detail[detail].append(name)
            if by_detail:
                lines += ["", f"## {kind}, by {exporter}", ""]
            for detail, which in sorted(by_detail.items(), key=lambda item: -len(item[1])):
                some = ", ".join(which[:5]) + (", …" if len(which) > 5 else "")
                lines.append(f"- {len(which)}: {detail} ({some})")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
