#!/usr/bin/env python3
"""Write the ONNX operator schemas of the installed onnx package as constexpr C++ tables.

The output is included by src/onnx/schema_table.cc, whose header declares the row types. Rows refer to each
other by index, never by pointer, so that the tables need no relocation. Equal strings and equal runs of rows
are stored once: consecutive versions of an operator share most of theirs.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import onnx
from onnx import AttributeProto, TensorProto, defs, helper

KINDS = {number: name.lower() for name, number in AttributeProto.AttributeType.items()}  # enumerators of AttributeKind
KINDS |= {AttributeProto.FLOAT: "float_", AttributeProto.INT: "int_"}
NON_TENSOR_BITS = {"sparse_tensor": 60, "seq": 61, "optional": 62, "map": 63}  # TypeSet in schema_table.h


class Text:
    """Concatenates strings, each stored once."""

    def __init__(self) -> None:
        self.bytes = b""

    def add(self, text: str | bytes) -> str:
        data = text.encode() if isinstance(text, str) else text
        begin = self.bytes.find(data)
        if begin < 0:
            begin = len(self.bytes)
            self.bytes += data
        return f"{{{begin},{len(data)}}}"

    def literal(self) -> str:
        def escape(byte: int) -> str:
            char = chr(byte)
            return char if 32 <= byte < 127 and char not in '"\\?' else f"\\{byte:03o}"

        chunks = (self.bytes[i : i + 100] for i in range(0, len(self.bytes), 100))
        return "\n".join(f'"{"".join(map(escape, chunk))}"' for chunk in chunks)


class Table:
    """The rows of a C++ array. A run of rows that is already present is not added again."""

    def __init__(self, cpp_type: str, name: str) -> None:
        self.cpp_type = cpp_type
        self.name = name
        self.rows: list[str] = []
        self.begins: dict[tuple[str, ...], int] = {(): 0}

    def add(self, rows: Iterable[str]) -> str:
        run = tuple(rows)
        begin = self.begins.setdefault(run, len(self.rows))
        if begin == len(self.rows):
            self.rows.extend(run)
        return f"{{{begin},{len(run)}}}"

    def definition(self) -> str:
        rows = self.rows or ["{}"]  # C++ has no empty arrays
        lines: list[str] = []
        for row in rows:
            if lines and len(lines[-1]) + len(row) < 115:
                lines[-1] += row + ","
            else:
                lines.append(row + ",")
        return f"constexpr {self.cpp_type} {self.name}[] = {{\n" + "\n".join(lines) + "\n};\n"


def type_bit(type_str: str) -> int:
    """The bit of a type such as "tensor(float)" in a TypeSet."""
    kind, _, rest = type_str.partition("(")
    if kind == "tensor":
        return 1 << int(TensorProto.DataType.Value(rest.rstrip(")").upper()))
    if kind not in NON_TENSOR_BITS:
        raise SystemExit(f"gen_onnx_schemas.py: a type of an unknown kind: {type_str}")
    return 1 << NON_TENSOR_BITS[kind]


def type_set(type_strs: Iterable[str]) -> str:
    bits = 0
    for type_str in type_strs:
        bits |= type_bit(type_str)
    return f"{{{bits:#x}}}"


def float_literal(value: float) -> str:
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    text = f"{value:.9g}"  # nine digits give back every float32
    return (text if "." in text or "e" in text else text + ".0") + "f"


def boolean(value: bool) -> str:
    return "true" if value else "false"


def int_literal(value: int) -> str:
    return str(value) if value > -(2**63) else "INT64_MIN"


class Generator:
    def __init__(self) -> None:
        self.text = Text()
        self.types = Table("TypeParameter", "types_table")
        self.formals = Table("FormalParameter", "formals_table")
        self.ints = Table("std::int64_t", "ints_table")
        self.floats = Table("float", "floats_table")
        self.strings = Table("Text", "strings_table")
        self.attributes = Table("AttributeSchema", "attributes_table")
        self.schemas = Table("OpSchema", "schemas_table")
        self.operators = Table("Operator", "operators_table")
        self.ir_versions = Table("std::uint8_t", "ir_versions_table")
        self.domains = Table("Domain", "domains_table")

    def add_formals(self, formals: Sequence[Any], type_index: dict[str, int]) -> str:
        return self.formals.add(
            f"{{{self.text.add(f.name)},{type_index[f.type_str]},{f.option.name.lower()},"
            f"{boolean(f.is_homogeneous)},{f.min_arity}}}"
            for f in formals
        )

    def add_default(self, default: AttributeProto) -> str:
        value: Any = helper.get_attribute_value(default) if default.type else []
        values = value if isinstance(value, Sequence) and not isinstance(value, bytes) else [value]
        if default.type in (AttributeProto.INT, AttributeProto.INTS):
            return self.ints.add(map(int_literal, values))
        if default.type in (AttributeProto.FLOAT, AttributeProto.FLOATS):
            return self.floats.add(map(float_literal, values))
        if default.type in (AttributeProto.STRING, AttributeProto.STRINGS):
            return self.strings.add(map(self.text.add, values))
        return "{0,0}"  # no default, or one that the table omits (a tensor, a graph)

    def add_attribute(self, attribute: Any) -> str:
        default = attribute.default_value
        return (
            f"{{{self.text.add(attribute.name)},{KINDS[attribute.type.value]},{boolean(attribute.required)},"
            f"{boolean(default.type != AttributeProto.UNDEFINED)},{self.add_default(default)}}}"
        )

    def add_schema(self, schema: Any, domain_index: int) -> None:
        # Type variables come first, then the types that parameters name directly ("tensor(int64)").
        type_index: dict[str, int] = {}
        type_rows: list[str] = []
        formals = [*schema.inputs, *schema.outputs]
        variables = [(t.type_param_str, t.allowed_type_strs) for t in schema.type_constraints]
        for name, types in variables + [(f.type_str, f.types) for f in formals]:
            if name not in type_index:
                type_index[name] = len(type_index)
                type_rows.append(f"{{{self.text.add(name)},{type_set(types)}}}")

        attributes = [self.add_attribute(a) for _, a in sorted(schema.attributes.items())]
        self.schemas.rows.append(
            f"{{{self.text.add(schema.name)},{domain_index},{boolean(schema.deprecated)},{schema.since_version},"
            f"{schema.min_input},{schema.max_input},{schema.min_output},{schema.max_output},"
            f"{self.add_formals(schema.inputs, type_index)},{self.add_formals(schema.outputs, type_index)},"
            f"{self.types.add(type_rows)},{self.attributes.add(attributes)}}}"
        )

    def add_domain(self, domain: str, schemas: Sequence[Any]) -> None:
        domain_index = len(self.domains.rows)
        newest = max(s.since_version for s in schemas)
        if domain == "":
            newest = max(newest, defs.onnx_opset_version())
        first_operator = len(self.operators.rows)
        for name, versions in groupby(schemas, key=lambda s: s.name):
            first = len(self.schemas.rows)
            for schema in versions:
                self.add_schema(schema, domain_index)
            count = len(self.schemas.rows) - first
            self.operators.rows.append(f"{{{self.text.add(name)},{{{first},{count}}}}}")
        operators = f"{{{first_operator},{len(self.operators.rows) - first_operator}}}"
        ir_versions = self.ir_versions.add(str(ir_version(domain, opset)) for opset in range(1, newest + 1))
        self.domains.rows.append(f"{{{self.text.add(domain)},{newest},{operators},{ir_versions}}}")

    def run(self) -> str:
        everything = defs.get_all_schemas_with_history()
        schemas = sorted(everything, key=lambda s: (s.domain, s.name, s.since_version))
        for domain, group in groupby(schemas, key=lambda s: s.domain):
            self.add_domain(domain, list(group))
        tables = [self.types, self.formals, self.ints, self.floats, self.strings, self.attributes]
        tables += [self.schemas, self.operators, self.ir_versions, self.domains]
        return (
            "// Written by tools/gen_onnx_schemas.py.\n\n"
            f'constexpr std::string_view built_from = "{onnx.__version__}";\n\n'
            f"constexpr char text_bytes[] =\n{self.text.literal()};\n\n" + "\n".join(t.definition() for t in tables)
        )


def ir_version(domain: str, opset: int) -> int:
    """The first IR version whose models may import this opset; 3 if onnx does not state it."""
    known = helper.OP_SET_ID_VERSION_MAP
    later = [v for (d, o), v in known.items() if d == (domain or "ai.onnx") and o >= opset]
    return min(later, default=3)


def write_if_changed(path: Path, content: str) -> None:
    if path.exists() and path.read_text() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("output", type=Path, help="the file to write; not touched if it would not change")
    write_if_changed(parser.parse_args().output, Generator().run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
