"""The state of torch while a model is captured or verified: the mode of its modules, flags, locks."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

import torch

from opbridge.capture.inputs import torchscript_in
from opbridge.capture.patching import current_thread, patch, patch_code
from opbridge.capture.rewrites.batched_gradients import follow_batched_gradients
from opbridge.capture.rewrites.causal_attention import patch_causal_bias
from opbridge.capture.rewrites.tensor_subclasses import keep_subclasses
from opbridge.capture.symbolic_sizes.try_blocks import in_try_block
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import PredispatchModes, dynamo_if_loaded, entered_transforms, leave_transforms
from opbridge.torch_compat.messages import lacks_gradients
from opbridge.torch_compat.patch_points import (
    ANNOTATION,
    CHECKS_OF_DISTRIBUTIONS,
    COMPILE_SESSION,
    FX_IS_TRACING_OR_EXPORTING,
    IS_COMPILING,
    IS_EXPORTING,
    PREDISPATCH_MODES,
    REVERSION_OF_FX,
)

T = TypeVar("T")

# Replacements for one thread must be nested, so a second thread waits until the first one has undone its replacements.
one_at_a_time = threading.RLock()

# The mode of the model's modules: evaluation or training for all modules, or the mode that each module has.
Mode = Literal["evaluation", "training", "own"]


def with_gradients_if_needed(run: Callable[[bool], T]) -> T:
    """Calls ``run(False)``. If the model fails because it differentiates without ``torch.enable_grad()``, calls
    ``run(True)``. The argument says whether autograd is on while the model runs."""
    try:
        return run(False)
    except Exception as error:
        if not lacks_gradients(error):
            raise
    return run(True)


@contextlib.contextmanager
def enter_inference(model: torch.nn.Module, mode: Mode = "evaluation", with_gradients: bool = False) -> Iterator[None]:
    """Puts the modules into ``mode`` and disables gradients unless ``with_gradients``, in this thread. TorchScript
    modules have one mode for all threads.

    torch.compile, which runs the branches of torch.cond, reverts the patches of torch.fx while it works and reapplies
    them at its end. The patches may belong to another thread, whose trace may have ended meanwhile, so they are left
    alone here.
    """
    with (
        one_at_a_time,
        patch(REVERSION_OF_FX, contextlib.nullcontext),
        _enter_mode(model, mode),
        patch(COMPILE_SESSION, _enter_compile_session),
        torch.set_grad_enabled(with_gradients),
    ):
        yield


@contextlib.contextmanager
def _enter_compile_session() -> Iterator[None]:
    """Keeps ``is_compiling`` false in other threads while torch.compile traces for this one, as in torch.cond."""
    with patch(IS_COMPILING, True):
        yield


@contextlib.contextmanager
def enter_capture(model: torch.nn.Module, mode: Mode = "evaluation", with_gradients: bool = False) -> Iterator[None]:
    """Enters inference, and sets torch's flags that say that the model is being exported."""
    if torch.is_autocast_enabled("cpu"):
        raise UnsupportedError(
            "the model is captured inside torch.autocast, whose casts a capture cannot see; "
            "export outside of it, and convert the model itself (model.to(torch.bfloat16)) if you want its types"
        )
    from opbridge.torch_compat import onnx_exporter

    # If these flags are set, TorchScript calls the Python code that it was compiled from, and fails.
    exporting = torchscript_in(model) is None
    with (
        _lock_compilation(),
        one_at_a_time,
        _return_bool(torch.onnx.is_in_onnx_export, torch.compiler.is_compiling),
        patch_code(torch.compiler.is_exporting, "bool(original()) and not is_refused()", is_refused=_is_refused),
        patch_code(FX_IS_TRACING_OR_EXPORTING, "original() and not exports()", exports=torch.compiler.is_compiling),
        patch(onnx_exporter.IS_EXPORTING, True),
        patch(PREDISPATCH_MODES, _own_modes()),
        patch(ANNOTATION, lambda *_, **__: contextlib.nullcontext()),
        patch(IS_COMPILING, exporting),
        patch(IS_EXPORTING, exporting),
        patch(CHECKS_OF_DISTRIBUTIONS, _ChecksThatMayBeCaught()),
        patch_causal_bias(),
        keep_subclasses(),
        follow_batched_gradients(),
        enter_inference(model, mode, with_gradients),
        _leave_transforms(),
    ):
        yield


class _ChecksThatMayBeCaught:
    """Whether a distribution checks its values, which are not known in a capture: only where the model would catch the
    error, and if the checks are on."""

    def __init__(self) -> None:
        self._are_on = bool(getattr(CHECKS_OF_DISTRIBUTIONS.owner, CHECKS_OF_DISTRIBUTIONS.attribute))

    def __get__(self, instance: Any, owner: Any = None) -> bool:
        return self._are_on and (instance is None or in_try_block(sys._getframe(1), (ValueError,)))


@contextlib.contextmanager
def _return_bool(*functions: Any) -> Iterator[None]:
    """Makes functions that return a flag return a bool: a patched flag is a ``ByThread`` object, not a bool."""
    with contextlib.ExitStack() as until_the_end:
        for function in functions:
            until_the_end.enter_context(patch_code(function, "bool(original())"))
        yield


def _is_refused() -> bool:
    """Whether the caller of torch.compiler.is_exporting, which calls this, would refuse to run."""
    dynamo = dynamo_if_loaded()
    return dynamo is not None and sys._getframe(2).f_code is dynamo.CODE_OF_DISABLED


@contextlib.contextmanager
def _leave_transforms() -> Iterator[None]:
    """Leaves the transforms of torch.func that a failed capture has entered, which would act on all later operators."""
    before = entered_transforms()
    try:
        yield
    finally:
        leave_transforms(before)


def _own_modes() -> Any:
    """Storage for this thread's modes of the dispatch key PreDispatch; torch has one storage for all threads."""
    own = PredispatchModes()
    return lambda: own


def _lock_compilation() -> Any:
    """Makes torch.compile in other threads wait, since it uses the same global state of torch.fx as torch.export.

    The lock is torch's own. It is taken before opbridge's, since a backend of torch.compile may call opbridge.
    """
    dynamo = dynamo_if_loaded()
    return contextlib.nullcontext() if dynamo is None else dynamo.COMPILE_LOCK


@contextlib.contextmanager
def _enter_mode(model: torch.nn.Module, mode: Mode) -> Iterator[None]:
    before = {module: bool(getattr(module, "training", False)) for module in model.modules()}
    modes = before if mode == "own" else dict.fromkeys(before, mode == "training")
    scripted = [m for m in before if isinstance(m, torch.jit.ScriptModule) and before[m] != modes[m]]
    outer = vars(torch.nn.Module).get("training")
    try:
        for module in scripted:
            module.training = modes[module]
        torch.nn.Module.training = _Training(modes, outer)  # type: ignore[assignment]
        yield
    finally:
        if outer is None:
            del torch.nn.Module.training
        else:
            torch.nn.Module.training = outer
        for module in scripted:
            module.training = before[module]


class _Training:
    """The attribute ``training`` of every module: in this thread its value in ``modes``, elsewhere the module's own.

    Assignments by the model hold until the end of the capture.
    """

    def __init__(self, modes: dict[torch.nn.Module, bool], outer: _Training | None) -> None:
        self._outer = outer
        self._thread = current_thread()
        self._assigned = {id(module): mode for module, mode in modes.items()}

    def _is_here(self, module: torch.nn.Module) -> bool:
        return current_thread() == self._thread and id(module) in self._assigned

    def __get__(self, module: torch.nn.Module | None, owner: Any = None) -> bool:
        if module is None:
            raise AttributeError("training")
        if self._is_here(module):
            return self._assigned[id(module)]
        if self._outer is not None:
            return self._outer.__get__(module, owner)
        try:
            return bool(vars(module)["training"])
        except KeyError:
            raise AttributeError("training") from None  # TorchScript modules do not keep it in their __dict__

    def __set__(self, module: torch.nn.Module, value: bool) -> None:
        if self._is_here(module):
            self._assigned[id(module)] = value
        elif self._outer is not None:
            self._outer.__set__(module, value)
        else:
            vars(module)["training"] = value

    def __delete__(self, module: torch.nn.Module) -> None:
        """TorchScript deletes the attribute of modules that it makes, as for a call of an ignored method."""
        if self._outer is not None:
            self._outer.__delete__(module)
        elif vars(module).pop("training", None) is None:
            raise AttributeError("training")
