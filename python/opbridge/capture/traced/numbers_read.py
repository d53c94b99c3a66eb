"""Compares the numbers that a model reads from tensors in a capture with those that it reads from the example."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from opbridge.capture.inputs import Inputs
from opbridge.capture.operators import operator_of
from opbridge.capture.source import users_frame
from opbridge.capture.state.isolated_call import restore_model
from opbridge.capture.symbolic_sizes.size_checks import passing_truth
from opbridge.capture.traced.function_mode import asks_truth_of_number
from opbridge.errors import UnsupportedError
from opbridge.torch_compat import OpOverload, unset_fake_temporarily
from opbridge.torch_compat.fake_tensors import data_of

_READING = frozenset({"aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"})


class NumbersRead:
    """The numbers that a run reads from tensors, as by ``bool(x)`` or ``x.item()``, in order; without those of a check
    that only raises an error, which a capture need not read."""

    def __init__(self) -> None:
        self.texts: list[str] = []  # texts, because NaN must equal NaN

    def restart(self) -> Callable[[OpOverload, Any], None]:
        """Forgets the numbers of an earlier run; returns the function that is to see each operator of the next one."""
        self.texts.clear()
        return self._note

    def _note(self, function: OpOverload, args: Any) -> None:
        if operator_of(function).key in _READING and not _only_checks():
            with unset_fake_temporarily():
                data = data_of(args[0])
                if data is not None:
                    self.texts.append(repr(data.item()))


def check_against_example(model: torch.nn.Module, inputs: Inputs, numbers: NumbersRead) -> None:
    """Refuses a model if its capture has read other numbers than the model reads from the example: the capture may have
    taken other branches. This can happen if the sizes of ``inputs`` differ from the example's."""
    if inputs.example is None or not numbers.texts:
        return
    of_example = NumbersRead()
    copies = inputs.example.copied()
    with restore_model(model, inputs.example, of_example.restart()), _Truths():
        model(*copies.args, **copies.kwargs)
    if of_example.texts != numbers.texts:
        raise UnsupportedError(
            "the model reads a tensor as a number, as for a branch on data, and a dynamic size is 1 in the example, "
            f"for which a capture takes 2: it reads {_few(numbers.texts)} there, but {_few(of_example.texts)} for the "
            "example; give an example whose dynamic sizes are greater than 1, or make these sizes constant"
        )


class _Truths(TorchFunctionMode):
    """Asks for the truth of a number as a capture does."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if asks_truth_of_number(func, args):
            return func(args[0] != 0)
        return func(*args, **(kwargs or {}))


def _only_checks() -> bool:
    frame = users_frame(sys._getframe(1))
    return frame is not None and passing_truth(frame) is not None


def _few(texts: list[str]) -> str:
    return ", ".join(texts[:4]) + (", …" if len(texts) > 4 else "") or "none"
