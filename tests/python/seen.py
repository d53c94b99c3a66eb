"""What a model shows of its runs."""

from __future__ import annotations

import queue
from typing import Any


class Seen:
    """Values that a model puts here. A capture would put back the lists and variables that a model changes."""

    def __init__(self) -> None:
        self._values: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def put(self, value: Any) -> None:
        self._values.put(value)

    def taken(self) -> list[Any]:
        """The values put so far, the oldest first, which are removed here."""
        return [self._values.get_nowait() for _ in range(self._values.qsize())]
