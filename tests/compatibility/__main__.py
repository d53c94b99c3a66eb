"""Measures whether symbolic functions that are written for torch.onnx make the same models with opbridge."""

from __future__ import annotations

import argparse
import pathlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torchvision.ops._register_onnx_ops as of_torchvision

from compatibility.calls import MMCV, MMDEPLOY_FUNCTIONS, MMDEPLOY_OPERATORS, TORCHVISION, OfFunction
from compatibility.compare import SAME, compare, registered
from compatibility.page import page
from compatibility.sources import read
from conformance.__main__ import chosen, measure, parse_options
from conformance.case import WITH_TORCH_SYMBOLICS

OPSET = 11  # the default of mmcv and mmdeploy, for which their functions make nodes
DATABASE_OPSET = 17


def main() -> int:
    parser = argparse.ArgumentParser(prog="compatibility", description=__doc__)
    parser.add_argument("--mmcv", type=pathlib.Path, metavar="FOLDER", help="a checkout of mmcv")
    parser.add_argument("--mmdeploy", type=pathlib.Path, metavar="FOLDER", help="a checkout of mmdeploy")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write the page, with torch's own functions")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    projects = {"torchvision": list(_of_torchvision())}
    if options.mmcv:
        projects["mmcv"] = list(_of_mmcv(options.mmcv / "mmcv" / "ops"))
    if options.mmdeploy:
        projects["mmdeploy"] = list(_of_mmdeploy(options.mmdeploy / "mmdeploy"))
    if options.page:
        what = f"three samples of one element type of each, opset {DATABASE_OPSET}, torch {torch.__version__}"
        options.page.write_text(page(projects, _of_database(), what))
    different = [(function, result) for rows in projects.values() for function, result in rows if result != SAME]
    for function, result in different:
        print(f"{function}: {result}")
    return 1 if different else 0


def _of_database() -> list[dict[str, Any]]:
    exporters = f"{WITH_TORCH_SYMBOLICS},torchscript"
    options = parse_options(["--quick", "--exporters", exporters, "--opset", str(DATABASE_OPSET)])
    return measure(chosen(options), options)


def _of_torchvision() -> Iterator[tuple[str, str]]:
    for name, call in TORCHVISION.items():
        # opbridge leaves out what torchvision registers when it is imported.
        function = getattr(of_torchvision, name)
        function.__module__ = "user"
        opset = 16 if name.endswith("16") else OPSET
        with registered(call.name, function, opset):
            yield name, compare(call.call, call.inputs, opset)


def _of_mmcv(folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    for (file, name), call in MMCV.items():
        names, _ = read(folder / f"{file}.py", OPSET)
        yield name, _compare_function(names[name].symbolic, name, call)


def _of_mmdeploy(folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    for (file, name), operator in MMDEPLOY_OPERATORS.items():
        _, functions = read(folder / f"{file}.py", OPSET)
        with registered(f"::{operator.name}", functions[name].function, OPSET):
            yield name, compare(operator.call, operator.inputs, OPSET)
    for (file, name), call in MMDEPLOY_FUNCTIONS.items():
        names, functions = read(folder / f"{file}.py", OPSET)
        symbolic = functions[name].function if name in functions else names[name].symbolic
        yield name, _compare_function(symbolic, name, call)


def _compare_function(symbolic: Any, name: str, call: OfFunction) -> str:
    results = tuple(call.results)

    def forward(ctx: Any, *_: Any) -> Any:
        copies = tuple(result.clone() for result in results)
        return copies if len(copies) > 1 else copies[0]

    function: Any = type(
        name, (torch.autograd.Function,), {"forward": staticmethod(forward), "symbolic": staticmethod(symbolic)}
    )
    tensors = [each for each in call.arguments if isinstance(each, torch.Tensor)]

    def model(*given: torch.Tensor) -> Any:
        rest = iter(given)
        arguments = [next(rest) if isinstance(each, torch.Tensor) else each for each in call.arguments]
        return function.apply(*arguments)

    return compare(model, tensors, OPSET)


if __name__ == "__main__":
    sys.exit(main())
