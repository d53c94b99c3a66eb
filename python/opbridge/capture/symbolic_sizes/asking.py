"""Finds who asks a symbolic size for its number: the user's code, or a layer of torch that is written in Python."""

from __future__ import annotations

import dis
import functools
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any

import torch

from opbridge.capture.rewrites import control_flow, equality
from opbridge.capture.source import line_of_frame, runs_users
from opbridge.capture.suppressed_errors import Caught
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import pytree, schema_of
from opbridge.torch_compat.exporting import CODE_OF_EXTREMA
from opbridge.torch_compat.symbols import (
    BRANCHING_FILES,
    FILE_OF_PROXIES,
    FILE_OF_TENSOR,
    SymNode,
    ToFloat,
    call_of_function,
    call_of_operator,
)

_LAYERS = (  # files and folders
    torch.functional.__file__,
    FILE_OF_TENSOR,
    os.path.dirname(torch.nn.__file__),
    os.path.dirname(torch.distributions.__file__),
    os.path.dirname(torch.func.vmap.__code__.co_filename),
    os.path.dirname(torch.autograd.__file__),
)
_CAPTURE = os.path.dirname(os.path.dirname(__file__))
_LOOPS = tuple(os.path.join(_CAPTURE, "loops", name) for name in ("recording.py", "higher_order.py"))
_BRANCHING = (*BRANCHING_FILES, control_flow.__file__, equality.__file__, *_LOOPS)  # by sizes, as a model does
_SPLITS = ("split", "split_copy", "unsafe_split", "chunk", "unsafe_chunk")
_TORCHSCRIPT = os.path.join(_CAPTURE, "torchscript") + os.sep
_RECORDERS = (FILE_OF_PROXIES, os.path.join(_CAPTURE, "traced", "recorder.py"))
# The files with the replacements for methods of symbols and for builtins.
GUARDS = tuple(
    os.path.join(os.path.dirname(__file__), name)
    for name in ("branches.py", "builtin_calls.py", "caches_by_size.py", "conversions.py", "python_functions.py")
)
_PATCHING = os.path.join(_CAPTURE, "patching.py")  # calls the builtins that are replaced
# These ask what a test is.
_OF_LOOPS = [os.path.join(_CAPTURE, "loops", name) for name in ("runtime.py", "lists.py", "parts.py")]
_TRANSPARENT = (torch.__file__, sys.modules[SymNode.__module__].__file__, _PATCHING, *_OF_LOOPS, *GUARDS)


def asking_frame(frame: FrameType) -> FrameType:
    """The innermost frame that is neither in torch's code of symbols, nor in a replacement of a builtin, nor in the
    interpreter of TorchScript, which runs each node in a frame at the user's line."""
    while frame.f_back is not None and (
        frame.f_code.co_filename in _TRANSPARENT
        or frame.f_code in CODE_OF_EXTREMA
        or frame.f_code.co_filename.startswith(_TORCHSCRIPT)
    ):
        frame = frame.f_back
    return frame


def asked_by_model(frame: FrameType) -> bool:
    """Whether the conversion comes from the user's code, from a file of torch that branches like a model, or from the
    replacements of torch.cond, torch.equal and similar ones."""
    asking = asking_frame(frame)
    return runs_users(asking) or asking.f_code.co_filename in _BRANCHING


def asked_by_capture(frame: FrameType) -> bool:
    """Whether this package asks for itself."""
    return asking_frame(frame).f_code.co_filename.startswith(_CAPTURE + os.sep)


def asked_by_layer(frame: FrameType) -> bool:
    """Whether the conversion comes from Python code of torch: a function, a layer, a distribution or a transform."""
    return asking_frame(frame).f_code.co_filename.startswith(_LAYERS)


def frame_of_python(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of the user's code or of a layer of torch."""
    while frame is not None and not (runs_users(frame) or frame.f_code.co_filename.startswith(_LAYERS)):
        frame = frame.f_back
    return frame


def asked_by_cpp(file: str) -> bool:
    """Whether a C++ function of torch asks a symbol for its number. C++ passes its own ``file``; Python code passes
    none, or the file of a caller."""
    return file.endswith((".cc", ".cpp", ".h"))


def asked_by_shape_rule(frame: FrameType | None, number: Any) -> bool:
    """Whether torch computes the result's shape and type of a call that the program has, with ``number``, an
    expression, as an argument: the program computes the argument itself."""
    while frame is not None and frame.f_back is not None and not runs_users(frame):
        if (called := call_of_operator(frame)) and frame.f_back.f_code.co_filename in _RECORDERS:
            return any(_is(leaf, number) for leaf in pytree.tree_leaves(called[1:]))
        frame = frame.f_back
    return False


def _is(value: Any, number: Any) -> bool:
    if not isinstance(value, (torch.SymInt, torch.SymFloat)):
        return False
    return number in (value.node.expr, ToFloat(value.node.expr))


def argument_asked(frame: FrameType | None, number: Any) -> str:
    """Names the argument of a function of torch that is ``number``, an expression: `` for the argument n of
    polygamma``. Nothing if there is none."""
    for function, args, kwargs in _calls(frame):
        arguments: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for place, value in arguments:
            if _is(value, number):
                name = _name_of(function)
                return f" for the argument {_argument_name(name, place)} of {name}"
    return ""


def splits(frame: FrameType | None) -> tuple[str, bool]:
    """The name of the function that makes parts of a tensor, and asks how many, and whether the model gives their
    number, which is less for some small sizes; no name if another function asks."""
    for function, args, kwargs in _calls(frame):
        if (name := _name_of(function)) in _SPLITS:
            return name, "chunk" in name and int in map(type, (*args[1:2], kwargs.get("chunks")))
    return "", False


def unpacks_parts(frame: FrameType | None) -> bool:
    """Whether ``frame``, which makes parts of a tensor, assigns them to as many variables: it has no result if their
    number is another."""
    return frame is not None and frame.f_lasti in _unpacking(frame.f_code)


@functools.lru_cache(maxsize=256)
def _unpacking(code: CodeType) -> frozenset[int]:
    """The offsets at which results are unpacked, and those of the calls that return them."""
    pairs = itertools.pairwise(dis.get_instructions(code))
    return frozenset(each.offset for pair in pairs if pair[1].opname == "UNPACK_SEQUENCE" for each in pair)


def _calls(frame: FrameType | None) -> Iterator[tuple[Any, Sequence[Any], dict[str, Any]]]:
    """The calls of operators and functions of torch that run, from the innermost up to the user's code."""
    while frame is not None and not runs_users(frame):
        call = call_of_operator(frame) or call_of_function(frame)
        if call is not None:
            yield call
        frame = frame.f_back


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", function)).split(".")[0]


def _argument_name(function: str, place: int | str) -> str:
    packet = getattr(torch.ops.aten, function, None)
    if isinstance(place, str) or packet is None:
        return str(place)
    schemas = [schema_of(getattr(packet, overload)).arguments for overload in packet.overloads()]
    names = {
        arguments[place].name
        for arguments in schemas
        if place < len(arguments) and "Tensor" not in str(arguments[place].type)
    }
    return names.pop() if len(names) == 1 else str(place)


# Whether a model is refused that takes the number of a tensor's parts for the example's.
refuses_parts_of_example: ContextVar[bool] = ContextVar("refuses_parts_of_example", default=False)


class NeedsNumberOfData(UnsupportedError):
    """The model needs a number that depends on data, as by ``range()``."""


def refused(caught: Caught, what: str, kind: type[UnsupportedError] = UnsupportedError) -> UnsupportedError:
    refusal = kind(what, line_of_frame(asking_frame(sys._getframe(1))))
    caught.note(refusal)
    return refusal
