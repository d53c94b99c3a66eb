"""What torch.export does at length and nobody here reads, left out: a third of its time."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import threading
import traceback
from collections.abc import Iterator

import torch.export._trace
import torch.fx._lazy_graph_module
import torch.fx.proxy

from opbridge.capture.patching import patch_attributes
from opbridge.capture.source import users_frame


class _UsersFrame:
    """In place of ``CapturedTraceback``, which looks up the source text of the whole stack, some 80 frames, for every
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
    """Source lines of the model alone, no Python code generated from graphs that are never run, no search for garbage
    among the many objects that stay, and nothing printed of what torch tries and cannot solve.

    The search for garbage is the interpreter's, and pauses in all threads; their results do not depend on it.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        with (
            _silence("torch._subclasses.fake_tensor"),
            _silence("torch.fx.experimental.symbolic_shapes"),
            patch_attributes(torch.fx.proxy, CapturedTraceback=_UsersFrame),
            patch_attributes(torch.fx.proxy.TracerBase, _filter_traceback_frames=lambda _, frames: frames),
            patch_attributes(torch.export._trace, print=lambda *_, **__: None),
            patch_attributes(torch.fx._lazy_graph_module, _use_lazy_graph_module_flag=True),
        ):
            yield
    finally:
        if collecting:
            gc.enable()


@contextlib.contextmanager
def _silence(name: str) -> Iterator[None]:
    """The logger of this name drops what this thread logs."""
    logger, thread = logging.getLogger(name), threading.get_ident()

    def is_from_elsewhere(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(is_from_elsewhere)
    try:
        yield
    finally:
        logger.removeFilter(is_from_elsewhere)
