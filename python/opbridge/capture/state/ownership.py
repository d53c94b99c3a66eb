"""Tells the classes and functions of a model's own code from those of torch and of Python."""

from __future__ import annotations

import functools
import sys

# Objects of these packages do not belong to the model, although it may refer to them.
FOREIGN = frozenset({"logging", "threading", "_thread", "weakref", "enum", "typing", "abc", "re"})
_FOREIGN_CLASSES = sys.stdlib_module_names | {"builtins", "torch"}
_FOREIGN_FUNCTIONS = _FOREIGN_CLASSES | {"mpmath", "numpy", "opbridge", "sympy"}


def is_own(module: str) -> bool:
    """Whether functions of this Python module may keep the model's state in their variables."""
    return module.partition(".")[0] not in _FOREIGN_FUNCTIONS


def is_of_opbridge(kind: type) -> bool:
    return kind.__module__.startswith("opbridge.")


def is_near(module: str, to: str) -> bool:
    """Whether code of the Python module ``to`` may keep the model's state in functions and objects of ``module``: in
    those of its own package, and in those that are not installed, but neither in pytest's nor in a logger's."""
    package = module.partition(".")[0]
    return is_own(module) and (package == to.partition(".")[0] or not _is_installed(package))


@functools.lru_cache(maxsize=4096)
def _is_installed(package: str) -> bool:
    path = getattr(sys.modules.get(package), "__path__", None) or [getattr(sys.modules.get(package), "__file__", "")]
    return any("site-packages" in str(each) or "dist-packages" in str(each) for each in path)


_known_classes: dict[type, tuple[type, ...]] = {}


def classes_of(kind: type) -> tuple[type, ...]:
    """The class and its bases, without those of torch and of Python."""
    known = _known_classes.get(kind)
    if known is None:
        own = (base for base in kind.__mro__ if base.__module__.partition(".")[0] not in _FOREIGN_CLASSES)
        known = _known_classes[kind] = tuple(own)
    return known
