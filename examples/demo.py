"""Every scenario and every model, checked in ONNX Runtime; ends with a table. Exits with 1 if one of them fails."""

from __future__ import annotations

import logging
import sys
import traceback
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import aten_operator  # noqa: E402 - after the warnings of what it imports are off
import cpp_extension_operator  # noqa: E402
import exercises  # noqa: E402
import models  # noqa: E402
import onnx_function  # noqa: E402
import operator_once  # noqa: E402
import torchscript_operator  # noqa: E402
from scenario import Row, table  # noqa: E402


def main() -> int:
    scenarios: list[Row] = []
    failed = 0
    for module in (
        aten_operator, torchscript_operator, cpp_extension_operator, operator_once, onnx_function, exercises,
    ):  # fmt: skip
        print(f"{module.__name__}: {(module.__doc__ or '').splitlines()[0]}", flush=True)
        try:
            scenarios += module.rows()
        except Exception:
            traceback.print_exc()
            failed += 1
    print("\nA wrong symbolic function is refused, for example one with a misspelled name:\n")
    print(aten_operator.error_of(aten_operator.wrong_functions()["a misspelled name"]))

    results: list[Row] = []
    print("\nmodels: seeded random weights, both captures, constant and dynamic batch", flush=True)
    for name in models.EXAMPLES:
        for capture in ("export", "trace"):
            for dynamic in (False, True):
                try:
                    results.append(models.row(name, capture, dynamic))
                except Exception as error:
                    print(f"{name} ({capture}{', dynamic batch' if dynamic else ''}) FAILED: {error}", flush=True)
                    failed += 1
    print(f"\n{table(scenarios)}\n\n{table(results)}\n")
    print(f"{len(scenarios) + len(results)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
