"""Finds who asks a symbolic size for its number: the user's code, or a layer of torch that is written in Python."""

from __future__ import annotations

import os
import sys
from types import FrameType

import torch

from opbridge.capture.rewrites import control_flow
from opbridge.capture.source import line_of_frame, runs_users
from opbridge.capture.suppressed_errors import Caught
from opbridge.errors import UnsupportedError
from opbridge.torch_compat.symbols import FILE_OF_ASSOCIATIVE_SCAN, FILE_OF_TENSOR, SymNode

_LAYERS = (  # files and folders
    torch.functional.__file__,
    FILE_OF_TENSOR,
    os.path.dirname(torch.nn.__file__),
    os.path.dirname(torch.distributions.__file__),
    os.path.dirname(torch.func.vmap.__code__.co_filename),
    os.path.dirname(torch.autograd.__file__),
)
_TORCHSCRIPT = os.path.join(os.path.dirname(os.path.dirname(__file__)), "torchscript") + os.sep
# The files with the replacements for methods of symbols and for builtins.
GUARDS = tuple(
    os.path.join(os.path.dirname(__file__), name)
    for name in ("branches.py", "builtin_calls.py", "caches_by_size.py", "conversions.py", "python_functions.py")
)
_TRANSPARENT = (torch.__file__, sys.modules[SymNode.__module__].__file__, *GUARDS)


def asking_frame(frame: FrameType) -> FrameType:
    """The innermost frame that is neither in torch's code of symbols, nor in a replacement of a builtin, nor in the
    interpreter of TorchScript, which runs each node in a frame at the user's line."""
    while frame.f_back is not None and (
        frame.f_code.co_filename in _TRANSPARENT or frame.f_code.co_filename.startswith(_TORCHSCRIPT)
    ):
        frame = frame.f_back
    return frame


def asked_by_model(frame: FrameType) -> bool:
    """Whether the conversion comes from the user's code, from torch's associative_scan, or from the replacements of
    torch.cond and similar ones."""
    asking = asking_frame(frame)
    return runs_users(asking) or asking.f_code.co_filename in (control_flow.__file__, FILE_OF_ASSOCIATIVE_SCAN)


def asked_by_layer(frame: FrameType) -> bool:
    """Whether the conversion comes from Python code of torch: a function, a layer, a distribution or a transform."""
    return asking_frame(frame).f_code.co_filename.startswith(_LAYERS)


def asked_by_cpp(file: str) -> bool:
    """Whether a C++ function of torch asks a symbol for its number. C++ passes its own ``file``; Python code passes
    none, or the file of a caller."""
    return file.endswith((".cc", ".cpp", ".h"))


def refused(caught: Caught, what: str) -> UnsupportedError:
    refusal = UnsupportedError(what, line_of_frame(asking_frame(sys._getframe(1))))
    caught.note(refusal)
    return refusal
