"""Skips work of torch.export whose results opbridge does not use: a third of its time."""

from __future__ import annotations

import contextlib
import gc
import sys
import traceback
from collections.abc import Iterator

from opbridge.capture.patching import patch
from opbridge.capture.source import users_frame
from opbridge.capture.torch_logs import silence_torch_logs
from opbridge.torch_compat.exporting import (
    LAZY_GRAPH_MODULE,
    PRINT,
    STACK_TRACE,
    STACK_TRACE_FILTER,
)


class _UsersFrame:
    """Replaces ``CapturedTraceback``, which looks up the source text of the whole stack, some 80 frames, for every
    node."""

    @staticmethod
    def extract() -> type[_UsersFrame]:
        return _UsersFrame

    @staticmethod
    def summary() -> traceback.StackSummary:
        frame = users_frame(sys._getframe(1))
        frames = []
        if frame is not None:
            code = frame.f_code
            frames = [traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False)]
        return traceback.StackSummary.from_list(frames)


@contextlib.contextmanager
def skip_overhead() -> Iterator[None]:
    """Collects only source lines of the model, generates no Python code for graphs that never run, pauses the garbage
    collector, and suppresses log messages about equations that torch tries and cannot solve.

    The garbage collector belongs to the interpreter, so it pauses in all threads. Their results do not depend on it.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with (
            silence_torch_logs(),
            patch(STACK_TRACE, _UsersFrame),
            patch(STACK_TRACE_FILTER, lambda _, frames: frames),
            patch(PRINT, lambda *_, **__: None),
            patch(LAZY_GRAPH_MODULE, True),
        ):
            yield
    finally:
        if collecting:
            gc.enable()
