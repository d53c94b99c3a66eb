"""The compiled ONNX schema table agrees with the onnx package for every operator at every opset."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import AttributeProto, TensorProto, defs, helper

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("OPBRIDGE_BUILD_DIR", ROOT / "build" / "release"))
DUMP = BUILD / "tests" / "cpp" / "opbridge_dump_onnx_schemas"
GENERATOR = ROOT / "tools" / "gen_onnx_schemas.py"

Schema = Any
Row = dict[str, Any]
Key = tuple[str, str, int]


def key_of(schema: Schema) -> Key:
    return schema.domain, schema.name, schema.since_version


EXPECTED: dict[Key, Schema] = {key_of(s): s for s in defs.get_all_schemas_with_history()}


@pytest.fixture(scope="module")
def lines() -> list[Row]:
    assert DUMP.exists(), f"build the target opbridge_dump_onnx_schemas first: {DUMP} is missing"
    output = subprocess.run([DUMP], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


@pytest.fixture(scope="module")
def table(lines: list[Row]) -> dict[Key, Row]:
    rows = lines[1:]
    result = {(r["domain"], r["name"], r["since_version"]): r for r in rows}
    assert len(result) == len(rows)
    return result


def test_comes_from_the_installed_onnx(lines: list[Row]) -> None:
    assert lines[0] == {"onnx_version": onnx.__version__}


def test_holds_every_version_of_every_operator(table: dict[Key, Row]) -> None:
    assert table.keys() == EXPECTED.keys()


def test_every_lookup_finds_what_onnx_finds(table: dict[Key, Row]) -> None:
    versions: dict[tuple[str, str], list[int]] = defaultdict(list)
    for domain, name, since in EXPECTED:
        versions[domain, name].append(since)
    newest = {domain: max(s for d, _, s in EXPECTED if d == domain) for domain, _ in versions}
    newest[""] = defs.onnx_opset_version()
    for (domain, name, _), row in table.items():
        assert row["newest_opset"] == newest[domain]
        assert row["first_version"] == min(versions[domain, name]), (domain, name)
        known = versions[domain, name]
        want = [max((v for v in known if v <= o), default=0) for o in range(newest[domain] + 2)]
        assert row["lookups"] == want, (domain, name)
        for opset in range(1, newest[domain] + 1):
            if want[opset]:
                assert defs.get_schema(name, opset, domain).since_version == want[opset]


def test_arities_and_deprecation(table: dict[Key, Row]) -> None:
    for key, schema in EXPECTED.items():
        got = [table[key][n] for n in ("min_inputs", "max_inputs", "min_outputs", "max_outputs")]
        assert got == [schema.min_input, schema.max_input, schema.min_output, schema.max_output], key
        assert table[key]["deprecated"] == schema.deprecated, key


def allowed_bits(types: set[str]) -> int:
    others = {"sparse_tensor": 1 << 60, "seq": 1 << 61, "optional": 1 << 62, "map": 1 << 63}
    bits = 0
    for text in types:
        kind = text[: text.index("(")]
        bits |= others[kind] if kind in others else 1 << TensorProto.DataType.Value(text[7:-1].upper())
    return bits


def test_inputs_and_outputs(table: dict[Key, Row]) -> None:
    options = [defs.OpSchema.FormalParameterOption.Single]
    options += [defs.OpSchema.FormalParameterOption.Optional, defs.OpSchema.FormalParameterOption.Variadic]
    for key, schema in EXPECTED.items():
        for side in ("inputs", "outputs"):
            want = [
                {
                    "name": f.name,
                    "type": f.type_str,
                    "allowed": allowed_bits(f.types),
                    "option": options.index(f.option),
                    "homogeneous": f.is_homogeneous,
                    "min_arity": f.min_arity,
                }
                for f in getattr(schema, side)
            ]
            assert table[key][side] == want, (key, side)


def default_of(attribute: Any) -> list[Any]:
    if not attribute.default_value.type:
        return []
    value = helper.get_attribute_value(attribute.default_value)
    values = value if isinstance(value, list) else [value]
    return [v.decode() if isinstance(v, bytes) else v for v in values]


def as_float32(value: Any) -> Any:
    return struct.unpack("f", struct.pack("f", value))[0] if isinstance(value, float) else value


def test_attributes(table: dict[Key, Row]) -> None:
    simple = {AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT, AttributeProto.FLOATS}
    simple |= {AttributeProto.STRING, AttributeProto.STRINGS}
    for key, schema in EXPECTED.items():
        rows = {r["name"]: r for r in table[key]["attributes"]}
        assert rows.keys() == schema.attributes.keys(), key
        assert list(rows) == sorted(rows), key
        for name, attribute in schema.attributes.items():
            row = rows[name]
            assert row["kind"] == attribute.type.value, (key, name)
            assert row["required"] == attribute.required, (key, name)
            assert row["has_default"] == bool(attribute.default_value.type), (key, name)
            if attribute.type.value in simple:
                assert [as_float32(v) for v in row["default"]] == default_of(attribute), (key, name)
            else:
                assert row["default"] == [], (key, name)


def test_ir_versions(table: dict[Key, Row]) -> None:
    checked = set()
    for (domain, _, _), row in table.items():
        for opset, ir_version in enumerate(row["ir_versions"], start=1):
            if (domain or "ai.onnx", opset) in helper.OP_SET_ID_VERSION_MAP:
                opset_id = helper.make_opsetid(domain, opset)
                assert ir_version == helper.find_min_ir_version_for([opset_id]), (domain, opset)
                checked.add((domain, opset))
    assert {("", 13), ("", defs.onnx_opset_version()), ("ai.onnx.ml", 3)} <= checked


def test_the_generator_writes_the_same_again_and_only_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first.inc", tmp_path / "new" / "second.inc"
    for path in (first, second):
        subprocess.run([sys.executable, GENERATOR, path], check=True)
    assert first.read_bytes() == second.read_bytes()
    os.utime(first, (1, 1))
    subprocess.run([sys.executable, GENERATOR, first], check=True)
    assert first.stat().st_mtime == 1, "an unchanged table must not be written again"
    first.write_text("something else")
    subprocess.run([sys.executable, GENERATOR, first], check=True)
    assert first.read_bytes() == second.read_bytes()
    assert [p.name for p in sorted(tmp_path.iterdir())] == ["first.inc", "new"], "no temporary file may stay"
