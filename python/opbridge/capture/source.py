"""Where in the user's program a node comes from, as text."""

from __future__ import annotations

import functools
import linecache
import os
import re
from types import FrameType
from typing import Any

import torch

from opbridge.torch_compat import MODULE_CALL

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OPBRIDGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_RUNS = {"follow", "_exported_once"}  # the functions of opbridge that call the model
_MODULE_CALL = MODULE_CALL.__code__
_FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)\n?')


def is_users(filename: str) -> bool:
    """Whether a frame of this file is outside of torch, of what torch generates, and of opbridge."""
    return filename != "<string>" and not filename.startswith((_TORCH, _OPBRIDGE))


@functools.lru_cache(maxsize=4096)
def line_text(filename: str, line: int, function: str) -> str:
    """``model.py:12 in forward: return self.conv(x)``."""
    code = linecache.getline(filename, line).strip()
    place = f"{os.path.basename(filename)}:{line} in {function}"
    return f"{place}: {code}" if code else place


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of a running program that ``is_users``, or else torch's innermost ``forward``."""
    fallback = None
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            return frame
        if code.co_filename.startswith(_OPBRIDGE):
            if code.co_name in _RUNS:
                break
        elif fallback is None and code.co_name == "forward":
            fallback = frame
        frame = frame.f_back
    return fallback


def line_of_frame(frame: FrameType | None) -> str:
    """The line of ``users_frame``; empty where there is none."""
    frame = users_frame(frame)
    return "" if frame is None else line_text(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def line_of_stack_trace(trace: str) -> str:
    place = place_of_stack_trace(trace)
    return line_text(*place) if place[0] else ""


def place_of_stack_trace(trace: str) -> tuple[str, int, str]:
    """File, line and function of the innermost frame outside of torch, or else of the innermost one, in the text that
    torch.fx keeps."""
    frames = _FRAME.findall("  " + trace.lstrip()) or [("", 0, "")]
    outside = [frame for frame in frames if not frame[0].startswith(_TORCH)]
    filename, line, function = (outside or frames)[-1]
    return filename, int(line), function


class Scopes:
    """The paths of a model's modules, by the frames of their calls: a hook would be one of all threads."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}

    def of_frame(self, frame: FrameType | None) -> str:
        """The path of the innermost module that runs; ``layer1.0.conv1``."""
        while frame is not None:
            if frame.f_code is _MODULE_CALL:
                path: str | None = self._paths.get(id(frame.f_locals["self"]))
                if path is not None:
                    return path
            frame = frame.f_back
        return ""


def scope_of_stack(stack: dict[str, Any] | None) -> str:
    """The path of the innermost module: ``layer1.0.conv1``."""
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    return str(path)
