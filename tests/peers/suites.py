"""The programs of other compilers' test suites, read from a checkout."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import multiprocessing
import os
import pathlib
import runpy
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch


@dataclasses.dataclass
class Call:
    model: torch.nn.Module
    args: tuple[Any, ...]


@dataclasses.dataclass
class Program:
    name: str
    calls: Callable[[], list[Call]]  # makes the model, and what the test calls it with


def programs(suite: str, root: pathlib.Path) -> Iterator[Program]:
    return SUITES[suite](root)


def torch_mlir(root: pathlib.Path) -> Iterator[Program]:
    """The end-to-end tests of torch-mlir."""
    folder = root / "projects/pt1/python"
    version: Any = types.ModuleType("torch_mlir._version")
    version.torch_version_for_comparison = version.version = lambda *_: (99,)
    missing = {"torch_mlir": version, "torch_mlir._version": version}
    for name, module in (missing | {"multiprocess": multiprocessing, "functorch": torch.func}).items():
        sys.modules.setdefault(name, module)
    with _importable(folder):
        suite = importlib.import_module("torch_mlir_e2e_test.test_suite")
        registry = importlib.import_module("torch_mlir_e2e_test.registry")
        suite.register_all_tests()
        utils = importlib.import_module("torch_mlir_e2e_test.framework").TestUtils
    for test in registry.GLOBAL_TEST_REGISTRY:
        yield Program(test.unique_name, functools.partial(_calls_of_test, test, utils))


def _calls_of_test(test: Any, utils: Any) -> list[Call]:
    torch.manual_seed(0)
    model = test.program_factory()
    recorder = _Recorder(model)
    test.program_invoker(recorder, utils())
    return recorder.calls


class _Recorder:
    """Calls the methods of a model, and notes the arguments of ``forward``."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self.calls: list[Call] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._model, name)

        def call(*args: Any) -> Any:
            if name == "forward":
                copies = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, args)
                self.calls.append(Call(self._model, copies))
            with torch.no_grad():
                return method(*args)

        return call


def pnnx(root: pathlib.Path) -> Iterator[Program]:
    """The tests of pnnx, each of which traces a model with inputs of its own."""
    for path in sorted((root / "tests").glob("test_*.py")):
        yield Program(path.stem, functools.partial(_calls_of_script, path))


class _Traced(Exception):
    pass


def _calls_of_script(path: pathlib.Path) -> list[Call]:
    calls: list[Call] = []

    def trace(model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        calls.append(Call(model, inputs if isinstance(inputs, tuple) else (inputs,)))
        raise _Traced

    patched = mock.patch.object(torch.jit, "trace", trace)
    with _importable(path.parent), _in_temporary_folder(), patched, contextlib.suppress(_Traced):
        runpy.run_path(str(path))["test"]()
    return calls


@contextlib.contextmanager
def _in_temporary_folder() -> Iterator[None]:
    """Some scripts write files to the working directory."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def _importable(folder: pathlib.Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


SUITES: dict[str, Callable[[pathlib.Path], Iterator[Program]]] = {"torch-mlir": torch_mlir, "pnnx": pnnx}
