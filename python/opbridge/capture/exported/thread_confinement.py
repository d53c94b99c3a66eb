"""What torch.export replaces for the whole process, kept to the thread that exports."""

from __future__ import annotations

import contextlib
import inspect
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch._higher_order_ops.utils
import torch.export._trace
import torch.fx._symbolic_trace
import torch.fx.experimental.proxy_tensor
from torch._functorch._aot_autograd import frontend_utils

from opbridge.capture.environment import one_at_a_time
from opbridge.capture.patching import ByThread, current_thread, patch_attributes

_fx: Any = torch.fx._symbolic_trace
_control_flow: Any = torch._higher_order_ops.utils
_proxies: Any = torch.fx.experimental.proxy_tensor
_LONGEST_TRACE = 10.0  # seconds that a capture waits for other threads


@contextlib.contextmanager
def confine_export() -> Iterator[None]:
    """The methods of ``nn.Module`` that torch.export replaces are others in this thread alone.

    ``enter_capture`` sets the flags of torch.compiler that torch.export would set again. torch.export switches off
    mkldnn, nnpack and cudnn, so that the choice of a kernel for a convolution sets no bounds to its sizes (mkldnn takes
    no batch above 15 in some cases). Here the choice is made at once.
    """
    trace: Any = torch.export._trace
    slow = torch._C._ConvBackend.Slow2d  # type: ignore[attr-defined]
    with (
        patch_attributes(
            trace,
            _compiling_state_context=contextlib.nullcontext,
            _ignore_backend_decomps=contextlib.nullcontext,
        ),
        patch_attributes(torch._C, _select_conv_backend=lambda *_, **__: slow),
        patch_attributes(_control_flow, _hop_compile_and_call=_compiled_apart(_control_flow._hop_compile_and_call)),
        _confine_fx(),
        patch_attributes(frontend_utils, warnings=types.SimpleNamespace(warn=_warn_of_attributes)),
    ):
        yield


@contextlib.contextmanager
def _confine_fx() -> Iterator[None]:
    """No other thread traces by torch.fx, as torch.cond does to be differentiated: its state is one for all threads.

    Threads that begin to trace wait for the capture; for those that trace already the capture waits.
    """
    original = _fx._new_patcher
    begun = False

    @contextlib.contextmanager
    def waiting() -> Iterator[Any]:
        is_nested = not begun and _fx.CURRENT_PATCHER is not None
        with contextlib.nullcontext() if is_nested else one_at_a_time, original() as patcher:
            yield patcher

    _fx._new_patcher = ByThread(original, waiting)
    try:
        latest = time.monotonic() + _LONGEST_TRACE
        while _fx.CURRENT_PATCHER is not None and time.monotonic() < latest:
            time.sleep(0.001)
        begun = True
        with patch_attributes(_fx._Patcher, patch_method=_patch_method), _confine_tracer():
            yield
    finally:
        _fx._new_patcher.end()
        _fx._new_patcher = original


@contextlib.contextmanager
def _confine_tracer() -> Iterator[None]:
    """The tracer of make_fx that is at work, which others compare with None: hence no ``ByThread``."""
    thread, tracers = current_thread(), [None]
    name = "_CURRENT_MAKE_FX_TRACER"

    def current(module: Any) -> Any:
        return tracers[-1] if current_thread() == thread else vars(module)[name]

    @contextlib.contextmanager
    def set_tracer(tracer: Any) -> Iterator[None]:
        tracers.append(tracer)
        try:
            yield
        finally:
            tracers.pop()

    kind: Any = type(_proxies)
    with patch_attributes(_proxies, _set_make_fx_tracer=set_tracer):
        _proxies.__class__ = type(kind.__name__, (kind,), {name: property(current)})
        try:
            yield
        finally:
            _proxies.__class__ = kind


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
    """``torch.fx._symbolic_trace._Patcher.patch_method`` for this thread."""
    before = inspect.getattr_static(cls, name)
    patcher.patches_made.append(_fx._PatchedFnSetAttr(cls, name, before, ByThread(new_fn, before)))
    patcher.patches_made[-1].patch()


def _warn_of_attributes(message: str, *args: Any, **options: Any) -> None:
    """Which of the attributes that a model assigns matter is found out by calling it again."""
    if "assigned during export" not in message:
        warnings.warn(message, *args, **options)
