"""opbridge new-op: the project that it writes passes its own tests and can be installed, as a user would do it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command import OPBRIDGE, ROOT

SCHEMA = "custom::my_op(Tensor a, Tensor b, float alpha=1.0) -> Tensor"

pytestmark = pytest.mark.skipif(not OPBRIDGE.exists(), reason="the command is not built")


def new_op(folder: Path, schema: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([OPBRIDGE, "new-op", schema], cwd=folder, capture_output=True, text=True)


def run(folder: Path, *command: str, path: tuple[Path, ...] = ()) -> str:
    environment = {
        **os.environ,
        "OPBRIDGE_CACHE": str(folder.parent / "cache"),
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT / "python", *path))),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    text = done.stdout.decode()
    assert done.returncode == 0, text
    return text


def test_project_tests_itself_and_installs(tmp_path: Path) -> None:
    assert new_op(tmp_path, SCHEMA).returncode == 0
    project = tmp_path / "my_op"
    assert "6 passed" in run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider")

    site = tmp_path / "site"
    pip = "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--target", str(site), "."
    run(project, *pip)
    call = "torch.ops.custom.my_op(torch.ones(2), torch.ones(2)).tolist()"
    use = f"import torch, custom_my_op; print(custom_my_op.__file__, {call})"
    text = run(tmp_path / "cache", "-c", use, path=(site,))
    assert text.split(maxsplit=1) == [str(site / "custom_my_op/__init__.py"), "[1.0, 1.0]\n"]


def test_the_next_steps_name_pages_that_exist(tmp_path: Path) -> None:
    printed = new_op(tmp_path, SCHEMA).stdout
    assert "tests/test_my_op.py" in printed
    assert "my_op/README.md" in printed
    readme = " ".join((tmp_path / "my_op/README.md").read_text().split())
    named = re.findall(r'"([^"]+)"[^"]*?\(`([\w/-]+)\.html`\)', readme)
    assert len(named) == 3
    for title, page in named:
        assert f"# {title}\n" in (ROOT / "docs" / f"{page}.md").read_text()


def test_every_kind_of_argument_compiles(tmp_path: Path) -> None:
    kinds = {
        "optional": "ns::optional(Tensor? a, Tensor b, int? n=None, float[]? w=None) -> (Tensor, Tensor)",
        "lists": "ns::lists(Tensor x, Tensor[] rest, int[2] size, str mode='a', bool[] flags=[]) -> Tensor[]",
        "names": "ns::names(Tensor out, Tensor self, Tensor grad_out, SymInt i, SymInt[] sizes, str[] begin) -> Tensor",
        "words": "ns::words(Tensor out0, Tensor xor, int catch, int lambda, int std, int OP) -> (Tensor, Tensor)",
        "parts": "ns::parts(Tensor x0, Tensor tensors, Tensor[] x) -> Tensor[]",
        "bisect": "ns::bisect(Tensor\ttorch,\nTensor async) -> Tensor",
    }
    for name, schema in kinds.items():
        done = new_op(tmp_path, schema)
        assert done.returncode == 0, done.stderr
        compile((tmp_path / name / f"tests/test_{name}.py").read_text(), name, "exec")
    everything = "".join(f'#include "{name}/{name}.cc"\n' for name in kinds)
    command = ["c++", "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", f"-I{tmp_path}", "-xc++", "-"]
    done = subprocess.run(command, input=everything, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("schema", "has_gradient"), [(SCHEMA, True), ("custom::my_op(Tensor a, Tensor b) -> Tensor[]", False)]
)
def test_the_project_says_what_to_delete_without_a_gradient(tmp_path: Path, schema: str, has_gradient: bool) -> None:
    assert new_op(tmp_path, schema).returncode == 0
    texts = {name: (tmp_path / "my_op" / name).read_text() for name in ("README.md", "my_op.cc", "tests/test_my_op.py")}
    assert ("`test_gradient`" in texts["README.md"]) is has_gradient
    assert ("without a gradient, delete this" in texts["my_op.cc"]) is has_gradient
    assert ("def test_gradient()" in texts["tests/test_my_op.py"]) is has_gradient


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("my_op(Tensor a) -> Tensor", "ns::name"),
        ("aten::my_op(Tensor a) -> Tensor", "PyTorch's own"),
        ("ns::my_op(int a) -> Tensor", "needs an argument of type Tensor"),
        ("ns::my_op(Tensor(a!) a) -> Tensor(a!)", "do not write to inputs"),
        ("ns::my_op(Tensor a) -> int", "returns Tensor"),
        ("ns::my_op(Tensor a", "ns::my_op"),
        ("ns::../up(Tensor a) -> Tensor", "expected"),
        ("ns::my_op(Tensor class) -> Tensor", "reserve"),
        ("ns::import(Tensor a) -> Tensor", "reserve"),
        ("ns::my_op(Tensor a, int a) -> Tensor", "two arguments have the same name"),
        ("ns::my_op(Tensor a, int n=3, Tensor b) -> Tensor", "without a default"),
        ('ns::my_op(Tensor a, str[] names=["x"]) -> Tensor', "no default"),
        ("ns::my_op(Tensor a, tensor b) -> Tensor", "the types of arguments are Tensor"),
    ],
)
def test_schemas_that_no_operator_can_have_are_refused(tmp_path: Path, schema: str, message: str) -> None:
    done = new_op(tmp_path, schema)
    assert done.returncode != 0
    assert message in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    name = "n" * 250  # valid for a folder, but too long for a file with `test_` and `.py`
    done = new_op(tmp_path, f"ns::{name}(Tensor a) -> Tensor")
    assert done.returncode != 0
    assert "cannot write" in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "my_op").mkdir()
    done = new_op(tmp_path, SCHEMA)
    assert done.returncode != 0
    assert "already exists" in done.stderr
    assert not list((tmp_path / "my_op").iterdir())
