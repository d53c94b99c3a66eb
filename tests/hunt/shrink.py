"""Shrinks a failing case as long as it fails in the same way."""

from __future__ import annotations

import time
from typing import Any

from hunt.check import Outcome, check

LONGEST = 40.0  # seconds


def shrunk(drawn: Any, outcome: Outcome) -> tuple[Any, Outcome]:
    """The simplest case that still fails in the same way; ``drawn.simpler()`` proposes cases."""
    until = time.monotonic() + LONGEST
    progress = True
    while progress:
        progress = False
        for simpler in drawn.simpler():
            if time.monotonic() > until:
                return drawn, outcome
            try:
                now = check(simpler.case())
            except Exception:  # the proposal is invalid
                continue
            if now.result == outcome.result and now.kind == outcome.kind:
                drawn, outcome, progress = simpler, now, True
                break
    return drawn, outcome
