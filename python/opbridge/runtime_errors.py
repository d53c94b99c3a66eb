"""ONNX Runtime's errors about models that it cannot load or run, in words that say what to do."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from opbridge import _core
from opbridge.errors import Error

# The operator as ``domain:name``, without the domain for those of ONNX.
_UNKNOWN_OPERATOR = re.compile(r"Fatal error: (?:([^\s:]+):)?:?(\w+)\(-?\d+\) is not a registered function/op")
_NO_KERNEL = re.compile(r"Could not find an implementation for (?:([^\s:]+):)?(\w+)\(\d+\) node with name '(.*)'")
_NO_LIBRARY = re.compile(r"Failed to load library .*")


@contextlib.contextmanager
def explain_failures(path: Any, kind: type[Error] = Error) -> Iterator[None]:
    """Raises an error of this kind in place of ONNX Runtime's errors about a model, which become its cause.

    ``path`` is the model: its path, or the bytes of a file.
    """
    try:
        yield
    except Exception as error:
        cause = error.__cause__ if isinstance(error, Error) else error
        if cause is None or not is_of_onnx_runtime(cause):
            raise
        text, line = (error.message, error.where) if isinstance(error, Error) else explained(error, path)
        raise kind(text, where=line) from cause


def is_of_onnx_runtime(error: BaseException) -> bool:
    """Whether ONNX Runtime raised the error; its errors have no common class."""
    return type(error).__module__.startswith("onnxruntime.")


def explained(error: Exception, path: Any) -> tuple[str, str]:
    """What an error of ONNX Runtime about the model at ``path`` means and what would help; and the line of the PyTorch
    program, if the model names it."""
    text = str(error)
    if found := _UNKNOWN_OPERATOR.search(text):
        op = _name(found[1], found[2])
        node, line = _first_node_of(path, op)
        if found[1] is None:
            return f"ONNX Runtime does not know the operator {op}{node} at the opset of the model", line
        return (
            f"ONNX Runtime has no kernel for the custom operator {op}{node}: the third link is missing. Name the "
            "library that has it: libraries=[path] in opbridge.session, verify and export, or --ops path in the "
            "command. One that is made with opbridge may also be loaded first: opbridge.load_operators(path)"
        ), line
    if found := _NO_KERNEL.search(text):
        op = _name(found[1], found[2])
        _, line = _first_node_of(path, op)
        return (
            f"ONNX Runtime has no kernel for {op} of the node '{found[3]}' with the element types of its inputs. A "
            'mapping of your own can cast them (g.cast); those of opbridge do so unless target is "onnx"'
        ), line
    if found := _NO_LIBRARY.search(text):
        return f"ONNX Runtime: {found[0]}", ""
    model = "the model" if isinstance(path, bytes) else os.fspath(path)
    return f"ONNX Runtime cannot run {model}: {type(error).__name__}: {text}", ""


def _name(domain: str | None, name: str) -> str:
    return name if domain is None else f"{domain}::{name}"


def _first_node_of(path: Any, op: str) -> tuple[str, str]:
    """The first node with the operator, as a part of a sentence, and its line; empty if they are not known."""
    if isinstance(path, bytes):
        return "", ""
    try:
        node, line = _core.first_node_of(os.fspath(path), op)
    except Error:  # a file that only ONNX Runtime can read
        return "", ""
    return node and f" of the node '{node}'", line
