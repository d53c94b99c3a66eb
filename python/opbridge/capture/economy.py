"""What torch.export does at length and nobody here reads, left out: a third of its time."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
import traceback
from collections.abc import Iterator
from types import FrameType

import torch.export._trace
import torch.fx.proxy
from torch.fx._lazy_graph_module import _use_lazy_graph_module

from opbridge.capture.replaced import replaced


class _ForwardFrames:
    """In place of ``CapturedTraceback``, which looks up the source text of the whole stack, some 80 frames, for every
    node; torch.fx keeps those named ``forward``."""

    @staticmethod
    def extract() -> type[_ForwardFrames]:
        return _ForwardFrames

    @staticmethod
    def summary() -> traceback.StackSummary:
        frames = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code.co_name == "forward":
                frames.append(traceback.FrameSummary(code.co_filename, frame.f_lineno, "forward", lookup_line=False))
            frame = frame.f_back
        return traceback.StackSummary.from_list(reversed(frames))


@contextlib.contextmanager
def economical_export() -> Iterator[None]:
    """Source lines of the model alone, no Python code generated from graphs that are never run, no search for garbage
    among the many objects that stay, and neither a graph nor stacks printed where the export fails."""
    collecting = gc.isenabled()
    of_fakes = logging.getLogger("torch._subclasses.fake_tensor")
    level = of_fakes.level
    gc.disable()
    of_fakes.setLevel(logging.CRITICAL)
    try:
        with (
            replaced(torch.fx.proxy, CapturedTraceback=_ForwardFrames),
            replaced(torch.export._trace, print=lambda *_, **__: None),
            _use_lazy_graph_module(True),
        ):
            yield
    finally:
        of_fakes.setLevel(level)
        if collecting:
            gc.enable()
