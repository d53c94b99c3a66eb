"""Refuses models that compute in other threads, where a capture records nothing."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opbridge.capture.patching import patch_attributes
from opbridge.capture.source import line_of_frame
from opbridge.errors import UnsupportedError

_EXECUTORS = os.path.dirname(futures.__file__) + os.sep


@contextlib.contextmanager
def refuse_other_threads() -> Iterator[None]:
    """Refuses the model if a thread that it starts, or a function that it gives to an executor, makes a tensor."""
    start, submit = Thread.start, ThreadPoolExecutor.submit
    lines: list[str] = []

    def noting_start(self: Thread) -> None:
        caller = sys._getframe(1)
        if not _is_of_executors(caller):  # threads of an executor outlive the capture
            vars(self)["run"] = _noting(self.run, line_of_frame(caller), lines)
        start(self)

    def noting_submit(self: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        caller: FrameType | None = sys._getframe(1)
        while _is_of_executors(caller):
            caller = caller and caller.f_back
        return submit(self, _noting(function, line_of_frame(caller), lines), *args, **kwargs)

    failure = None
    try:
        with (
            patch_attributes(Thread, start=noting_start),
            patch_attributes(ThreadPoolExecutor, submit=noting_submit),
        ):
            yield
    except Exception as error:
        failure = error
    if lines:
        what = "the model computes in another thread, which a capture cannot follow"
        raise UnsupportedError(what, lines[0]) from failure
    if failure is not None:
        raise failure


def _is_of_executors(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename.startswith(_EXECUTORS)


def _noting(function: Callable[..., Any], line: str, lines: list[str]) -> Callable[..., Any]:
    """``function``, which adds ``line`` to ``lines`` if it makes a tensor."""

    class Noting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, (torch.Tensor, list, tuple)) and not isinstance(result, torch.Size):
                lines.append(line)
            return result

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with Noting():
            return function(*args, **kwargs)

    return call
