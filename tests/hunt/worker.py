"""A process that runs cases. It reads tasks from its standard input and answers each case with a line of JSON.

Task: {"kind": "call" or "program", "seeds": the cases to run, in ascending order, "faults": folder,
"from": the first of them to run}. Answer: {"seed", "about", "result", "detail", "kind", "seconds", "file"}.
"""

from __future__ import annotations

import gc
import logging
import pathlib
import time
from typing import Any

from checking.worker import Answer, serve


def _run(task: dict[str, Any], answer: Answer) -> None:
    from hunt.check import check
    from hunt.draw import about, draw
    from hunt.faults import write_fault

    for seed in task["seeds"]:
        if seed < task["from"]:
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
            answer({"stage": record})  # eager PyTorch may crash the process from here on
            record |= write_fault(drawn, outcome, pathlib.Path(task["faults"]))
        answer(record)


if __name__ == "__main__":
    logging.disable(logging.ERROR)
    import hunt.check
    import hunt.draw  # noqa: F401

    gc.freeze()  # garbage collection of all of torch's objects takes longer than most cases
    serve(_run)
