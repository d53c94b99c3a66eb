"""The table of operator traits (src/torch/traits_table.inc) agrees with torch's schemas, tags and meta kernels.

An operator that opbridge maps and that is a view, works in place or is pointwise must have a row. Intended differences
to torch are listed below with their reasons.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_versions import since_torch_2_15

from opbridge.symbolics.registry import registry

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("OPBRIDGE_BUILD_DIR", ROOT / "build" / "release"))
DUMP = BUILD / "tests" / "cpp" / "opbridge_dump_operator_traits"

Row = dict[str, Any]
Schema = torch._C.FunctionSchema

MAPPED = {key for key, _, _, bundled, schema in registry().entries() if bundled and schema and key.startswith("aten::")}
MAPPED_NAMES = {key.partition(".")[0] for key in MAPPED}


def key_of(schema: Schema) -> str:
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def is_tensor(argument: Any) -> bool:
    return "Tensor" in str(argument.type)


def writes(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


# Operators of tensors. TorchScript's operators of lists and dicts are left out; some of them have types that only
# TorchScript has.
SCHEMAS = {
    key_of(s): s
    for s in torch._C._jit_get_all_schemas()
    if s.name.startswith("aten::") and torch._C._dispatch_has_kernel(key_of(s))
}


@cache
def dumped() -> tuple[dict[str, Row], dict[str, Row]]:
    """The rows of the table, and how functionalization classifies each of torch's operators."""
    assert DUMP.exists(), f"build the target opbridge_dump_operator_traits first: {DUMP} is missing"
    lines = "\n".join(str(s) for s in SCHEMAS.values())
    output = subprocess.run([DUMP], input=lines, capture_output=True, text=True, check=True).stdout
    objects = [json.loads(line) for line in output.splitlines()]
    return {o["row"]: o for o in objects if "row" in o}, {o["op"]: o for o in objects if "op" in o}


ROWS, OPS = dumped()


def overload(key: str) -> torch._ops.OpOverload:
    name, _, variant = key.removeprefix("aten::").partition(".")
    found: torch._ops.OpOverload = getattr(getattr(torch.ops.aten, name), variant or "default")
    return found


def has_tag(key: str, tag: torch.Tag) -> bool:
    return tag in overload(key).tags


@since_torch_2_15("some operators do not exist")
def test_every_row_is_of_an_operator() -> None:
    names = {s.name for s in torch._C._jit_get_all_schemas()}
    assert {row for row in ROWS if row not in names and row not in SCHEMAS} == set()


def concerns_mapped(key: str) -> bool:
    name = key.partition(".")[0]
    return name in MAPPED_NAMES or name.removesuffix("_") in MAPPED_NAMES


SHARING = {"same", "alias", "view", "view_or_copy", "flatten", "contiguous", "convert", "dropout", "complex_view"}
SHARING |= {"unclear", "unclear_alone", "rearrange", "reassign"}

CASTS = ("Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")

# torch declares no alias for these, although the result may be an argument.
UNDECLARED = {
    **dict.fromkeys(
        ["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"], "drops nothing in evaluation mode"
    ),
    **dict.fromkeys(["atleast_1d", "atleast_2d", "atleast_3d"], "gives a tensor of enough dims back"),
    **dict.fromkeys(["cartesian_prod", "chain_matmul", "einsum"], "may give its only tensor back"),
    **dict.fromkeys(["broadcast_tensors", "meshgrid"], "expands its tensors"),
    **dict.fromkeys(["unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "_unsafe_view"], "unsafe by its name"),
    "_to_copy": "copies, in another type, which the rule for conversions tells apart",
    "type_as": "gives a tensor of that type back",
    "to_dense": "gives a dense tensor back",
    "channel_shuffle": "is a view in one group",
    "flatten_dense_tensors": "gives its only tensor back, flattened",
    "unflatten_dense_tensors": "splits its tensor",
    "conj_physical": "gives a real tensor back",
    "sum_to_size": "gives a tensor of that size back",
    "_autocast_to_full_precision": "gives a tensor of that type back",
    **{f"_cast_{name}": "gives a tensor of that type back" for name in CASTS},
    "as_strided_copy": "finds its elements as the view does, and copies",
    "as_strided_scatter": "finds its elements as the view does, and copies",
    "_has_compatible_shallow_copy_type": "stands for `data =` in the graphs of torch.export",
}

# torch declares an alias for these, but the table does not.
DECLARED = {"lift_fresh": "a constant of the program, which each run makes anew"}


def test_views_have_the_effect_of_sharing_memory() -> None:
    wrong = []
    for key, schema in SCHEMAS.items():
        if not any(is_tensor(a) for a in schema.arguments) or any(writes(a) for a in schema.arguments):
            continue
        shares = any(is_tensor(r) and r.alias_info is not None for r in schema.returns)
        row, name = OPS[key], schema.name.removeprefix("aten::")
        if shares and concerns_mapped(key) and row["effect"] not in SHARING and name not in DECLARED:
            wrong.append(f"{key} shares memory, and is {row['effect']}: {schema}")
        if not shares and row["effect"] in SHARING and name not in UNDECLARED:
            wrong.append(f"{key} is {row['effect']}, and declares no alias: {schema}")
        if row["effect"] in ("view", "view_or_copy", "flatten", "rearrange") and not row["view"]:
            wrong.append(f"{key} is a view of no kind")
    assert not wrong, "\n".join(wrong)


# Written arguments, and how our graphs represent the write.
OTHER_WRITES = {
    "retain_grad": "concerns gradients alone",
    "record_stream": "concerns the allocator alone",
    "rrelu_with_noise": "training mode alone writes the noise, which the mapping refuses",
}


def as_pure(schema: Schema, outs: set[str]) -> list[tuple[str, str]]:
    return [(a.name, str(a.real_type)) for a in schema.arguments if a.name not in outs]


# Cases in which the pure operator's arguments differ from those of the writing one; adapt_arguments converts them.
OTHER_ARGUMENTS = {
    "polygamma_": "the order of its arguments",
    "dropout_": "self is called input",
    "alpha_dropout_": "self is called input",
    "feature_dropout_": "self is called input",
    "feature_alpha_dropout_": "self is called input",
}


WRITING = sorted(
    key
    for key, schema in SCHEMAS.items()
    if any(writes(a) and is_tensor(a) for a in schema.arguments) and concerns_mapped(key)
)


def test_every_write_to_an_argument_is_known() -> None:
    wrong = []
    for key in WRITING:
        schema, row = SCHEMAS[key], OPS[key]
        mutation = row["mutation"]
        if row["effect"] != "pure" or schema.name.removeprefix("aten::") in OTHER_WRITES:
            continue
        if mutation is None:
            wrong.append(f"{key} is taken for a pure operator: {schema}")
        elif mutation.get("pure"):
            outs = set(mutation["outs"])
            written = {a.name for a in schema.arguments if writes(a)}
            pure = SCHEMAS.get(mutation["pure"])
            if outs and outs != written:
                wrong.append(f"{key} writes to {written}, not {outs}")
            elif pure is None:
                wrong.append(
                    f"{key} is taken for {mutation['pure']}, which torch does not have; if it has another name, add a "
                    "row to src/torch/out_variants.cc"
                )
            else:
                missing = [a for a in as_pure(schema, outs) if a not in as_pure(pure, set())]
                if missing and schema.name.removeprefix("aten::") not in OTHER_ARGUMENTS:
                    wrong.append(f"{key} has {missing}, and {pure} lacks it")
    assert not wrong, "\n".join(wrong)


def test_shapes_are_changed_in_place_only_where_the_table_says_so() -> None:
    for key in SCHEMAS:
        if has_tag(key, torch.Tag.inplace_view):
            assert OPS[key]["effect"] in ("rearrange", "reassign", "refused", "same"), key


def test_what_reads_sizes_alone_is_known() -> None:
    for key in MAPPED & SCHEMAS.keys():
        name = key.partition(".")[0].removeprefix("aten::")
        if name.endswith("_like") or name.startswith("new_"):
            assert OPS[key]["effect"] == "reads_sizes", key


# Elementwise operators that torch does not tag. Composite operators, which torch never tags, are not checked.
UNTAGGED = {
    **dict.fromkeys(["copy", "fill", "zero"], "each element of the result is of the other argument, or a number"),
    "__and__": "as bitwise_and",
    "__or__": "as bitwise_or",
    **dict.fromkeys(["floor_divide", "hardswish"], "torch tags its like, not this"),
    **dict.fromkeys(["masked_fill", "rsub"], "torch tags one overload of two"),
}


def is_composite(key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(key, "CompositeImplicitAutograd")


def test_pointwise_operators_are_elementwise() -> None:
    wrong = []
    for key in sorted(MAPPED & SCHEMAS.keys()):
        elementwise = OPS[key]["kind"] == "elementwise"
        if has_tag(key, torch.Tag.pointwise) and not elementwise:
            wrong.append(f"{key} is pointwise, and has no row that says so")
    assert not wrong, "\n".join(wrong)


def test_elementwise_operators_are_pointwise() -> None:
    wrong = [
        key
        for key in sorted(SCHEMAS)
        if OPS[key]["kind"] == "elementwise"
        and OPS[key]["mutation"] is None
        and not has_tag(key, torch.Tag.pointwise)
        and not is_composite(key)
        and key.partition(".")[0].removeprefix("aten::") not in UNTAGGED
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_made_from_numbers_is_a_factory() -> None:
    for key in sorted(MAPPED & SCHEMAS.keys()):
        schema = SCHEMAS[key]
        tensors = {a.name for a in schema.arguments if is_tensor(a)} - {"start", "end"}  # of linspace: numbers
        made = not tensors and any(a.name == "dtype" for a in schema.arguments)
        name = schema.name.removeprefix("aten::")
        assert (OPS[key]["kind"] == "factory") == (made and name not in NOT_CONTIGUOUS), key


# The strides of the first two are arguments. `normal` is here because the `out` variant of `normal.float_float` belongs
# to other overloads.
NOT_CONTIGUOUS = {"empty_strided", "empty_permuted", "normal"}

INTEGERS = (torch.int32, torch.int64)
FLOATS = (torch.float16, torch.float32, torch.float64)


def calls(op: torch._ops.OpOverload) -> Iterator[tuple[list[Any], torch.dtype]]:
    """Calls on the meta device: the operands that may promote, and the element type of the result."""
    arguments = op._schema.arguments
    tensors = sum(str(a.real_type) == "Tensor" for a in arguments)
    choices = (torch.bool, *INTEGERS, *FLOATS, *((torch.complex64,) if tensors == 1 else ()))
    for types, number in itertools.product(itertools.product(choices, repeat=tensors), (2, 1.5)):
        given: dict[str, Any] = {}
        operands: list[Any] = []
        rest = iter(types)
        for a in arguments:
            kind = str(a.real_type)
            if kind == "Tensor":
                given[a.name] = torch.empty(2, 3, dtype=next(rest), device="meta")
                operands.append(given[a.name])
            elif a.name in ("alpha", "value"):
                given[a.name] = 1
            elif kind in ("number", "Optional[number]"):
                given[a.name] = number
                operands.append(number)
            elif not a.has_default_value():
                given[a.name] = {"float": 0.5, "int": 1, "bool": False}.get(kind)
        try:
            result = op(**given)
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            continue  # not of these types
        if isinstance(result, torch.Tensor):
            yield operands, result.dtype


def promoted(operands: list[Any]) -> torch.dtype:
    tensors = [o for o in operands if isinstance(o, torch.Tensor)]
    numbers = [o for o in operands if not isinstance(o, torch.Tensor)]
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    for number in numbers:
        dtype = torch.result_type(torch.empty(1, dtype=dtype, device="meta"), number)
    return dtype


def expected(result: str, operands: list[Any]) -> torch.dtype | None:
    if result == "boolean":
        return torch.bool
    if not any(isinstance(o, torch.Tensor) for o in operands):
        return None
    if result == "same":
        return next(o.dtype for o in operands if isinstance(o, torch.Tensor))
    dtype = promoted(operands)
    is_float = dtype.is_floating_point or dtype.is_complex
    return torch.float32 if result == "promoted_float" and not is_float else dtype


# For these calls the type differs.
OTHER_TYPES = {"aten::pow.Tensor_Tensor": "of bools"}


@pytest.mark.parametrize("result", ["same", "promoted", "promoted_float", "boolean"])
def test_element_types(result: str) -> None:
    wrong, tried = [], 0
    for key in sorted(MAPPED & SCHEMAS.keys()):
        if OPS[key]["result"] != result:
            continue
        for operands, dtype in calls(overload(key)):
            want = expected(result, operands)
            tried += want is not None
            if want is not None and want != dtype and key not in OTHER_TYPES:
                wrong.append(f"{key} of {[getattr(o, 'dtype', o) for o in operands]} is {dtype}, not {want}")
    assert tried > 100
    assert not wrong, "\n".join(wrong[:20])


# These arguments multiply or divide the result; the mapping refuses complex numbers for them.
FACTORS = {"alpha", "spacing"}

# The rules that determine the result; for the others, code in lowering/complex determines it.
CHECKED = ("parts", "conjugated_parts", "truth", "magnitude")


def complex_calls(op: torch._ops.OpOverload) -> Iterator[dict[str, Any]]:
    """Calls of complex numbers and of complex tensors, which have one shape; an element of each is zero."""
    generator = torch.Generator().manual_seed(0)

    def tensor(shape: tuple[int, ...]) -> torch.Tensor:
        result = torch.randn(shape, dtype=torch.complex128, generator=generator)
        result.view(-1)[0] = 0
        return result

    simple = {"number": 2 + 1j, "float": 0.5, "int": 0, "bool": False, "List[int]": [0], "str": "sum"}
    for shape in ((3, 3), (3,)):
        given: dict[str, Any] = {}
        for a in op._schema.arguments:
            kind = str(a.real_type)
            if kind == "Tensor":
                given[a.name] = tensor(shape)
            elif kind == "List[Tensor]":
                given[a.name] = [tensor(shape), tensor(shape)]
            elif not a.has_default_value():
                given[a.name] = 2 if a.name in FACTORS else simple.get(kind)
        yield given


def by_rule(rule: str, op: torch._ops.OpOverload, given: dict[str, Any]) -> list[torch.Tensor]:
    """The results for complex numbers, computed by the rule from the results for real numbers."""

    def call(part: Callable[[Any], Any]) -> list[torch.Tensor]:
        def each(value: Any) -> Any:
            if isinstance(value, list):
                return [each(v) for v in value]
            return part(value) if isinstance(value, (torch.Tensor, complex)) else value

        return as_list(op(**{name: each(value) for name, value in given.items()}))

    if rule == "truth":
        return call(lambda x: x != 0)
    if rule == "magnitude":
        return call(abs)
    sign = -1 if rule == "conjugated_parts" else 1
    parts = zip(call(lambda x: x.real), call(lambda x: x.imag), strict=True)
    return [torch.complex(real, sign * imaginary) for real, imaginary in parts]


def as_list(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


@pytest.mark.filterwarnings("ignore")  # operators that torch calls deprecated
def test_complex_rules() -> None:
    wrong, tried = [], set()
    for key in sorted(MAPPED & SCHEMAS.keys()):
        rule, op = OPS[key]["complex"], overload(key)
        if rule not in CHECKED or OPS[key]["mutation"]:
            continue
        for given in complex_calls(op):
            try:
                want = as_list(op(**given))
                got = by_rule(rule, op, given)
            except (RuntimeError, TypeError, NotImplementedError, ValueError, IndexError):
                continue  # not of these types or shapes
            if rule in ("parts", "conjugated_parts") and not all(w.is_complex() for w in want):
                continue  # made only of sizes
            tried.add(key)
            try:
                torch.testing.assert_close(got, want)
            except AssertionError as e:
                wrong.append(f"{key} is not computed by the rule {rule}: {str(e).splitlines()[0]}")
    assert len(tried) > 100
    assert not wrong, "\n".join(wrong)
