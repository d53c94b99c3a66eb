"""Random settings of the export of a case."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import Any

from checking.runtime import newest_opset
from hunt.case import DYNAMIC, Settings
from hunt.tensors import TensorSpec

OLDEST_OPSET = 13


def draw_settings(
    rng: random.Random, inputs: Sequence[TensorSpec], export_share: float, dynamic_share: float
) -> Settings:
    dynamic = None
    if rng.random() < dynamic_share and any(spec.size for spec in inputs):
        dynamic = _dynamic(rng, inputs)
    return Settings(
        capture="export" if rng.random() < export_share else "trace",
        opset=None if rng.random() < 2 / 3 else rng.randint(OLDEST_OPSET, newest_opset()),
        simplify=rng.random() < 2 / 3,
        dynamic=dynamic,
    )


def _dynamic(rng: random.Random, inputs: Sequence[TensorSpec]) -> tuple[dict[int, str] | None, ...]:
    """Names for some of the sizes: the same for equal sizes, a different one for each, or torch's wildcard."""
    how = rng.choice(("equal", "each", "wildcard"))
    share = rng.choice((0.4, 0.7, 1.0))
    names = []
    for i, spec in enumerate(inputs):
        dims = {}
        for dim, size in enumerate(spec.size):
            if rng.random() < share:
                dims[dim] = {"equal": f"n{size}", "each": f"n{i}_{dim}", "wildcard": DYNAMIC}[how]
        names.append(dims or None)
    return tuple(names)


def simpler_settings(settings: Settings, runs: Any) -> Iterator[tuple[Settings, Any]]:
    """Simpler settings, with the runs that they need."""
    plain = Settings()
    if settings.dynamic is not None:
        static = dataclasses.replace(settings, dynamic=None)
        for run in runs:
            yield static, (run,)
    if len(runs) > 1:
        yield settings, runs[:1]
    if len(runs) > 2:
        for run in runs[1:]:
            yield settings, (runs[0], run)
    for name in ("opset", "simplify", "capture"):
        if getattr(settings, name) != getattr(plain, name):
            yield dataclasses.replace(settings, **{name: getattr(plain, name)}), runs
    dynamic = settings.dynamic or ()
    for i, dims in enumerate(dynamic):
        for dim in dims or {}:
            fewer = {d: n for d, n in (dims or {}).items() if d != dim} or None
            by_input = (*dynamic[:i], fewer, *dynamic[i + 1 :])
            if any(by_input):
                yield dataclasses.replace(settings, dynamic=by_input), runs
