"""A process that runs cases. It reads tasks from its standard input and answers each case with a line of JSON.

Task: {"op", "dtype", "exporter", "opset", "samples": "all" or "three", "dynamic": whether to take calls of two sizes,
"from": index of the first sample to run}.
Answers: {"start": index} before a case, {"sample", "result", "detail", "by", "seconds"} after it, and {"done": true}
after the task.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

from checking.worker import Answer, serve


def _run(task: dict[str, Any], answer: Answer) -> None:
    from conformance.operators import database

    database()  # loaded before the time of a case starts
    for line in _answers(task):
        answer(line)


def _answers(task: dict[str, Any]) -> Any:
    import torch

    from conformance.case import NOT_IN_EAGER, Outcome, check
    from conformance.operators import QUICK_SAMPLES, quick_indices, resized_samples, samples

    made = (resized_samples if task["dynamic"] else samples)(task["op"], task["dtype"])
    chosen = None
    try:
        if task["samples"] == "three":
            first = list(itertools.islice(made, QUICK_SAMPLES))
            chosen = quick_indices(len(first))
            made = iter(first)
        for index, sample in enumerate(made):
            if index < task["from"] or (chosen is not None and index not in chosen):
                continue
            yield {"start": index}
            begin = time.monotonic()
            outcome = check(sample, task["exporter"], task["opset"])
            torch._dynamo.reset()
            seconds = round(time.monotonic() - begin, 3)
            result = {"sample": index, "result": outcome.result, "detail": outcome.detail, "by": outcome.by}
            yield result | {"seconds": seconds}
    except Exception as error:  # the database fails to make samples
        outcome = Outcome(NOT_IN_EAGER, f"{type(error).__name__}: {error}"[:200])
        yield {"sample": -1, "result": outcome.result, "detail": outcome.detail, "by": "", "seconds": 0}


if __name__ == "__main__":
    serve(_run)
