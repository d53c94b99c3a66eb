"""capture="trace": records one run of the model, operator by operator.

Without dynamic sizes the model runs on the real inputs, and Python branches are those of this run. With dynamic sizes,
or if sizes (``nonzero``) or numbers (``x.item()``) depend on data, it runs on fake tensors, whose sizes are symbols.

Operators are recorded at the level of torch.export, before they are decomposed. ``torch.compiler.is_exporting()`` is
true meanwhile, so that models take the same branches in both captures; ``torch.jit.is_tracing()`` is false, except
where it turns off a shortcut (``symbolic_sizes.tracing_flag``). TorchScript runs in Python; functions with nodes that
``capture.torchscript`` lacks run in TorchScript's own interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from opbridge import _core
from opbridge.capture.dispatch_mode import intercept_operators
from opbridge.capture.eager_types import show_eager_types
from opbridge.capture.inputs import Inputs
from opbridge.capture.loops import retry_with_loops
from opbridge.capture.loops.higher_order import record_control_flow
from opbridge.capture.loops.recording import record_loops
from opbridge.capture.program import Sizes
from opbridge.capture.rewrites.compiled import run_uncompiled
from opbridge.capture.rewrites.copies import patch_shallow_copies
from opbridge.capture.rewrites.recurrent import refuse_in_autocast
from opbridge.capture.rewrites.recurrent_gradients import STEPS
from opbridge.capture.rewrites.torch_functions import retry_with_substitutes
from opbridge.capture.rewrites.zero_derivatives import compute_with_zero_derivatives
from opbridge.capture.source import line_of_error, line_of_frame
from opbridge.capture.state.attributes import restore_attributes
from opbridge.capture.state.real_tensors import WRITES_TO_ARRAY
from opbridge.capture.state.reassigned_buffers import Registered
from opbridge.capture.structures import leaves_of
from opbridge.capture.suppressed_errors import Caught
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
from opbridge.capture.torchscript.branches import Truth
from opbridge.capture.torchscript.calls import patch_torchscript
from opbridge.capture.traced.derivatives import (
    are_differentiated,
    have_derivatives,
    have_wrappers,
    record_below,
    refuse_missing_gradient,
    show_dual_numbers,
    with_numbers,
)
from opbridge.capture.traced.function_mode import TensorAccessMode
from opbridge.capture.traced.numbers_read import NumbersRead, check_against_example
from opbridge.capture.traced.other_threads import refuse_other_threads
from opbridge.capture.traced.recorder import NumberDependsOnData, Recorder, SizesDependOnData
from opbridge.capture.traced.written_operators import written_operator
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload, is_fake
from opbridge.torch_compat.messages import is_of_write_to_array


def capture_trace(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str]) -> _core.Graph:
    """``changed`` is filled with the paths of the attributes that the run changes."""
    numbers = NumbersRead()
    graph = retry_with_substitutes(lambda: _capture(model, inputs, sizes, changed, numbers))
    check_against_example(model, inputs, numbers)
    return graph


def _capture(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], numbers: NumbersRead
) -> _core.Graph:
    if sizes.shapes is None:
        try:
            return _capture_real(model, inputs, sizes, changed)
        except SizesDependOnData:
            pass  # only symbols can stand for them
    return _capture_on_fakes(model, inputs, sizes, changed, numbers)


def _capture_real(model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str]) -> _core.Graph:
    """Captures on the real inputs, unless the model reads numbers from tensors that can be symbols."""

    def run(take_numbers: bool) -> _core.Graph:
        return follow(model, inputs, inputs.leaves, Sizes(), changed, Caught(), True, take_numbers=take_numbers)

    try:
        return run(take_numbers=False)
    except NumberDependsOnData:
        try:
            return _capture_on_fakes(model, inputs, sizes, changed, None)
        except UnsupportedError:
            return run(take_numbers=True)
    except ValueError as error:
        if not is_of_write_to_array(error):
            raise
        raise UnsupportedError(WRITES_TO_ARRAY, line_of_error(error)) from error


def capture_symbolically(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str]
) -> _core.Graph:
    """Like ``capture_trace``, but refuses branches on data."""
    return retry_with_substitutes(lambda: _capture_on_fakes(model, inputs, sizes, changed, None))


def _capture_on_fakes(
    model: torch.nn.Module, inputs: Inputs, sizes: DynamicSizes, changed: list[str], numbers: NumbersRead | None
) -> _core.Graph:
    from opbridge.capture.symbolic_sizes.builtin_calls import retry_with_builtins
    from opbridge.capture.traced.fake_tensors import capture_fake

    return retry_with_builtins(
        lambda: retry_with_loops(model, lambda: capture_fake(model, inputs, sizes, changed, numbers))
    )


def follow(
    model: torch.nn.Module,
    inputs: Inputs,
    leaves: list[Any],
    sizes: Sizes,
    changed: list[str],
    caught: Caught,
    for_real: bool,
    note: Callable[[OpOverload, Any], None] | None = None,
    take_numbers: bool = True,
) -> _core.Graph:
    """Calls the model with ``leaves``, real or fake tensors, as its inputs. ``note`` sees each operator and its
    arguments. Without ``take_numbers``, a number that is read from a real tensor raises NumberDependsOnData."""
    recorder = Recorder(model, sizes, for_real, take_numbers, with_bodies=not for_real and note is None)
    for name, leaf in zip(inputs.names, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            recorder.add_input(name, leaf)
    try:
        with restore_attributes(model, *(leaf for leaf in leaves if not is_fake(leaf))) as attributes:
            with (
                show_eager_types(attributes),
                record_loops(recorder, attributes, caught),
                TensorAccessMode(recorder.read, recorder.assign_data, caught.note, recorder.is_weight, recorder.pause),
                record_control_flow(),
                patch_shallow_copies(),
                patch_torchscript(recorder),
                refuse_other_threads(),
                show_dual_numbers(),
                _record_operators(recorder, note),
                _leave_torchscript_unfused(),
                run_uncompiled(),
            ):
                registered = Registered(model)
                args, kwargs = inputs.with_leaves(leaves)  # may compute, as for a cache of transformers
                returned = model(*args, **kwargs)
                returned, others = registered.write_back(returned, recorder.forget_shared())
                # Of a list or dict that the model keeps, which will get its former content.
                outputs = [each.scalar if type(each) is Truth else each for each in leaves_of(returned)]
            changed[:] = dict.fromkeys([*others, *recorder.changed, *attributes.changes()])
        caught.report(inputs.example is not None)
        return recorder.finish(outputs)
    finally:
        recorder.originals.restore()


@contextlib.contextmanager
def _record_operators(recorder: Recorder, note: Callable[[OpOverload, Any], None] | None) -> Iterator[None]:
    kernels = contextlib.ExitStack()
    prepare = functools.cache(lambda: kernels.enter_context(compute_with_zero_derivatives()))

    def below(compute: Callable[[], Any]) -> Any:
        result = record_below(recorder.call, compute)
        recorder.note_truth(result)
        return result

    def derive(compute: Callable[[], Any]) -> Any:
        prepare()
        return below(compute)

    def call(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if note is not None:
            note(function, args)
        if not have_derivatives(args, kwargs):
            if have_wrappers(args, kwargs):
                return below(lambda: recorder.run(function, args, kwargs))
            if torch.is_autocast_enabled("cpu"):  # its casts are operators of their own below it
                refuse_in_autocast(function, line_of_frame(sys._getframe(1)))
                return below(lambda: recorder.run(function, args, kwargs))
            return recorder.call(function, args, kwargs)
        if function in STEPS and not are_differentiated(args):
            return recorder.call(function, args, kwargs)
        written = STEPS.get(function) or written_operator(function, args)
        if written is not None:
            with intercept_operators(call):
                return written(*args, **kwargs)
        form, args = with_numbers(function, args, derive)
        result = derive(lambda: recorder.run(form, args, kwargs))
        if function.namespace == "opbridge":
            refuse_missing_gradient(function, result)
        return result

    with kernels, intercept_operators(call, derivative=derive):
        yield


def _leave_torchscript_unfused() -> contextlib.AbstractContextManager[None]:
    """Runs TorchScript without the passes that fuse operators."""
    jit: Any = torch.jit
    unoptimized: contextlib.AbstractContextManager[None] = jit.optimized_execution(False)
    return unoptimized
