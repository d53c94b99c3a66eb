"""Libraries of operators for ONNX Runtime that are not made with opbridge: verify, export and the command take them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command import IN_THIS_PYTHON, opbridge

import opbridge as package
from opbridge.verification import compare

OPERATOR = """
#include "opbridge/operator.h"
using namespace opbridge::op;
OPBRIDGE_OPERATOR("foreign_test::triple(Tensor x) -> Tensor")
    .shape([](const Shape& x) { return x; })
    .cpu([](Context&, TensorView<const float> x, TensorView<float> y) {
      for (std::int64_t i = 0; i < y.size(); ++i) y[i] = 3 * x[i];
    });
"""
# Has only what ONNX Runtime asks of a library.
FOREIGN = """
#include <dlfcn.h>
void* RegisterCustomOps(void* options, const void* base) {{
  void* library = dlopen("{library}", RTLD_NOW | RTLD_LOCAL);
  return ((void* (*)(void*, const void*))dlsym(library, "RegisterCustomOps"))(options, base);
}}
"""
SCRIPT = """
import torch


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * FACTOR

    @staticmethod
    def symbolic(g, x):
        return g.op("foreign_test::triple", x)


class Model(torch.nn.Module):
    def forward(self, x):
        return Triple.apply(x.relu())


def make_model():
    return Model(), (torch.linspace(-1, 1, 6),)
"""
X = torch.linspace(-1, 1, 6)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "triple.cc").write_text(OPERATOR)
    (folder / "foreign.c").write_text(FOREIGN.format(library=f"{package.build([folder / 'triple.cc'])}_ort.so"))
    library = folder / "libforeign.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, folder / "foreign.c", "-ldl"], check=True)
    return library


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("foreign_test::triple", x)


class WrongTriple(Triple):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 4


def test_verify(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    package.export(Triple.apply, (X,), path)
    with pytest.raises(package.VerificationError, match=r"the third link is missing.*libraries=\[path\]"):
        package.verify(path, Triple.apply, (X,))
    assert package.verify(path, Triple.apply, (X,), random_inputs=1, libraries=[library]).ok
    assert compare(path, Triple.apply, (X,), libraries=[library]).ok


def test_an_export_that_verifies(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library.parent)
    program = package.export(Triple.apply, (X,), tmp_path / "m.onnx", verify=True, libraries=[library.name])
    assert program.verification is not None
    assert program.verification.ok
    monkeypatch.chdir(tmp_path)
    assert torch.equal(program(X)[0], X * 3)


def test_a_difference_is_found_and_reproduced(library: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    package.export(WrongTriple.apply, (X,), path)
    with pytest.raises(package.VerificationError, match="the first difference is the value of") as error:
        package.verify(path, WrongTriple.apply, (X,), libraries=[library], reproduction=tmp_path / "wrong")
    assert error.value.verification is not None
    done = subprocess.run([sys.executable, tmp_path / "wrong" / "reproduce.py"], capture_output=True, text=True)
    assert done.stderr == "ONNX Runtime and PyTorch differ\n"
    assert (tmp_path / "wrong" / "libforeign.so").is_file()


@pytest.mark.parametrize("call", [package.verify, package.export])
def test_what_is_no_library(call: Any, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    package.export(torch.relu, (X,), path)
    given = (path, torch.relu, (X,)) if call is package.verify else (torch.relu, (X,), path)
    with pytest.raises(package.FileError, match=r"cannot open the operator library .*nothing\.so"):
        call(*given, libraries=[tmp_path / "nothing.so"])
    with pytest.raises(package.InvalidArgumentError, match="libraries must be a list of paths, not 'nothing"):
        call(*given, libraries="nothing.so")


@pytest.mark.parametrize(("factor", "status"), [(3, 0), (4, 1)])
def test_the_command(factor: int, status: int, library: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("FACTOR", str(factor)))
    done = opbridge("verify", f"{script}:make_model", "--ops", library, env=IN_THIS_PYTHON)
    assert done.returncode == status, done.stderr
    assert ("all outputs agree" in done.stdout) == (status == 0)


def test_the_command_tells_what_it_cannot_load(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("FACTOR", "3"))
    for command in ("verify", "doctor"):
        done = opbridge(command, f"{script}:make_model", "--ops", tmp_path / "nothing.so", env=IN_THIS_PYTHON)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "nothing" in done.stderr
