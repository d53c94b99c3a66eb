"""ONNX Runtime has the faults for which opbridge rewrites models.

A test that fails because the runtime no longer shows its fault means that only older versions need the rewrite.
"""

from __future__ import annotations

import itertools
import pathlib
import platform
import re

import numpy as np
import pytest
from conftest import INSTALLED
from fault_models import Fault, run
from onnx import TensorProto
from runtime_faults import FAULTS


def features_of_processor() -> set[str]:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.what}")
def test_the_runtime_has_the_fault(fault: Fault) -> None:
    if not fault.since <= INSTALLED <= (fault.until or INSTALLED):
        pytest.skip(f"the fault is known of ONNX Runtime {fault.since} to {fault.until or 'now'}")
    if fault.without and (platform.machine() != "x86_64" or fault.without & features_of_processor()):
        pytest.skip("this processor does not have the fault")
    assert fault.shows(fault), f"src/runtimes/onnxruntime/{fault.file} is obsolete: {fault.what}"


ROOT = pathlib.Path(__file__).parents[2]


def head_of(path: pathlib.Path) -> str:
    lines = itertools.takewhile(lambda line: line.startswith("//"), path.read_text().splitlines())
    return " ".join(line.removeprefix("//").strip() for line in lines)


HEADS = {path.name: head_of(path) for path in (ROOT / "src/runtimes/onnxruntime").glob("*.cc")}


def test_the_file_of_each_fault_says_so() -> None:
    assert {fault.file for fault in FAULTS} == {name for name, head in HEADS.items() if "Versions:" in head}


def test_the_tests_that_the_files_name_exist() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".cc", ".txt")]
    names = {path.name for path in tests}
    for path in tests:
        names.update(re.findall(r"^(?:def |TEST\w*\(\w+, )(\w+)\(?", path.read_text(), re.MULTILINE))
    named = {
        (file, test)
        for file, head in HEADS.items()
        for listed in re.findall(r"Tests?: (.*?)\.(?: |$)", head)
        for test in re.split(r",? and |, ", listed)
    }
    assert named
    assert not {(file, test) for file, test in named if test not in names}


def test_what_the_rewrites_make_runs() -> None:
    cast = f"wide = Cast<to = {TensorProto.FLOAT}>(x) turned = Transpose<perm = [1, 0, 2]>(wide) y = MatMul(turned, w)"
    x, w = np.arange(60, dtype=np.int32).reshape(3, 4, 5), np.ones((5, 2), np.float32)
    np.testing.assert_array_equal(run(cast, {"x": x}, {"w": w})[0], x.transpose(1, 0, 2) @ w)

    weights = {"w": np.ones((1, 2, 3), np.float32), "r": np.ones((1, 2, 2), np.float32)}
    run("y = RNN<hidden_size = 2>(x, w, r)", {"x": np.zeros((4, 0, 3), np.float32)}, weights)

    for a, b in (((300, 0), (0, 1)), ((0, 3), (3, 1)), ((0, 2, 3), (0, 3, 4))):
        left, right = np.ones(a, np.float32), np.ones(b, np.float32)
        np.testing.assert_array_equal(run("y = MatMul(a, b)", {"a": left, "b": right}, {})[0], left @ right)
