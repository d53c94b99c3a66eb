"""The schema line of every bundled mapping equals that of the installed torch, so that upstream changes fail here."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import _C
from torch_versions import IS_BEFORE_2_15

import opbridge
from opbridge.symbolics.registry import registry

# They register their operators.
with contextlib.suppress(ImportError):
    import torchvision  # noqa: F401
with contextlib.suppress(ImportError):
    import torchao.quantization  # noqa: F401
with contextlib.suppress(ImportError):
    import torch.nn.modules.linear_cross_entropy
with contextlib.suppress(ImportError):
    import transformers.integrations.moe  # noqa: F401

# Operators whose `grad_output` is `grad` before torch 2.14: src/torch/bind.cc knows both names.
WITH_GRAD_BEFORE_2_14 = ("aten::_cdist_backward", "aten::_pdist_backward")

REMOVED_AFTER_2_13 = ("aten::cholesky", "aten::qr")

LINES = sorted({schema for _, _, _, bundled, schema in registry().entries() if bundled and schema})


def installed(line: str) -> _C.FunctionSchema | None:
    namespace, _, rest = line.partition("(")[0].partition("::")
    name, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")._schema
    except AttributeError:
        return None


def canonical(schema: _C.FunctionSchema) -> list[tuple[str, ...]]:
    """The schema, independent of how it was printed: `1.` and `1.0`, `0` and `[0, 0]` for an `int[2]`."""

    def default(argument: _C.Argument) -> str:
        value = argument.default_value
        return repr([value] * argument.N if argument.N and isinstance(value, int) else value)

    return [
        (argument.name, str(argument.real_type), default(argument), str(argument.kwarg_only))
        for argument in schema.arguments
    ] + [(str(returned.real_type),) for returned in schema.returns]


@pytest.mark.parametrize("line", LINES)
def test_line(line: str) -> None:
    schema = installed(line)
    if schema is None and not line.startswith("aten::"):
        pytest.skip(f"{line.partition('::')[0]} is not installed, or of a version without it")
    if schema is None and IS_BEFORE_2_15:
        pytest.skip("newer than this torch")
    if schema is None and line.partition("(")[0] in REMOVED_AFTER_2_13:
        pytest.skip("older than this torch")
    assert schema is not None, "torch has no such operator"
    if line.partition("(")[0] in WITH_GRAD_BEFORE_2_14 and torch.__version__ < (2, 14):
        line = line.replace("grad_output", "grad")
    written = _C.parse_schema(line.replace("dtype=int64", "dtype=4"))
    assert canonical(written) == canonical(schema)


def test_every_bundled_mapping_has_a_line() -> None:
    # Except Python's functions of numbers, and control flow.
    without = {key.partition("::")[0] for key, _, _, bundled, schema in registry().entries() if bundled and not schema}
    assert without <= {"_operator", "builtins", "math", "torch", "higher_order"}
    assert len(LINES) > 400


def test_shipped_operators_are_loaded_from_their_own_lines() -> None:
    for operator in opbridge.load_operators():
        assert installed(operator.schema) is not None, operator.schema
