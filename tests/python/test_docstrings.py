"""The docstrings that the site's reference is made of describe every parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pages import DOCS

import opbridge
import opbridge.operators
import opbridge.torch_onnx
from opbridge.torch_arguments import TorchArguments

_PAGE = (DOCS / "reference" / "python.md").read_text()
_NAMES = re.findall(r"^::: (\S+)$", _PAGE, flags=re.MULTILINE)
# Methods of GraphContext that opbridge itself calls; the page leaves them out.
_OWN = {"attribute", "input", "results"}


def _found(name: str) -> Any:
    module, _, rest = name.partition(".")
    value: Any = __import__(module)
    for part in rest.split("."):
        value = getattr(value, part)
    return value


def _functions() -> Iterator[Any]:
    for name in _NAMES:
        value = _found(name)
        if inspect.isfunction(value):
            yield pytest.param(value, id=name)
        elif inspect.isclass(value):
            for member, function in vars(value).items():
                is_call = member == "__call__" and value.__module__.startswith("opbridge")
                if inspect.isfunction(function) and (is_call or not member.startswith("_")) and member not in _OWN:
                    yield pytest.param(function, id=f"{name}.{member}")


def test_the_page_has_every_public_name() -> None:
    on_page = {name.removeprefix("opbridge.") for name in _NAMES}
    errors = {name for name in opbridge.__all__ if name in vars(opbridge.errors)}  # ::: opbridge.errors
    assert set(opbridge.__all__) - {"__version__"} - errors <= on_page


@pytest.mark.parametrize("function", [*_functions()])
def test_parameters_are_described(function: Any) -> None:
    doc = inspect.getdoc(function) or ""
    assert doc, "no docstring"
    section = re.search(r"^Args:\n((?:    .*\n|\n)+)", doc + "\n", flags=re.MULTILINE)
    described = re.findall(r"^    \*{0,2}(\w+): ", section[1] if section else "", flags=re.MULTILINE)
    parameters = [name for name in inspect.signature(function).parameters if name != "self"]
    parameters = [name for name in parameters if name not in TorchArguments.__annotations__]  # described there
    assert described == parameters


def test_torchs_keywords_are_described() -> None:
    source = inspect.getsource(TorchArguments)
    for name in TorchArguments.__annotations__:
        assert re.search(rf'^    {name}: .*\n    """', source, flags=re.MULTILINE), name
