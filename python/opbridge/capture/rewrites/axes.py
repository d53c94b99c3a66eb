"""Arguments that have a number for each axis of an image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def for_axes(value: Any, axes: int) -> list[Any]:
    """The numbers of an argument such as a stride: a single one holds for all axes."""
    numbers = list(value) if isinstance(value, Sequence) else [value]
    return numbers * axes if len(numbers) == 1 else numbers
