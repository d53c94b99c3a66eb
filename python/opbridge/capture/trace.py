"""capture="trace": one run of the model, operator by operator.

Without dynamic sizes the model runs on the real inputs, and Python branches go the way of this run. With them
it runs on fake tensors, whose sizes are symbols; so it does where sizes depend on data (``nonzero``).

Operators are seen where torch.export sees them, before they are decomposed. ``torch.compiler.is_exporting()`` is
true meanwhile, so that models take the same way in both captures; ``torch.jit.is_tracing()`` is false, for
torch.jit does not trace. TorchScript is run as any other code.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.nn.modules import module as hooks
from torch.utils import _pytree as pytree

from opbridge import _core
from opbridge.capture.attributes import attributes_kept
from opbridge.capture.control_flow import control_flow_followed
from opbridge.capture.dynamic import DynamicSizes
from opbridge.capture.inputs import Inputs
from opbridge.capture.program import Sizes
from opbridge.capture.reads import ReadsSeenBy
from opbridge.capture.recorder import Recorder, SizesDependOnData
from opbridge.capture.replaced import replaced
from opbridge.capture.substitutes import as_it_is_or_substituted


def capture_trace(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes) -> _core.Graph:
    return as_it_is_or_substituted(lambda: _capture(model, inputs, sizes))


def _capture(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes) -> _core.Graph:
    if sizes.shapes is None:
        try:
            return follow(model, inputs, inputs.leaves, Sizes(), for_real=True)
        except SizesDependOnData:
            pass  # only symbols can stand for them
    from opbridge.capture.fake import capture_fake

    return capture_fake(model, inputs, sizes)


def follow(
    model: torch.nn.Module,
    inputs: Inputs,
    leaves: list[Any],
    sizes: Sizes,
    for_real: bool,
) -> _core.Graph:
    """Calls the model with ``leaves``, real or fake tensors, in the places of its inputs."""
    scopes = [""]
    recorder = Recorder(model, sizes, scopes, for_real)
    for name, leaf in zip(inputs.names, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            recorder.add_input(name, leaf)
    args, kwargs = inputs.with_leaves(leaves)
    try:
        with (
            attributes_kept(model),
            _scopes_of_modules(model, scopes),
            ReadsSeenBy(recorder.read),
            control_flow_followed(),
            _operators_seen_by(recorder.call),
            _torchscript_as_written(),
            _compiled_code_as_written(),
        ):
            returned = model(*args, **kwargs)
        return recorder.finish(pytree.tree_leaves(returned))
    finally:
        recorder.originals.restore()


class _Mode(SchemaCheckMode):  # type: ignore[no-untyped-call]
    """Sees each operator at the dispatch key PreDispatch.

    torch admits a few classes of modes there; of these, SchemaCheckMode has no meaning to the rest of torch.
    """

    _dispatch_key = torch._C.DispatchKey.PreDispatch  # where torch puts it back, as when it prints a tensor

    def __init__(self, call: Callable[[Any, Any, Any], Any]) -> None:
        super().__init__()
        # Not a method of the class, for torch would wrap it in a call of Dynamo.
        self.__dict__["__torch_dispatch__"] = lambda func, types, args, kwargs: call(func, args, kwargs or {})


@contextlib.contextmanager
def _operators_seen_by(call: Callable[[Any, Any, Any], Any]) -> Iterator[None]:
    modes: Any = torch._ops
    with enable_python_dispatcher():
        modes._set_mode_pre_dispatch(_Mode(call))
        try:
            yield
        finally:
            modes._pop_mode_from_pre_dispatch()


def _torchscript_as_written() -> contextlib.AbstractContextManager[None]:
    """Without the passes that fuse its operators."""
    jit: Any = torch.jit
    unoptimized: contextlib.AbstractContextManager[None] = jit.optimized_execution(False)
    return unoptimized


@contextlib.contextmanager
def _compiled_code_as_written() -> Iterator[None]:
    """Of what torch.compile was given, which has imported torch._dynamo then, or is given meanwhile, the operators are
    seen. torch.cond and its like give it themselves."""

    def as_written(model: Any = None, **_: Any) -> Any:
        return as_written if model is None else model

    dynamo_is_there = "torch._dynamo" in sys.modules
    eager = torch.compiler.set_stance("force_eager") if dynamo_is_there else contextlib.nullcontext()
    with replaced(torch, compile=as_written), eager:
        yield


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
