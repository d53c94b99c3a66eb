"""Checks every scenario and every model in ONNX Runtime and prints a table. Exits with 1 if one of them fails."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import traceback
import warnings
from collections.abc import Iterator

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import aten_operator  # noqa: E402 - warnings of its imports are disabled first
import models  # noqa: E402
from scenario import SCENARIOS, Row, table  # noqa: E402


class Tally:
    """Counts what passed, failed, or could not be tried on this machine."""

    def __init__(self) -> None:
        self.failed = 0
        self.left_out = 0

    @contextlib.contextmanager
    def of(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and error.name == "torchvision":
                print(f"{what}: left out, torchvision is not installed", flush=True)
                self.left_out += 1
            else:
                traceback.print_exc()
                print(f"{what}: FAILED", flush=True)
                self.failed += 1


def main() -> int:
    scenarios: list[Row] = []
    tally = Tally()
    for name in SCENARIOS:
        with tally.of(name):
            module = importlib.import_module(name)
            print(f"{name}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
            scenarios += module.rows()
    print("\nA wrong symbolic function is refused, for example one with a misspelled name:\n")
    print(aten_operator.error_of(aten_operator.wrong_functions()["a misspelled name"]))

    results: list[Row] = []
    print("\nmodels: seeded random weights, both captures, constant and dynamic batch", flush=True)
    for name in models.EXAMPLES:
        for capture in ("export", "trace"):
            for dynamic in (False, True):
                with tally.of(f"{name} ({capture}{', dynamic batch' if dynamic else ''})"):
                    results.append(models.row(name, capture, dynamic))
    print(f"\n{table(scenarios)}\n\n{table(results)}\n")
    left_out = f", {tally.left_out} left out" if tally.left_out else ""
    print(f"{len(scenarios) + len(results)} passed, {tally.failed} failed{left_out}")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
