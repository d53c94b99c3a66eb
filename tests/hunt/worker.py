"""A process that runs cases. It reads tasks from its standard input and answers each case with a line of JSON.

Task: {"kind": "call" or "program", "seeds": [first, one beyond the last], "ops": pattern or null, "faults": folder,
"from": index of the first case to run}. Answer: {"seed", "about", "result", "detail", "kind", "seconds", "file"}.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import pathlib
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

MEMORY_LIMIT = 12 << 30  # of addresses: a case that asks for more fails, and the machine goes on


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else prints
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    import torch

    torch.set_num_threads(1)

    def answer(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")

    for line in sys.stdin:
        _run(json.loads(line), answer)
        answer({"done": True})


def _run(task: dict[str, Any], answer: Callable[[dict[str, Any]], None]) -> None:
    from hunt.check import check
    from hunt.draw import about, draw
    from hunt.faults import write_fault

    first, end = task["seeds"]
    for seed in range(max(first, task["from"]), end):
        if task["ops"] and not fnmatch.fnmatchcase(about(task["kind"], seed), task["ops"]):
            continue
        answer({"start": seed})
        begin = time.monotonic()
        drawn = draw(task["kind"], seed)
        record: dict[str, Any] = {"seed": f"{task['kind']}:{seed}", "about": about(task["kind"], seed)}
        if drawn is None:
            answer(record | {"result": "nothing drawn", "detail": "", "kind": "", "seconds": time.monotonic() - begin})
            continue
        outcome = check(drawn.case(), lambda stage: answer({"stage": stage}))
        record |= {
            "result": outcome.result,
            "detail": outcome.detail,
            "kind": outcome.kind,
            "compared": outcome.compared,
        }
        record["seconds"] = round(time.monotonic() - begin, 4)
        if outcome.is_fault:
            answer({"stage": record})  # in what follows, eager PyTorch may end the process
            record |= write_fault(drawn, outcome, pathlib.Path(task["faults"]))
        answer(record)


if __name__ == "__main__":
    main()
