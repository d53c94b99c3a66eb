"""Finding, reading and loading operator libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opbridge import operators


def test_reading_the_list_does_not_load_the_operators() -> None:
    script = (
        "from opbridge import operators\n"
        "print([o.schema for o in operators.read_operators() if o.backward_of is None])\n"
        "import torch\n"
        "assert not hasattr(torch.ops.opbridge, 'nms')"
    )
    package = Path(operators.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", script], cwd=package, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "opbridge::nms(Tensor boxes, Tensor scores, float iou_threshold) -> Tensor" in done.stdout


def test_names_of_others_are_a_library_of_their_own() -> None:
    assert {operator.domain for operator in operators.read_operators()} == {"opbridge"}
    assert {operator.domain for operator in operators.read_operators(operators.COMPAT)} == {
        "custom",
        "mmcv",
        "mmdeploy",
    }


def test_a_gradient_is_listed_after_its_operator() -> None:
    rows = {operator.name: operator for operator in operators.read_operators(operators.COMPAT)}
    gradient = rows["custom::my_add_backward"]
    assert gradient.backward_of == "custom::my_add"
    assert gradient.schema == (
        "custom::my_add_backward(Tensor grad_output0, Tensor a, Tensor b, bool[] wanted) "
        "-> (Tensor grad_a, Tensor grad_b)"
    )
    assert rows["custom::my_add"].domain == "custom"
    assert rows["custom::my_add"].version == 1


def test_loading_twice_is_loading_once() -> None:
    assert operators.load_operators() == operators.load_operators(operators.torch_library())
    assert operators.loaded_ort_libraries().count(operators.ort_library()) == 1


def test_a_missing_library_is_named() -> None:
    with pytest.raises(FileNotFoundError, match=r"no_such_ops_torch\.so"):
        operators.load_operators("no_such_ops")


def test_a_foreign_library_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "foreign.c"
    source.write_text("int answer(void) { return 42; }\n")
    library = tmp_path / "libforeign_ort.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    with pytest.raises(ValueError, match="not a library of opbridge operators"):
        operators.read_operators(library)
