"""The main loop of processes that checking.pool starts: reads tasks and writes answers as JSON."""

from __future__ import annotations

import json
import os
import resource
import sys
import warnings
from collections.abc import Callable
from typing import Any

MEMORY_LIMIT = 12 << 30  # bytes of address space: a case that needs more fails, rather than the machine

Answer = Callable[[dict[str, Any]], None]


def serve(run: Callable[[dict[str, Any], Answer], None]) -> None:
    """Runs the tasks of standard input. ``run`` writes the answers; {"done": true} follows each task."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # all other output goes to standard error
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)

    def answer(line: dict[str, Any]) -> None:
        answers.write(json.dumps(line) + "\n")

    for line in sys.stdin:
        run(json.loads(line), answer)
        answer({"done": True})
