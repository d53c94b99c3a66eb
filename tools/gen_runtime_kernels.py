#!/usr/bin/env python3
"""Write the element types for which ONNX Runtime has CPU kernels, as rows of C++.

    python tools/gen_runtime_kernels.py > old.inc                              # with the oldest supported version
    python tools/gen_runtime_kernels.py old.inc > src/runtimes/onnxruntime/kernels.inc # with the newest

src/runtimes/onnxruntime/kernels.cc includes the result, which is kept in the repository: building opbridge does not
need ONNX Runtime. The result has the kernels of the oldest version, which later versions have too, and kernels that a
later version added for types that no wider type can represent: with the oldest version, such a model does not load.
"""

from __future__ import annotations

import collections
import pathlib
import re
import sys

import onnx
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as state

Masks = dict[tuple[str, int, int, str], int]  # operator, first and last version, type variable → bits of types
NUMBERS = {  # of onnx.TensorProto, by the names that ONNX Runtime uses
    f"tensor({name.lower()})": number for name, number in onnx.TensorProto.DataType.items()
}

WIDEST = 1 << onnx.TensorProto.DOUBLE | 1 << onnx.TensorProto.INT64 | 1 << onnx.TensorProto.UINT64


def is_function(name: str, version: int) -> bool:
    """Whether the runtime can expand the operator into simpler ones, which have float64 kernels."""
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == name and s.since_version <= version]
    newest = max(
        schemas, key=lambda schema: schema.since_version, default=None
    )  # None: an operator of the runtime's own
    return newest is not None and (newest.has_function or newest.has_context_dependent_function)


def main() -> None:
    masks: Masks = collections.defaultdict(int)
    for kernel in state.get_all_opkernel_def():
        if kernel.provider != "CPUExecutionProvider" or kernel.domain:
            continue
        begin, end = kernel.version_range
        for variable, types in kernel.type_constraints.items():
            for name in types:
                if name in NUMBERS:  # other types are not tensors
                    masks[kernel.op_name, begin, end, variable] |= 1 << NUMBERS[name]
            if is_function(kernel.op_name, begin):
                masks[kernel.op_name, begin, end, variable] |= 1 << onnx.TensorProto.DOUBLE
    print(f"// ONNX Runtime {onnxruntime.__version__}, written by tools/gen_runtime_kernels.py")
    if len(sys.argv) > 1:
        masks = with_widest(read(sys.argv[1]), masks)
    for (name, begin, end, variable), mask in sorted(masks.items()):
        print(f'{{"{name}", "{variable}", {begin}, {end}, {{{mask:#x}}}}},')


def read(path: str) -> Masks:
    rows = re.findall(r'{"(\w+)", "(\w+)", (\d+), (\d+), {(\w+)}}', pathlib.Path(path).read_text())
    return {(name, int(begin), int(end), variable): int(mask, 16) for name, variable, begin, end, mask in rows}


def with_widest(old: Masks, new: Masks) -> Masks:
    masks = dict(old)
    for name, begin, end, variable in old:
        for (other, other_begin, other_end, other_variable), mask in new.items():
            if (other, other_variable) == (name, variable) and other_begin <= end and begin <= other_end:
                masks[name, begin, end, variable] |= mask & WIDEST
    return masks


if __name__ == "__main__":
    main()
