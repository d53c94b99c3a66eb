"""Makes what fails smaller, as long as it fails alike."""

from __future__ import annotations

import time
from typing import Any

from hunt.check import Outcome, check

LONGEST = 40.0  # seconds


def shrunk(drawn: Any, outcome: Outcome) -> tuple[Any, Outcome]:
    """The simplest that still fails in the same way: ``drawn.simpler()`` proposes."""
    until = time.monotonic() + LONGEST
    progress = True
    while progress:
        progress = False
        for simpler in drawn.simpler():
            if time.monotonic() > until:
                return drawn, outcome
            try:
                now = check(simpler.case())
            except Exception:  # a proposal that makes no sense
                continue
            if now.result == outcome.result and now.kind == outcome.kind:
                drawn, outcome, progress = simpler, now, True
                break
    return drawn, outcome
