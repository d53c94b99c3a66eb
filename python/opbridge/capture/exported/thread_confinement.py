"""Confines what torch.export replaces in the whole process to the exporting thread."""

from __future__ import annotations

import contextlib
import inspect
import operator
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from opbridge.capture.eager_types import leave_types
from opbridge.capture.environment import one_at_a_time
from opbridge.capture.patching import ByThread, current_thread, patch, patch_code
from opbridge.torch_compat import exporting
from opbridge.torch_compat.exporting import CURRENT_TRACER, PATCHER_OF_FX, FxPatch, fx, proxies
from opbridge.torch_compat.messages import is_of_assigned_attributes
from opbridge.torch_compat.patch_points import BRANCH_COMPILATION, REVERSION_OF_FX, REVERT_FX
from opbridge.torch_compat.symbols import UNARY_FUNCTIONS

_LONGEST_TRACE = 10.0  # seconds that a capture waits for other threads


@contextlib.contextmanager
def confine_export() -> Iterator[None]:
    """Confines torch.export's replacements of methods of ``nn.Module`` to this thread.

    ``enter_capture`` has set the flags of torch.compiler that torch.export would set. torch.export also switches off
    mkldnn, nnpack and cudnn, so that the choice of a convolution kernel does not restrict sizes (mkldnn takes no batch
    above 15 in some cases). Here that choice is replaced instead.
    """
    with (
        patch(exporting.COMPILING_STATE, contextlib.nullcontext),
        patch(exporting.BACKEND_DECOMPOSITIONS, contextlib.nullcontext),
        patch(exporting.CONVOLUTION_BACKEND, lambda *_, **__: exporting.CONVOLUTION_WITHOUT_LIBRARY),
        patch(BRANCH_COMPILATION, _compiled_apart(BRANCH_COMPILATION.original)),
        patch(exporting.CALLABLE_IN_PROGRAMS, _with_arithmetic(exporting.CALLABLE_IN_PROGRAMS.original)),
        _confine_fx(),
        patch(exporting.ATTRIBUTE_WARNINGS, types.SimpleNamespace(warn=_warn_of_attributes)),
    ):
        yield


@contextlib.contextmanager
def _confine_fx() -> Iterator[None]:
    """Keeps other threads from tracing with torch.fx, whose state is global (torch.cond traces for its gradient).

    Threads that begin to trace wait for the capture; the capture waits for those that are tracing already.
    """
    original = getattr(fx, PATCHER_OF_FX)
    begun = False

    @contextlib.contextmanager
    def wait_and_enter() -> Iterator[Any]:
        is_nested = not begun and fx.CURRENT_PATCHER is not None
        with contextlib.nullcontext() if is_nested else one_at_a_time, original() as patcher:
            yield patcher

    by_thread = ByThread(original, wait_and_enter, PATCHER_OF_FX)
    setattr(fx, PATCHER_OF_FX, by_thread)
    try:
        latest = time.monotonic() + _LONGEST_TRACE
        while fx.CURRENT_PATCHER is not None and time.monotonic() < latest:
            time.sleep(0.001)
        begun = True
        with (
            patch(REVERSION_OF_FX, REVERT_FX),
            patch(exporting.METHOD_PATCH_OF_FX, _patch_method),
            _confine_tracer(),
            _confine_flag(),
        ):
            yield
    finally:
        by_thread.end()
        setattr(fx, PATCHER_OF_FX, original)


@contextlib.contextmanager
def _confine_flag() -> Iterator[None]:
    """Lets compiled functions of torch.compile, which refuse to run while torch.fx traces, run in other threads.

    torch.cond clears the flag temporarily. In another thread it would later restore the value that this thread had set,
    even if this thread's trace has ended meanwhile.
    """
    if not exporting.FX_FLAG_IS_SHARED:
        yield
        return
    thread, kind = current_thread(), type(fx)

    def flag(module: Any) -> Any:
        return current_thread() == thread and vars(module)[exporting.FX_FLAG]

    def set_flag(module: Any, value: bool) -> None:
        if current_thread() == thread:
            vars(module)[exporting.FX_FLAG] = value

    with patch_code(exporting.FX_IS_TRACING, "here() and original()", here=lambda: current_thread() == thread):
        fx.__class__ = type(kind.__name__, (kind,), {exporting.FX_FLAG: property(flag, set_flag)})
        try:
            yield
        finally:
            fx.__class__ = kind


@contextlib.contextmanager
def _confine_tracer() -> Iterator[None]:
    """Confines the active tracer of make_fx. It is compared with None, so it cannot be a ``ByThread``."""
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
    """Lets Dynamo trace the branches of torch.cond and similar operators anew in each capture.

    Otherwise Dynamo first tries what it has compiled for other calls of torch.cond; evaluating those guards would turn
    symbolic sizes into constants. It would also replace constant sizes by symbols, which fewer operators support.
    """

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(function, types.FunctionType):
            code = function.__code__.replace()  # a new object: Dynamo caches by the identity of the code
            function = types.FunctionType(
                code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
            )
        with exporting.keep_constant_sizes(), leave_types():
            return compile_and_call(function, *args, **kwargs)

    return call


class _Arithmetic(type):
    """Counts as its instances the functions of sizes that torch.export refuses in its programs without a reason."""

    def __instancecheck__(cls, instance: object) -> bool:
        return instance is operator.xor or instance in UNARY_FUNCTIONS


class _OfSizes(metaclass=_Arithmetic):
    pass


def _with_arithmetic(classes: Callable[[Any], tuple[type, ...]]) -> Callable[[Any], tuple[type, ...]]:
    return lambda verifier: (*classes(verifier), _OfSizes)


def _patch_method(patcher: Any, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True) -> None:
    """``patch_method`` of torch.fx for this thread."""
    before = inspect.getattr_static(cls, name)
    patcher.patches_made.append(FxPatch(cls, name, before, ByThread(new_fn, before)))
    patcher.patches_made[-1].patch()


def _warn_of_attributes(message: str, *args: Any, **options: Any) -> None:
    """Drops torch's warning about assigned attributes: a second call of the model finds out which of them matter."""
    if not is_of_assigned_attributes(message):
        warnings.warn(message, *args, **options)
