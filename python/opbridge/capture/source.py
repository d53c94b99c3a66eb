"""The source locations of nodes in the user's program, as text."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy
import torch

from opbridge.torch_compat import MODULE_CALL
from opbridge.torch_compat.messages import frames_of
from opbridge.torch_compat.symbols import is_signature

_TORCH = os.path.dirname(torch.__file__) + os.sep
_NUMPY = os.path.dirname(numpy.__file__) + os.sep
_PYTHON = os.path.dirname(os.__file__) + os.sep
_OPBRIDGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_RUN_OF_PART = "run_part"  # the function that runs a module within TorchScript
_RUNS = {"follow", "_exported_once", "check_against_example"}  # the functions of opbridge that call the model
_MODULE_CALL = MODULE_CALL.__code__

_FROM_TEXT = "<string>"  # the file name of code that is compiled from a text, as by exec()


def is_users(filename: str) -> bool:
    """Whether the file is neither torch's nor opbridge's, nor code compiled from a text."""
    return filename != _FROM_TEXT and not filename.startswith((_TORCH, _OPBRIDGE))


def runs_users(frame: FrameType) -> bool:
    """Whether the frame runs the user's code. Code compiled from a text, as by exec(), may be the user's or torch's."""
    if frame.f_code.co_filename != _FROM_TEXT:
        return is_users(frame.f_code.co_filename)
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return not is_signature(frame.f_code) and package not in ("torch", "opbridge")


def is_of_python(filename: str) -> bool:
    """Whether the file belongs to Python's standard library."""
    return filename.startswith(_PYTHON) and "site-packages" not in filename and "dist-packages" not in filename


def _names_line(frame: FrameType) -> bool:
    """Whether a message may name the line of the frame. A line of NumPy says less than the line that calls NumPy."""
    return runs_users(frame) and not frame.f_code.co_filename.startswith(_NUMPY)


def line_text(filename: str, line: int, function: str) -> str:
    """``model.py:12 in forward: return self.conv(x)``."""
    code = linecache.getline(filename, line).strip()
    location = f"{os.path.basename(filename)}:{line} in {function}"
    return f"{location}: {code}" if code else location


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost running frame of the user's code (``is_users``) outside of NumPy, or else torch's innermost
    ``forward``."""
    fallback = None
    while frame is not None:
        code = frame.f_code
        if _names_line(frame):
            return frame
        if code.co_filename.startswith(_OPBRIDGE):
            if code.co_name in _RUNS:
                break
        elif fallback is None and code.co_name == "forward":
            fallback = frame
        frame = frame.f_back
    return fallback


def users_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The running frames of the user's code within the capture, the innermost first."""
    while frame is not None:
        code = frame.f_code
        if runs_users(frame):
            yield frame
        elif code.co_filename.startswith(_OPBRIDGE) and code.co_name in _RUNS:
            return
        frame = frame.f_back


def line_of_frame(frame: FrameType | None) -> str:
    """The line of ``users_frame``; empty if there is none."""
    frame = users_frame(frame)
    return "" if frame is None else line_text(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def line_of_error(error: BaseException) -> str:
    """The innermost line of the user's code in the error's traceback; empty if there is none."""
    text, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if _names_line(trace.tb_frame) and not is_of_python(code.co_filename):
            text = line_text(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return text


def line_of_location(location: tuple[str, int, str]) -> str:
    """The text of a file, a line, and the function in it; empty if the file is."""
    return line_text(*location) if location[0] else ""


def line_of_stack_trace(trace: str) -> str:
    return line_of_location(location_of_stack_trace(trace))


def location_of_stack_trace(trace: str) -> tuple[str, int, str]:
    """File, line and function of a frame in a stack trace of torch.fx: the innermost one outside of torch, or else the
    innermost one."""
    frames = frames_of(trace) or [("", 0, "")]
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    return (outside or frames)[-1]


class Scopes:
    """Finds the paths of the running modules from the frames of their calls, since hooks would act in all threads."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}

    def of_frame(self, frame: FrameType | None) -> str:
        """The path of the innermost running module: ``layer1.0.conv1``."""
        part = ""
        while frame is not None:
            code = frame.f_code
            if code is _MODULE_CALL:
                path: str | None = self._paths.get(id(frame.f_locals["self"]))
                if path is not None:
                    return f"{path}.{part}" if path and part else path or part
            elif code.co_name == _RUN_OF_PART and not part and code.co_filename.startswith(_OPBRIDGE):
                part = frame.f_locals["path"]
            frame = frame.f_back
        return part


def scope_of_stack(stack: dict[str, Any] | None) -> str:
    """The path of the innermost module: ``layer1.0.conv1``."""
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    return str(path)
