"""Hunts for faults: see ``python -m hunt --help``."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import random
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

from checking.pool import run_tasks
from hunt.report import CRASH, EAGER_CRASH, Tally

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "hunt"
CALLS_AT_ONCE, PROGRAMS_AT_ONCE = 50, 10


def main() -> int:
    options = _options()
    warnings.simplefilter("ignore")
    if options.case:
        return _one(options.case)
    if options.ops:
        from hunt.calls import overloads
        from hunt.draw import matches

        if not any(matches(overload.name, options.ops) for overload in overloads()):
            sys.exit(f"--ops: no operator that opbridge maps matches {options.ops}")
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(40)
    print(f"seed {seed}", flush=True)
    tally = hunt(options, seed)
    print(tally.text())
    return 1 if tally.faults else 0


def hunt(options: argparse.Namespace, seed: int) -> Tally:
    BUILD.mkdir(parents=True, exist_ok=True)
    tally, shown = Tally(), time.monotonic()
    with (options.out or BUILD / f"{seed}.jsonl").open("w") as out:

        def keep(task: dict[str, Any], answer: dict[str, Any]) -> None:
            nonlocal shown
            if "finished" in answer:
                return
            if "died" in answer:
                answer = _death(task, answer)
            new = "fault" in answer and answer["fault"] not in tally.faults
            tally.add(answer)
            out.write(json.dumps(answer) + "\n")
            out.flush()
            if new:
                print(f"{answer['fault']}\n    {answer['seed']}  {answer['shrunk'][:300]}", file=sys.stderr, flush=True)
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                print({kind: dict(counts) for kind, counts in tally.results.items()}, file=sys.stderr, flush=True)

        run_tasks("hunt.worker", _tasks(options, seed), options.jobs, options.timeout, keep)
    return tally


def _death(task: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The record for a worker that died. A death in eager PyTorch's part is not a fault of opbridge."""
    from hunt.draw import about

    if isinstance(answer["stage"], dict):  # it died while the case was shrunk
        record = answer["stage"]
        return record | {"fault": f"{record['about']} {record['result']} {record['kind']}", "shrunk": record["detail"]}
    name = about(task["kind"], answer["case"]) if answer["case"] >= 0 else "the worker"
    ours = answer["stage"] == "opbridge" or answer["case"] < 0 or answer["died"].endswith("status 1")  # an exception
    record = {
        "seed": f"{task['kind']}:{answer['case']}",
        "about": name,
        "detail": answer["died"],
        "kind": answer["died"],
    }
    record |= {"result": CRASH if ours else EAGER_CRASH}
    if ours:
        record |= {"fault": f"{name} {CRASH} {answer['died']}", "shrunk": f"{answer['died']}: {record['seed']}"}
    return record


def _tasks(options: argparse.Namespace, seed: int) -> Iterator[dict[str, Any]]:
    """Alternates calls and programs until the time or their number is reached."""
    began = time.monotonic()
    left = {"call": options.calls or 0, "program": options.programs or 0}
    if options.minutes is None and not any(left.values()):
        left["call"] = 2000
    seeds = {"call": _call_seeds(seed, options.ops), "program": itertools.count(seed)}
    size = {"call": CALLS_AT_ONCE, "program": PROGRAMS_AT_ONCE}
    if options.minutes is not None and not any(left.values()):
        left = {"call": sys.maxsize, "program": 0 if options.ops else sys.maxsize}
    while any(left.values()):
        for kind in ("call", "program"):
            if options.minutes is not None and time.monotonic() - began > 60 * options.minutes:
                return
            count = min(left[kind], size[kind])
            left[kind] -= count
            if count:
                chosen = list(itertools.islice(seeds[kind], count))
                yield {"kind": kind, "seeds": chosen, "faults": str(options.faults), "from": 0}


def _call_seeds(first: int, patterns: str | None) -> Iterator[int]:
    """The seeds from ``first`` on that draw calls of operators that match the patterns."""
    if not patterns:
        yield from itertools.count(first)
        return
    from hunt.draw import about, matches

    yield from (seed for seed in itertools.count(first) if matches(about("call", seed), patterns))


def _one(name: str) -> int:
    """Runs one case again and prints it."""
    import torch

    from hunt.check import check
    from hunt.draw import draw
    from hunt.faults import script
    from hunt.shrink import shrunk

    torch.set_num_threads(1)
    kind, _, seed = name.partition(":")
    drawn = draw(kind, int(seed))
    if drawn is None:
        print("PyTorch rejected everything that was drawn")
        return 0
    outcome = check(drawn.case())
    print(script(drawn.case(), outcome))
    print(outcome)
    if outcome.is_fault:
        drawn, outcome = shrunk(drawn, outcome)
        print(script(drawn.case(), outcome))
    return 1 if outcome.is_fault else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="hunt", description="Draws calls and programs, and compares them with PyTorch."
    )
    parser.add_argument("--minutes", type=float, help="how long to run")
    parser.add_argument("--calls", type=int, help="how many calls")
    parser.add_argument("--programs", type=int, help="how many programs")
    parser.add_argument("--seed", type=int, help="a fresh one by default")
    parser.add_argument("--ops", help="only calls of these operators: patterns, separated by commas")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of workers")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a case")
    parser.add_argument("--case", metavar="KIND:SEED", help="run only this case, shrink it and print it")
    parser.add_argument("--faults", type=pathlib.Path, default=BUILD / "faults", help="the folder for files of faults")
    parser.add_argument("--out", type=pathlib.Path, help="the file for the records, lines of JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
