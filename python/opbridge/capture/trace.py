"""capture="trace": one run of the model, operator by operator.

Without dynamic sizes the model runs on the real inputs, and Python branches go the way of this run. With
them it runs on fake tensors, whose sizes are symbols. Operators are seen where torch.export sees them, before
they are decomposed. ``torch.compiler.is_exporting()`` is true meanwhile, so that models take the same way in
both captures; ``torch.jit.is_tracing()`` is false, for nothing of torch.jit is involved.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.nn.modules import module as hooks
from torch.utils import _pytree as pytree

from opbridge import _core
from opbridge.capture.dynamic import DynamicSizes
from opbridge.capture.inputs import Inputs
from opbridge.capture.program import Sizes
from opbridge.capture.recorder import Recorder


def capture_trace(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes) -> _core.Graph:
    if sizes.shapes is not None:
        from opbridge.capture.fake import capture_fake

        return capture_fake(model, inputs, sizes)
    return follow(model, inputs, inputs.leaves, Sizes(), _run_for_real)


def follow(
    model: torch.nn.Module,
    inputs: Inputs,
    leaves: list[Any],
    sizes: Sizes,
    run: Callable[[Callable[..., Any], Any, Any], Any],
) -> _core.Graph:
    """Calls the model with ``leaves`` in the places of its inputs, and each operator in it by ``run``."""
    scopes = [""]
    recorder = Recorder(model, sizes, scopes, run)
    for name, leaf in zip(inputs.names, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            recorder.add_input(name, leaf)
    args, kwargs = inputs.with_leaves(leaves)
    try:
        with (
            _scopes_of_modules(model, scopes),
            _reads_seen_by(recorder.read),
            _operators_seen_by(recorder.call),
        ):
            returned = model(*args, **kwargs)
        return recorder.finish(pytree.tree_leaves(returned))
    finally:
        recorder.originals.restore()


def _run_for_real(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    with torch._C._DisablePythonDispatcher():
        return function(*args, **kwargs)


class _Mode(SchemaCheckMode):  # type: ignore[no-untyped-call]
    """Sees each operator at the dispatch key PreDispatch.

    torch admits a few classes of modes there; of these, SchemaCheckMode has no meaning to the rest of torch.
    """

    def __init__(self, call: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._call(func, args, kwargs or {})


@contextlib.contextmanager
def _operators_seen_by(call: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    modes: Any = torch._ops
    with enable_python_dispatcher():
        modes._set_mode_pre_dispatch(_Mode(call))
        try:
            yield
        finally:
            modes._pop_mode_from_pre_dispatch()


@contextlib.contextmanager
def _reads_seen_by(read: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Calls ``read`` where a tensor's data leave torch by a way that is no operator."""

    def reading(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            read(tensor)
            return method(tensor, *args, **kwargs)

        return call

    names = ("numpy", "tolist")  # methods of the base class: to delete the attribute is to restore them
    for name in names:
        setattr(torch.Tensor, name, reading(getattr(torch.Tensor, name)))
    try:
        yield
    finally:
        for name in names:
            delattr(torch.Tensor, name)


@contextlib.contextmanager
def _scopes_of_modules(model: torch.nn.Module, scopes: list[str]) -> Iterator[None]:
    """Keeps the path of the module that runs at the end of ``scopes``."""
    paths = {id(module): path for path, module in model.named_modules()}

    def enter(module: torch.nn.Module, args: Any) -> None:
        scopes.append(paths.get(id(module), scopes[-1]))

    def leave(module: torch.nn.Module, args: Any, output: Any) -> None:
        scopes.pop()

    handles = (
        hooks.register_module_forward_pre_hook(enter),
        hooks.register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
