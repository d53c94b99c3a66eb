"""Looks up names of torch. A name that the installed torch lacks causes one clear error."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import inspect
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from opbridge.errors import UnsupportedError

KNOWN_VERSIONS = ("2.13", "2.15")  # the oldest and the newest with which the tests have passed

_MISSING = re.compile(
    r"cannot import name '(?P<name>\w+)' from (?:partially initialized module )?'(?P<module>[\w.]+)'"
    r"|No module named '(?P<lacking>torch\b[\w.]*)'"
    r"|(?:module|type object) '(?P<owner>[\w.]+)' has no attribute '(?P<attribute>\w+)'"
    r"|'(?P<kind>\w+)' object has no attribute '(?P<member>\w+)'"
)


def missing(name: str) -> UnsupportedError:
    oldest, newest = KNOWN_VERSIONS
    package = "torchvision" if name.startswith("torchvision.") else "torch"
    supported = f"torch {oldest} to {newest}" + (" and the torchvision of each" if package == "torchvision" else "")
    return UnsupportedError(
        f"{package} {sys.modules[package].__version__} has no '{name}', which opbridge needs; this opbridge supports "
        f"{supported}: install one of these, or a newer opbridge"
    )


def warn_of_untested_version(version: str = torch.__version__) -> None:
    """Warns if the tests have not passed with this version of torch."""
    installed, oldest, newest = (tuple(map(int, v.split(".")[:2])) for v in (version, *KNOWN_VERSIONS))
    if not oldest <= installed <= newest:
        warnings.warn(
            f"opbridge was tested with torch {' to '.join(KNOWN_VERSIONS)}; torch {version} is installed",
            stacklevel=2,
        )


@contextlib.contextmanager
def look_up() -> Iterator[None]:
    """Raises the error of ``missing`` if an import or a read of an attribute fails in this context."""
    try:
        yield
    except (ImportError, AttributeError) as error:
        found = _MISSING.search(str(error))
        if found is None:
            raise
        raise missing(".".join(part for part in (found["module"], *_parts(found)) if part)) from error


def _parts(found: re.Match[str]) -> list[str | None]:
    names = ("name", "lacking", "owner", "attribute", "kind", "member")
    return [found[name] for name in names]


def name_in(owner: Any, name: str) -> str:
    return f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"


def find(owner: Any, name: str) -> Any:
    """The attribute ``name`` of ``owner``, unbound for a class. A builtin if ``owner`` is a module without a global of
    that name, and one of its functions uses the builtin."""
    try:
        if isinstance(owner, type):
            return inspect.getattr_static(owner, name)
        is_builtin = isinstance(owner, types.ModuleType) and not hasattr(owner, name) and hasattr(builtins, name)
        return getattr(builtins if is_builtin and _is_used_in(owner, name) else owner, name)
    except AttributeError:
        raise missing(name_in(owner, name)) from None


def _is_used_in(module: types.ModuleType, name: str) -> bool:
    """Whether a function of the module uses the global or builtin ``name``."""
    functions = map(inspect.unwrap, filter(inspect.isfunction, vars(module).values()))
    codes = [function.__code__ for function in functions if function.__module__ == module.__name__]
    while codes:
        code = codes.pop()
        if name in code.co_names:
            return True
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return False


def expect(owner: Any, *names: str) -> None:
    """Checks that ``owner`` has these attributes, which other modules access by name."""
    for name in names:
        find(owner, name)


@dataclasses.dataclass(frozen=True, eq=False)
class PatchPoint:
    """An attribute of torch that a capture replaces. Raises an error if ``owner`` does not have it."""

    owner: Any
    attribute: str

    def __post_init__(self) -> None:
        find(self.owner, self.attribute)

    def __str__(self) -> str:
        return name_in(self.owner, self.attribute)

    @property
    def original(self) -> Any:
        """The current value of the attribute: another patch if patches are nested."""
        return getattr(self.owner, self.attribute)
