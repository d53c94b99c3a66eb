"""``python -m opbridge`` is the command ``opbridge``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from command import ROOT, opbridge

PACKAGE = ROOT / "python/opbridge"
FACTORY = """
import sys, torch

def make_model():
    print("made by", sys.executable, file=sys.stderr)
    return torch.nn.Tanh(), (torch.rand(3),)
"""


def run(
    *arguments: str | Path, packages: Path = ROOT / "python", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(packages), "OPBRIDGE_PYTHON": "/nowhere/python"}
    command = [sys.executable, "-m", "opbridge", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder)


def test_it_is_the_command(tmp_path: Path) -> None:
    done = run("--version", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, opbridge("--version").stdout, "")
    done = run("inspect", tmp_path / "none.onnx")
    assert done.returncode == 2
    assert done.stderr.startswith("opbridge: ")


def test_python_functions_run_in_the_same_interpreter(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FACTORY)
    done = run("verify", "script.py:make_model", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"made by {sys.executable}" in done.stderr
    assert "all outputs agree" in done.stdout


def copied_package(folder: Path) -> Path:
    (folder / "packages/opbridge").mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(PACKAGE / name, folder / "packages/opbridge")
    return folder / "packages"


def test_the_program_that_pip_installed(tmp_path: Path) -> None:
    packages = copied_package(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/opbridge").write_text('#!/bin/sh\necho "installed: $*"\nexit 7\n')
    (tmp_path / "bin/opbridge").chmod(0o755)
    metadata = packages / "opbridge-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: opbridge\nVersion: 1\n")
    (metadata / "RECORD").write_text("opbridge/__init__.py,,\nopbridge/__main__.py,,\n../bin/opbridge,,\n")
    done = run("inspect", "a b", packages=packages)
    assert (done.returncode, done.stdout, done.stderr) == (7, "installed: inspect a b\n", "")


def test_a_package_without_the_program(tmp_path: Path) -> None:
    done = run("--version", packages=copied_package(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("opbridge: the program opbridge was not found for the package in ")
