"""Symbolic functions from the sources of projects that need not be installed."""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import types
from collections.abc import Callable, Sequence
from typing import Any

from torch.onnx.symbolic_helper import parse_args

# The packages that a module of such a project may import here.
_AVAILABLE = {"math", "packaging", "sys", "torch", "typing", "warnings"}


@dataclasses.dataclass
class Registered:
    """A function that mmdeploy registers, for an operator or for an autograd.Function."""

    function: Callable[..., Any]
    is_operator: bool


class Rewriter:
    """mmdeploy's SYMBOLIC_REWRITER."""

    def __init__(self) -> None:
        self.registered: dict[str, Registered] = {}

    def register_symbolic(
        self, name: str, is_pytorch: bool = False, arg_descriptors: Sequence[str] | None = None, **_: Any
    ) -> Callable[..., Any]:
        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            decorated = parse_args(*arg_descriptors)(function) if arg_descriptors else function
            self.registered[function.__name__] = Registered(decorated, is_pytorch)
            return function

        return register

    def get_context(self, *_: Any) -> Any:
        return types.SimpleNamespace(cfg={})


def read(file: pathlib.Path, opset: int) -> tuple[dict[str, Any], dict[str, Registered]]:
    """The symbolic functions and the classes with ``symbolic`` of a module, and what it registers with mmdeploy.

    Of the module's statements, only these and imports of torch run. The names of mmdeploy that they use have stand-ins.
    """
    rewriter = Rewriter()
    names: dict[str, Any] = {
        "__name__": file.stem,
        "SYMBOLIC_REWRITER": rewriter,
        "Backend": types.SimpleNamespace(NCNN=types.SimpleNamespace(value="ncnn"), PPLNN="pplnn", TENSORRT="tensorrt"),
        "get_backend": lambda _: "onnxruntime",
        "get_ir_config": lambda _: {"opset_version": opset},
        "mark": lambda *_, **__: lambda function: function,
    }
    for statement in ast.parse(file.read_text()).body:
        if _is_wanted(statement):
            exec(compile(ast.Module([statement], []), str(file), "exec"), names)
    return names, rewriter.registered


def _is_wanted(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.level == 0 and (statement.module or "").split(".")[0] in _AVAILABLE
    if isinstance(statement, ast.Import):
        return all(alias.name.split(".")[0] in _AVAILABLE for alias in statement.names)
    if isinstance(statement, ast.ClassDef):
        return any(isinstance(each, ast.FunctionDef) and each.name == "symbolic" for each in statement.body)
    if not isinstance(statement, ast.FunctionDef):
        return False
    return not statement.args.args or statement.args.args[0].arg == "g"
