"""`opbridge doctor` of a Python factory, its JSON, and the mappings and projects that it writes."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import IN_THIS_PYTHON, OPBRIDGE, opbridge, refusal

import opbridge as package

SCRIPT = """
import torch

from helper import SCALE


@torch.library.custom_op("fix_test::shifted", mutates_args=())
def shifted(x: torch.Tensor, parts: list[torch.Tensor], scale: float, dims: list[int], rows: int,
            mode: str | None = None, exact: bool = True) -> torch.Tensor:
    return (x * scale + sum(parts)).sum(dims) + (rows if exact else 0)


@shifted.register_fake
def _(x, parts, scale, dims, rows, mode=None, exact=True):
    return x.sum(dims)


class Model(torch.nn.Module):
    def forward(self, x):
        y = shifted(x, [x, x], SCALE, [1], 3, "up")
        return shifted(x, [x], 0.5, [1], 2, None, False) + y


def make_model():
    return Model(), (torch.randn(2, 4),)


def broken():
    raise ValueError("no weights here")


def program():
    return torch.export.export(Model(), (torch.randn(2, 4),))


number = 3
"""

OWN_MAPPINGS = """
import opbridge, torch


@opbridge.symbolic("aten::sinh")
def sinh(g, x):
    return g.op("Exp", x)


@opbridge.symbolic("aten::cosh")
def cosh(g, x):
    return g.op("Cosh", x), x


@opbridge.symbolic("aten::tanh")
def tanh(g, x):
    return g.op("Tanh", x) if len(g.result().dims) == 1 else [g.op("Tanh", x)] * 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def symbolic(g, x):
        return g.op("Add", x, x)


def make_model():
    return lambda x: (Doubled.apply(x.sinh()) + x.tanh(), x.cosh(), x[:, None].tanh()), (torch.rand(3),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "helper.py").write_text("SCALE = 2.5\n")
    return folder


def examined(folder: Path, name: str, *options: Any) -> subprocess.CompletedProcess[str]:
    return opbridge("doctor", f"{folder / 'script.py'}:{name}", *options, env=IN_THIS_PYTHON)


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_factory(folder: Path) -> None:
    done = examined(folder, "make_model")
    assert done.returncode == 1, done.stderr
    assert "fix_test::shifted  2      missing" in done.stdout
    assert "aten::add.Tensor   1      there    Add      ONNX Runtime" in done.stdout
    assert "def shifted(g, x, parts, scale, dims, rows, mode, exact):" in done.stdout
    assert (
        'return g.op("fix_test::shifted", x, *parts, g.sizes(dims), g.sizes([rows]), scale_f=scale, mode_s=mode, '
        "exact_i=exact)" in done.stdout
    )
    assert examined(folder, "program").stdout.splitlines()[2:6] == done.stdout.splitlines()[2:6]


def test_json(folder: Path) -> None:
    done = examined(folder, "make_model", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["ok"], report["target"], report["opset"]) == (False, "onnxruntime", 21)
    shifted, add = report["operators"]
    assert shifted == {
        "operator": "fix_test::shifted",
        "calls": 2,
        "refused": 0,
        "mapping": None,
        "becomes": [],
        "run_by": [],
    }
    assert add["mapping"] == "bundled"
    assert add["run_by"] == ["ONNX Runtime"]
    (missing,) = report["missing"]
    assert missing["schema"] == (
        "fix_test::shifted(Tensor x, Tensor[] parts, float scale, SymInt[] dims, SymInt rows, str? mode=None, "
        "bool exact=True) -> Tensor"
    )
    assert len(missing["locations"]) == 2


def test_a_mapping_of_the_user(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(OWN_MAPPINGS)
    done = examined(tmp_path, "make_model")
    assert done.returncode == 1, done.stderr
    table = [" ".join(line.split()) for line in done.stdout.splitlines()[3:8]]
    assert table == [
        "aten::sinh 1 yours Exp ONNX Runtime",
        "autograd_function::Doubled 1 yours Add ONNX Runtime",
        "aten::tanh 2 yours, refused for 1 of 2 Tanh ONNX Runtime",
        "aten::add.Tensor 1 there Add ONNX Runtime",
        "aten::cosh 1 yours, refused",
    ]
    report = json.loads(examined(tmp_path, "make_model", "--json").stdout)
    assert [each["mapping"] for each in report["operators"][:5]] == ["user", "user", "user", "bundled", "user"]


def test_a_pt2_has_the_same_report(folder: Path, tmp_path: Path) -> None:
    torch.export.save(imported_script(folder).program(), tmp_path / "m.pt2")
    done = opbridge("doctor", tmp_path / "m.pt2", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    (missing,) = report["missing"]
    assert missing["schema"] == (
        "fix_test::shifted(Tensor x, Tensor[] parts, float scale, int[] dims, int rows, str? mode, bool exact) "
        "-> Tensor"
    )


_scripts: dict[Path, Any] = {}


def imported_script(folder: Path) -> Any:
    """The script, imported once, since it defines an operator."""
    if folder not in _scripts:
        sys.path.insert(0, str(folder))
        _scripts[folder] = imported(folder / "script.py")
        sys.path.remove(str(folder))
    return _scripts[folder]


BODY = """    sums = x
    total = g.op("Mul", x, scale)
    for part in parts:
        total = g.op("Add", total, part)
    reduced = g.op("ReduceSum", total, torch.tensor(dims), keepdims_i=0)
    return g.op("Add", reduced, float(rows)) if exact else reduced
"""


def test_a_mapping_that_is_completed_is_right(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "fixes.py"
    done = examined(folder, "make_model", "--fix", file)
    assert done.returncode == 1, done.stderr
    assert f"{file}: 1 mapping to complete" in done.stdout
    text = file.read_text()
    script = imported_script(folder)
    model, args = script.make_model()
    try:
        imported(file)
        with pytest.raises(package.UnsupportedError, match="has no body yet"):
            package.export(model, args)
        package.unregister_custom_op_symbolic("fix_test::shifted", 21)
        refusal = '    g.refuse("its mapping in this file has no body yet")\n'
        assert text.count(refusal) == 1
        file.write_text(text.replace(refusal, BODY).replace("import opbridge\n", "import opbridge\nimport torch\n"))
        imported(file)
        assert package.export(model, args, verify=True).verification.ok
        # the node that the file suggests has every argument
        package.unregister_custom_op_symbolic("fix_test::shifted", 21)
        (suggested,) = [line for line in text.splitlines() if line.startswith("#     return g.op(")]
        file.write_text(text.replace(refusal, suggested.removeprefix("# ") + "\n"))
        imported(file)
        program = package.export(model, args)
        node = next(node for node in program.model_proto.graph.node if node.domain == "fix_test")
        assert len(node.input) == 5
        assert {attribute.name for attribute in node.attribute} == {"scale", "mode", "exact"}
    finally:
        package.unregister_custom_op_symbolic("fix_test::shifted", 21)


def test_nothing_that_exists_is_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "fixes.py").write_text("mine")
    done = examined(folder, "make_model", "--fix", tmp_path / "fixes.py")
    assert done.returncode == 2
    assert "already exists" in done.stderr
    assert (tmp_path / "fixes.py").read_text() == "mine"


def test_projects_instead_of_mappings(folder: Path, tmp_path: Path) -> None:
    torch.export.save(imported_script(folder).program(), tmp_path / "m.pt2")
    options = ["--fix", tmp_path / "fixes.py", "--projects", tmp_path / "projects"]
    done = opbridge("doctor", tmp_path / "m.pt2", *options)
    assert done.returncode == 1
    source = (tmp_path / "projects" / "fix_test_shifted" / "shifted.cc").read_text()
    assert (
        "fix_test::shifted(Tensor x, Tensor[] parts, float scale, int[] dims, int rows, str? mode, bool exact)"
        in source
    )
    assert not (tmp_path / "fixes.py").exists()
    assert "No mapping is missing" in done.stdout


def test_operators_of_one_name_and_names_that_python_has(tmp_path: Path) -> None:
    for namespace in ("fix_first", "fix_second"):
        library = torch.library.Library(namespace, "DEF")
        library.define("twin(Tensor lambda, Device device, ScalarType dtype) -> (Tensor, Tensor)")
        library.impl("twin", lambda x, device, dtype: (x + 1, x - 1), "CompositeExplicitAutograd")
        LIBRARIES.append(library)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a, b = torch.ops.fix_first.twin(x, torch.device("cpu"), torch.float16)
            c, d = torch.ops.fix_second.twin(x, torch.device("cpu"), torch.float16)
            return a + b + c + d

    torch.export.save(torch.export.export(Model(), (torch.randn(2),)), tmp_path / "m.pt2")
    done = opbridge("doctor", tmp_path / "m.pt2", "--fix", tmp_path / "fixes.py")
    assert done.returncode == 1, done.stderr
    module = imported(tmp_path / "fixes.py")
    for namespace in ("fix_first", "fix_second"):
        package.unregister_custom_op_symbolic(f"{namespace}::twin", 21)
    assert callable(module.twin)
    assert callable(module.twin_1)
    text = (tmp_path / "fixes.py").read_text()
    assert "def twin(g, arg_lambda, device, dtype):" in text
    assert "outputs=2" in text


DEFAULTS = """
import torch

library = torch.library.Library("fix_defaults", "DEF")
library.define("mix(Tensor a, Tensor? b, Tensor[]? parts=None, SymInt? rows=None, *, float alpha=1.0, str mode='up', "
               "Layout? layout=None) -> Tensor[]")
library.impl("mix", lambda a, b, parts=None, rows=None, *, alpha=1.0, mode="", layout=None: [a + 1, a + 2, a + 3],
             "CompositeExplicitAutograd")


class Model(torch.nn.Module):
    def forward(self, x):
        a, b, c = torch.ops.fix_defaults.mix(x, None)
        return a + b + c


def make_model():
    return Model(), (torch.ones(2),)


def save(path):
    torch.export.save(torch.export.export(*make_model()), path)
"""


def test_arguments_at_their_defaults_and_none(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(DEFAULTS)
    script = imported(tmp_path / "script.py")
    script.save(tmp_path / "m.pt2")
    head = "def mix(g, a, b, parts, rows, alpha, mode, layout):"
    node = (
        'g.op("fix_defaults::mix", a, b, *(parts or []), None if rows is None else g.sizes([rows]), outputs=3, '
        "alpha_f=alpha, mode_s=mode, layout_s=None if layout is None else str(layout))"
    )
    lacks = "A .pt2 file lacks the arguments that all calls leave at their defaults"

    done = examined(tmp_path, "make_model", "--fix", tmp_path / "fixes.py")
    assert done.returncode == 1, done.stderr
    text = (tmp_path / "fixes.py").read_text()
    for shown in (done.stdout, text):
        assert head in shown
        assert f"return {node}" in shown
        assert lacks not in shown
    assert json.loads(examined(tmp_path, "make_model", "--json").stdout)["missing"][0]["schema_is_known"]
    model, args = script.make_model()
    with pytest.raises(package.UnsupportedError) as error:
        package.export(model, args)
    assert head in str(error.value)
    assert lacks not in str(error.value)

    done = opbridge("doctor", tmp_path / "m.pt2", "--fix", tmp_path / "of_pt2.py")
    assert done.returncode == 1, done.stderr
    of_pt2 = (tmp_path / "of_pt2.py").read_text()
    for shown in (done.stdout, of_pt2):
        assert "def mix(g, a, b):" in shown
        assert 'return g.op("fix_defaults::mix", a, b, outputs=3)' in shown
        assert lacks in shown
        assert "opbridge doctor script.py:make_model" in shown
    assert not json.loads(opbridge("doctor", tmp_path / "m.pt2", "--json").stdout)["missing"][0]["schema_is_known"]
    refused = opbridge("convert", tmp_path / "m.pt2", tmp_path / "m.onnx").stderr
    assert lacks in refused

    refusal = '    g.refuse("its mapping in this file has no body yet")\n'
    for name, file in (("fixes", text), ("of_pt2", of_pt2)):
        (suggested,) = [line for line in file.splitlines() if line.startswith("#     return g.op(")]
        (tmp_path / f"{name}.py").write_text(file.replace(refusal, suggested.removeprefix("# ") + "\n"))
        try:
            imported(tmp_path / f"{name}.py")
            proto = package.export(model, args).model_proto
        finally:
            package.unregister_custom_op_symbolic("fix_defaults::mix", 21)
        (made,) = [each for each in proto.graph.node if each.domain == "fix_defaults"]
        assert len(made.output) == 3


SCHEMAS = {
    "quoted": 'Tensor a, str mode="it\'s $HOME"',
    "starred": "Tensor a, *, float b=1.0",
    "holes": "Tensor a, Tensor?[] b",
    "scalar": "Tensor a, Scalar b=1",
    "layout": "Tensor a, Layout? b=None",
    "flags": "Tensor a, bool[3] b",
}
LINES = f"""
import torch

library = torch.library.Library("fix_lines", "DEF")
for name, arguments in {SCHEMAS!r}.items():
    library.define(f"{{name}}({{arguments}}) -> Tensor")
    library.impl(name, lambda a, *_, **__: a + 1, "CompositeExplicitAutograd")


class Model(torch.nn.Module):
    def forward(self, x):
        ops = torch.ops.fix_lines
        x = ops.layout(ops.scalar(ops.starred(ops.quoted(x))))
        return ops.flags(ops.holes(x, [None, x]), [True, False, True])


def make_model():
    return Model(), (torch.ones(2),)
"""


def test_new_op_takes_the_schemas_that_the_file_offers_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LINES)
    done = examined(tmp_path, "make_model", "--fix", tmp_path / "fixes.py")
    assert done.returncode == 1, done.stderr
    text = (tmp_path / "fixes.py").read_text()
    assert text.count("\n@opbridge.symbolic(") == len(SCHEMAS)
    offers = [line for line in text.splitlines() if line.startswith("# An operator with this kernel: ")]
    offered = [shlex.split(offer.partition(": ")[2]) for offer in offers]
    for name, arguments in SCHEMAS.items():
        words = ["opbridge", "new-op", f"fix_lines::{name}({arguments}) -> Tensor"]
        done = opbridge(*words[1:], "--directory", tmp_path / name)
        assert (words in offered) == (done.returncode == 0)
        if done.returncode != 0:
            why = done.stderr.rpartition("-> Tensor: ")[2]
            assert why
            assert f"# `opbridge new-op` writes no operator of this schema: {why}" in text
    assert len(offered) == 2


LIBRARIES: list[Any] = []


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("broken", "fails with ValueError: no weights here"),
        ("absent", "has no function 'absent'"),
        ("number", "has no function 'number'"),
    ],
)
def test_errors_have_no_traceback(folder: Path, name: str, reason: str) -> None:
    done = examined(folder, name)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    if name == "broken":
        assert "script.py:" in done.stderr
        assert "in broken" in done.stderr


def test_what_is_no_script(tmp_path: Path) -> None:
    done = opbridge("doctor", "nothing.py:make", env=IN_THIS_PYTHON)
    assert (done.returncode, done.stderr) == (2, "opbridge: no such file: nothing.py\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    done = opbridge("doctor", f"{tmp_path / 'wrong.py'}:f", env=IN_THIS_PYTHON)
    assert done.returncode == 2
    assert "SyntaxError" in done.stderr
    assert "wrong.py:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_name_of_python_is_none(folder: Path) -> None:
    done = opbridge("doctor", "nothing.py:make", env={**IN_THIS_PYTHON, "OPBRIDGE_PYTHON": ""})
    assert "cannot be started" not in done.stderr


def test_files_of_other_kinds(tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("")
    assert f"as in {tmp_path / 'ops.py'}:make_model" in refusal("doctor", tmp_path / "ops.py")
    (tmp_path / "m.onnx").write_bytes(b"\x08\x0a")
    line = refusal("doctor", tmp_path / "m.onnx")
    assert "m.onnx is not a .pt2 file" in line
    assert "script.py:make_model" in line
    (tmp_path / "m.pt2").write_text("text")
    assert "not a zip archive, as a .pt2 file must be" in refusal("doctor", tmp_path / "m.pt2")


def test_one_operator_in_one_call(tmp_path: Path) -> None:
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)), tmp_path / "m.pt2")
    assert "m.pt2: 1 operator in 1 call, to opset" in opbridge("doctor", tmp_path / "m.pt2").stdout


def test_no_python(folder: Path) -> None:
    done = opbridge("doctor", f"{folder / 'script.py'}:make_model", env={"OPBRIDGE_PYTHON": "/nowhere/python"})
    assert done.returncode == 2
    assert "/nowhere/python cannot be started" in done.stderr


EXITS = """
import subprocess
import sys

import torch

print("imported")


class Model(torch.nn.Module):
    def forward(self, x):
        print("called")
        return x + 1


class Leaving(torch.nn.Module):
    def forward(self, x):
        sys.exit(0)


def printing():
    print("made")
    sys.stdout.buffer.write(b"bytes")
    subprocess.run(["echo", "from another process"], check=True)
    return Model(), (torch.ones(2),)


def leaving():
    return Leaving(), (torch.ones(2),)


def exits():
    sys.exit(0)


def exits_with_text():
    raise SystemExit("bye")


def interrupted():
    raise KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("exits", 2, "exits fails with SystemExit: 0\n  at "),
        ("exits_with_text", 2, "exits_with_text fails with SystemExit: bye\n  at "),
        ("leaving", 2, "SystemExit: 0"),
        ("interrupted", 130, "opbridge: interrupted\n"),
    ],
)
def test_a_script_that_exits_has_no_report(tmp_path: Path, name: str, status: int, reason: str) -> None:
    (tmp_path / "script.py").write_text(EXITS)
    done = examined(tmp_path, name)
    assert (done.returncode, done.stdout) == (status, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_script_prints_is_no_part_of_the_report(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(EXITS)
    done = examined(tmp_path, "printing", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
    for text in ("imported", "made", "bytes", "called", "from another process"):
        assert text in done.stderr


def test_a_report_that_cannot_be_printed(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [OPBRIDGE, "doctor", f"{folder / 'script.py'}:make_model"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **IN_THIS_PYTHON},
        )
    assert done.returncode == 2
    assert done.stderr == "opbridge: cannot print: No space left on device\n"
