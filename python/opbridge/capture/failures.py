"""Error messages for models that torch cannot capture or that fail themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import sympy
import torch

from opbridge.capture.inputs import Inputs
from opbridge.capture.operators import operator_of
from opbridge.capture.run_warnings import hold_warnings, show_warnings
from opbridge.capture.source import line_of_error
from opbridge.capture.state.isolated_call import restore_model
from opbridge.capture.state.real_tensors import WRITES_TO_ARRAY
from opbridge.capture.symbolic_sizes.dynamic_axes import DynamicSizes
from opbridge.errors import Error, InvalidArgumentError, UnsupportedError
from opbridge.torch_compat import DataDependentOutputException, dynamo_if_loaded
from opbridge.torch_compat.messages import (
    asked_of_data,
    is_of_sizes_in_numpy,
    is_of_values_in_numpy,
    is_of_write_to_array,
    without_advice,
)
from opbridge.torch_compat.symbols import GuardOnDataDependentSymNode

T = TypeVar("T")


def check_that_it_runs(model: torch.nn.Module, inputs: Inputs, refused: Exception) -> None:
    """Raises the model's own error if it fails in eager mode: it says more than ``refused``, the capture's error.
    Refuses a model that changes the shape of an input, which torch.export does not expect."""
    if is_of_write_to_array(refused):
        raise UnsupportedError(WRITES_TO_ARRAY, line_of_error(refused)) from refused  # a run could not be undone
    given = inputs.example or inputs
    if (error := _failure(model, given)) is not None:
        raise failure_of(model, given, error) from error
    if inputs.example is not None and (error := _failure(model, inputs)) is not None:
        raise UnsupportedError(
            "a dynamic size is 1 in the example, and the model fails for other sizes: with "
            f"({_shapes(inputs)}), {first_lines(error)}; make that size constant, or give an example of another size",
            line_of_error(error),
        ) from error


def failure_of(model: torch.nn.Module, inputs: Inputs, error: Exception) -> InvalidArgumentError:
    """The error to raise for ``error``, which the model itself raised."""
    # The text of a KeyError, for example, is only the key.
    kind = f"{type(error).__name__}: " if str(error) and type(error) is not RuntimeError else ""
    text = f"the model itself fails on its inputs ({_shapes(inputs)}): {kind}{first_lines(error)}"
    if any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers())):
        text += "\nIts weights are on the meta device, without values: pass weights=, the path of .safetensors files."
    elif any(tensor.is_meta for tensor in inputs.tensors):
        text += "\nThe inputs are on the meta device: pass inputs on the CPU."
    return InvalidArgumentError(text, line_of_error(error))


def _failure(model: torch.nn.Module, inputs: Inputs) -> Exception | None:
    copies = inputs.copied()
    try:
        with restore_model(model, inputs):
            model(*copies.args, **copies.kwargs)
    except Error:
        return None  # of a function that a capture replaces
    except Exception as error:
        # torch.cond and similar operators let Dynamo trace their branches, which is not a run.
        dynamo = dynamo_if_loaded()
        return None if dynamo is not None and isinstance(error, dynamo.TRACING_ERROR) else error
    for name, leaf, copy in zip(inputs.names, inputs.leaves, copies.leaves, strict=True):
        if isinstance(leaf, torch.Tensor) and leaf.shape != copy.shape:
            raise UnsupportedError(
                f"the model changes the shape of the input '{name}', as by squeeze_() or t_(); "
                "use the operator without the underscore"
            )
    return None


def _shapes(inputs: Inputs) -> str:
    return ", ".join(str(list(tensor.shape)) for tensor in inputs.tensors) or "no tensors"


def otherwise(
    first: Callable[[], T], second: Callable[[], T], unless: Callable[[UnsupportedError], bool] = lambda _: False
) -> T:
    """``first()``, or ``second()`` if the first refuses the model, ``unless`` the refusal tells that the second would
    too. If both refuse, raises the error of the first. Shows only the warnings of what it returns or raises."""
    refusal: UnsupportedError | None = None
    with hold_warnings() as held:
        try:
            result = first()
        except UnsupportedError as error:
            refusal = error
    if refusal is not None and not unless(refusal):
        # Outside of the handler: errors here do not get the refusal as context.
        with hold_warnings() as of_second, contextlib.suppress(UnsupportedError):
            result = second()
            held, refusal = of_second, None
    show_warnings(held)
    if refusal is not None:
        raise refusal
    return result


def refusal_of(error: Exception, instead: str, sizes: DynamicSizes) -> UnsupportedError:
    """The error to raise for torch's ``error`` about a model that runs in eager mode. Its text, with the user's names
    of ``sizes``, follows ``instead`` unless opbridge has a better one."""
    if is_of_sizes_in_numpy(error):
        text = "NumPy cannot compute with a dynamic size; use functions of torch, as torch.arange for numpy.arange"
    elif is_of_values_in_numpy(error):
        text = "the model converts a tensor to a NumPy array, known only when it runs; compute with tensors instead"
    else:
        text = f"{instead} {sizes.text_of(first_lines(error))}"
    return UnsupportedError(text, line_of_error(error))


def first_lines(error: Exception) -> str:
    """The text of torch's error, without its advice on torch's logs and functions."""
    if isinstance(error, GuardOnDataDependentSymNode):
        return _needed_number(error.cond, asked_of_data(error) or str(error.cond))
    if isinstance(error, DataDependentOutputException):
        return (
            f"the model reads what {operator_of(error.func).key} returns, which depends on data, as a Python value, as "
            f"for a branch; {_OF_TENSORS}"
        )
    text = without_advice(str(error))
    return "\n".join(text.splitlines()[:12]) or type(error).__name__


_OF_TENSORS = "compute both ways and choose with torch.where(…), or write the branch as torch.cond(…)"


def _needed_number(asked: Any, shown: str) -> str:
    """What to do about a condition, or a number, that depends on data and is needed as a Python value."""
    if isinstance(asked, sympy.Eq) and asked.lhs.is_Symbol and asked.rhs == 1:  # the truth of a tensor
        return f"the model branches on a tensor, whose value is known only when it runs; {_OF_TENSORS}"
    if isinstance(asked, sympy.logic.boolalg.Boolean):
        return (
            f"the model branches by '{shown}', where a number is known only when it runs; state its bounds with "
            "torch._check(…), or write the branch as torch.cond(…)"
        )
    return (
        f"the model needs the number '{shown}', which is known only when it runs, as a Python number, as by range(); "
        "compute with tensors instead"
    )
