"""The private names of torch are in one place, and a missing one causes one error."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import opbridge
from opbridge import UnsupportedError
from opbridge.torch_compat import symbols
from opbridge.torch_compat.lookup import KNOWN_VERSIONS, PatchPoint, expect, look_up, warn_of_untested_version

PACKAGE = Path(opbridge.__file__).parent


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_internal(module: str) -> bool:
    """Whether the name is that of a module of torch."""
    path = module.split(".")
    internal = any(map(is_private, path)) or module.startswith("torch.fx.experimental")
    return path[0] == "torch" and internal


NAMES_OF_OTHERS = {  # private names in strings that do not belong to torch
    "_core": "opbridge's module in C++",
    "_exported_once": "a function of opbridge in another file",
    "_get_reduction_params": "a function of torchao",
    "_graph": "the name of a parameter that opbridge makes",
    "_outputs": "torch.onnx documents this parameter of symbolic functions",
    "_thread": "Python's module",
    **dict.fromkeys(
        (
            "_aminmax",
            "_fake_quantize_learnable_per_channel_affine",
            "_fake_quantize_learnable_per_tensor_affine",
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "_get_tracing_state",
            "_histogramdd_bin_edges",
            "_histogramdd_from_bin_cts",
            "_histogramdd_from_bin_tensors",
        ),
        "an operator, which a program may name",
    ),
}
LOCALS = {"self": "Python's convention", "path": "of a function of opbridge"}


def names_in_strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """The strings of the file, without those of f-strings and without prefixes and suffixes."""
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("endswith", "startswith", "removeprefix", "removesuffix")
        ):
            parts.update(id(part) for part in ast.walk(node) if isinstance(part, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node


def names_in_frames(node: ast.AST) -> Iterator[str]:
    """The names of functions and of local variables that the code looks for in a frame."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr.startswith("co_name"):
        for side in node.comparators:
            yield from (part.value for part in ast.walk(side) if isinstance(part, ast.Constant))
    is_read = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("f_locals.get")
    if is_read or (isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("f_locals")):
        key = node.args[0] if isinstance(node, ast.Call) else node.slice
        yield from [key.value] if isinstance(key, ast.Constant) and key.value not in LOCALS else []


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Private attributes and private names in strings that the file does not define, all names of internal modules of
    torch, and the names by which code finds torch's functions and variables in frames."""
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own = functions | {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for node in names_in_strings(tree):
        name = str(node.value)
        if re.fullmatch(r"_[A-Za-z]\w*", name):
            yield from [] if name in own or name in NAMES_OF_OTHERS else [(node.lineno, name)]
        elif re.fullmatch(r"torch[\w.]+", name) and is_internal(name):
            yield node.lineno, name
    for node in ast.walk(tree):
        yield from ((node.lineno, name) for name in names_in_frames(node) if name != "forward")  # "forward" is public
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in functions:
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "sys") and not owner.startswith("self."):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if is_internal(alias.name))
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((node.lineno, name) for name in names if is_internal(name))
        elif isinstance(node, ast.keyword) and is_private(node.arg or ""):
            yield node.value.lineno, f"{node.arg}="


@pytest.mark.parametrize(
    "line",
    [
        "torch._C._select_conv_backend()",
        "tensor.untyped_storage()._cdata",
        "import torch._dynamo",
        "from torch.utils import _pytree",
        "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
        "patch_attributes(torch.compiler, _is_compiling_flag=True)",
        "sys.modules.get('torch._dynamo')",
        "getattr(target, '_name', '')",
        "name == '_is_zerotensor'",
        "frame.f_code.co_name != 'int_'",
        "frame.f_code.co_names == ('fn',)",
        "frame.f_locals.get('func')",
    ],
)
def test_private_names_are_found(line: str) -> None:
    assert list(private_names(ast.parse(line)))


def test_private_names_of_torch_stand_in_one_place() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent.name != "torch_compat"
        for line, name in private_names(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from torch._ops import NoSuchThing", "torch._ops.NoSuchThing"),
        ("from torch.fx import _no_such_thing", "torch.fx._no_such_thing"),
        ("import torch._no_such_module", "torch._no_such_module"),
        ("import torch; torch._C._no_such_thing", "torch._C._no_such_thing"),
        ("import torch; torch._no_such_thing", "torch._no_such_thing"),
        ("import torch; torch.nn.LSTM._no_such_thing", "LSTM._no_such_thing"),
        ("import torch; torch.nn.ReLU()._no_such_thing", "ReLU._no_such_thing"),
        ("PatchPoint(torch.compiler, '_no_such_flag')", "torch.compiler._no_such_flag"),
        ("PatchPoint(torch.compiler, 'print')", "torch.compiler.print"),  # a builtin that the module does not use
        ("expect(torch.nn.Module(), '_parameters', '_no_such_dict')", "Module._no_such_dict"),
    ],
)
def test_a_missing_name_is_one_error(statement: str, name: str) -> None:
    oldest, newest = KNOWN_VERSIONS
    message = f"torch {torch.__version__} has no '{name}', which opbridge needs; this opbridge supports torch {oldest}"
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught, look_up():
        exec(statement, {"torch": torch, "PatchPoint": PatchPoint, "expect": expect})
    assert newest in caught.value.message


@pytest.mark.parametrize(
    ("part", "owner", "name"),
    [
        ("opbridge.torch_compat.exporting", torch._C, "_select_conv_backend"),
        ("opbridge.torch_compat.exporting", importlib.import_module("torch.export._trace"), "make_fake_inputs"),
        ("opbridge.torch_compat.patch_points", torch.compiler, "_is_compiling_flag"),
        ("opbridge.torch_compat.patch_points", nn.RNNBase, "check_forward_args"),
        ("opbridge.torch_compat.symbols", symbols.SymNode, "guard_int"),
        ("opbridge.torch_compat", torch._C, "_get_schema"),
    ],
)
def test_names_are_looked_up_when_a_part_is_imported(
    part: str, owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, part, raising=False)
    monkeypatch.delattr(owner, name)
    with pytest.raises(UnsupportedError, match=rf"has no '{owner.__name__}\.{name}', which opbridge needs"):
        importlib.import_module(part)


def test_an_untested_version_of_torch_causes_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"tested with torch 2\.13 to \d\.\d+; torch 9\.0\.0a0 is installed"):
        warn_of_untested_version("9.0.0a0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_untested_version(f"{KNOWN_VERSIONS[1]}.1+cu132")
        warn_of_untested_version(f"{KNOWN_VERSIONS[0]}.0")


def test_make_compat_takes_the_oldest_version() -> None:
    script = (Path(__file__).parents[2] / "tools/compat.sh").read_text()
    assert f'"torch=={KNOWN_VERSIONS[0]}.0 onnxruntime"' in script


def test_an_error_of_another_kind_passes() -> None:
    with pytest.raises(ImportError, match="no_such_package"), look_up():
        import no_such_package  # noqa: F401
