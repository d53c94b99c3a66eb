"""What torch.export replaces for the whole process, kept to the thread that exports."""

from __future__ import annotations

import contextlib
import inspect
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from opbridge.capture.environment import one_at_a_time
from opbridge.capture.patching import ByThread, current_thread, patch, patch_code
from opbridge.torch_compat import exporting
from opbridge.torch_compat.exporting import CURRENT_TRACER, PATCHER_OF_FX, FxPatch, fx, proxies
from opbridge.torch_compat.messages import is_of_assigned_attributes

_LONGEST_TRACE = 10.0  # seconds that a capture waits for other threads


@contextlib.contextmanager
def confine_export() -> Iterator[None]:
    """The methods of ``nn.Module`` that torch.export replaces are others in this thread alone.

    ``enter_capture`` sets the flags of torch.compiler that torch.export would set again. torch.export switches off
    mkldnn, nnpack and cudnn, so that the choice of a kernel for a convolution sets no bounds to its sizes (mkldnn takes
    no batch above 15 in some cases). Here the choice is made at once.
    """
    with (
        patch(exporting.COMPILING_STATE, contextlib.nullcontext),
        patch(exporting.BACKEND_DECOMPOSITIONS, contextlib.nullcontext),
        patch(exporting.CONVOLUTION_BACKEND, lambda *_, **__: exporting.CONVOLUTION_WITHOUT_LIBRARY),
        patch(exporting.BRANCH_COMPILATION, _compiled_apart(exporting.BRANCH_COMPILATION.original)),
        _confine_fx(),
        patch(exporting.ATTRIBUTE_WARNINGS, types.SimpleNamespace(warn=_warn_of_attributes)),
    ):
        yield


@contextlib.contextmanager
def _confine_fx() -> Iterator[None]:
    """No other thread traces by torch.fx, as torch.cond does to be differentiated: its state is one for all threads.

    Threads that begin to trace wait for the capture; for those that trace already the capture waits.
    """
    original = getattr(fx, PATCHER_OF_FX)
    begun = False

    @contextlib.contextmanager
    def waiting() -> Iterator[Any]:
        is_nested = not begun and fx.CURRENT_PATCHER is not None
        with contextlib.nullcontext() if is_nested else one_at_a_time, original() as patcher:
            yield patcher

    by_thread = ByThread(original, waiting, PATCHER_OF_FX)
    setattr(fx, PATCHER_OF_FX, by_thread)
    try:
        latest = time.monotonic() + _LONGEST_TRACE
        while fx.CURRENT_PATCHER is not None and time.monotonic() < latest:
            time.sleep(0.001)
        begun = True
        with patch(exporting.METHOD_PATCH_OF_FX, _patch_method), _confine_tracer(), _confine_flag():
            yield
    finally:
        by_thread.end()
        setattr(fx, PATCHER_OF_FX, original)


def _confine_flag() -> contextlib.AbstractContextManager[None]:
    """What torch.compile has compiled refuses to run where torch.fx traces, and is to run in other threads."""
    if not exporting.FX_FLAG_IS_SHARED:
        return contextlib.nullcontext()
    thread = current_thread()
    return patch_code(exporting.FX_IS_TRACING, "here() and original()", here=lambda: current_thread() == thread)


@contextlib.contextmanager
def _confine_tracer() -> Iterator[None]:
    """The tracer of make_fx that is at work, which others compare with None: hence no ``ByThread``."""
    thread, tracers = current_thread(), [None]

    def current(module: Any) -> Any:
        return tracers[-1] if current_thread() == thread else vars(module)[CURRENT_TRACER]

    @contextlib.contextmanager
    def set_tracer(tracer: Any) -> Iterator[None]:
        tracers.append(tracer)
        try:
            yield
        finally:
            tracers.pop()

    kind: Any = type(proxies)
    with patch(exporting.TRACER_OF_MAKE_FX, set_tracer):
        proxies.__class__ = type(kind.__name__, (kind,), {CURRENT_TRACER: property(current)})
        try:
            yield
        finally:
            proxies.__class__ = kind


def _compiled_apart(compile_and_call: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo traces the branches of torch.cond and the like anew in each capture.

    What it has compiled for other calls of torch.cond would be tried first, and asking whether it holds makes constants
    of sizes that are symbols.
    """

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(function, types.FunctionType):
            code = function.__code__.replace()  # another object, by which Dynamo knows what it has compiled
            function = types.FunctionType(
                code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
            )
        return compile_and_call(function, *args, **kwargs)

    return call


def _patch_method(patcher: Any, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
    """``patch_method`` of torch.fx for this thread."""
    before = inspect.getattr_static(cls, name)
    patcher.patches_made.append(FxPatch(cls, name, before, ByThread(new_fn, before)))
    patcher.patches_made[-1].patch()


def _warn_of_attributes(message: str, *args: Any, **options: Any) -> None:
    """Which of the attributes that a model assigns matter is found out by calling it again."""
    if not is_of_assigned_attributes(message):
        warnings.warn(message, *args, **options)
